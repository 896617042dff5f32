package seal

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

// Resealer reseals rows of a tenant. It decrypts with From, and encrypts with
// the primary key of To. Rows that already have that key stay unchanged.
type Resealer struct {
	Tenant   uuid.UUID
	From, To *Ring
}

// InChange reports whether a change writes sealed data.
func InChange(ch *storage.Change) bool {
	return len(ch.InsertTokens)+len(ch.UpdateTokens)+len(ch.InsertRecords)+len(ch.UpdateRecords)+
		len(ch.InsertJobs)+len(ch.UpdateJobs)+len(ch.Reseal) > 0 || ch.Claim != nil
}

// Change reseals everything that a change writes.
func (r *Resealer) Change(ch *storage.Change) error {
	if c := ch.Claim; c != nil {
		location := ClaimLocation(c.Claim.Key)
		if err := r.one(&location, &c.Claim.KeyVersion, &c.Claim.Answer); err != nil {
			return err
		}
	}
	return cmp.Or(
		each(ch.InsertTokens, r.Token),
		each(ch.UpdateTokens, func(u *storage.TokenUpdate) error { return r.Token(&u.Token) }),
		each(ch.InsertRecords, r.Record),
		each(ch.UpdateRecords, func(u *storage.RecordUpdate) error { return r.Record(&u.Record) }),
		each(ch.InsertJobs, r.Job),
		each(ch.UpdateJobs, func(u *storage.JobUpdate) error { return r.Job(&u.Job) }),
		each(ch.Reseal, r.Row),
	)
}

func each[T any](rows []T, reseal func(*T) error) error {
	for i := range rows {
		if err := reseal(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// Token reseals the body and the cvc of a token.
func (r *Resealer) Token(row *storage.Token) error {
	if row.KeyVersion == r.To.Version() {
		return nil
	}
	var parts Parts
	location := TokenLocation(row, &parts)
	if err := r.reseal(&location, row.KeyVersion, &row.Body); err != nil {
		return err
	}
	if row.CVC != nil {
		location := CVCLocation(row, &parts)
		if err := r.reseal(&location, row.KeyVersion, &row.CVC); err != nil {
			return err
		}
	}
	row.KeyVersion = r.To.Version()
	return nil
}

// Record reseals the document of a record.
func (r *Resealer) Record(rec *storage.Record) error {
	location := RecordLocation(rec)
	return r.one(&location, &rec.KeyVersion, &rec.Body)
}

// Job reseals the payload of a job.
func (r *Resealer) Job(job *storage.Job) error {
	location := JobLocation(job.ID)
	return r.one(&location, &job.KeyVersion, &job.Payload)
}

// Row reseals the sealed part of a claim or a job.
func (r *Resealer) Row(row *storage.Sealed) error {
	location := rowLocation(row)
	return r.one(&location, &row.KeyVersion, &row.Body)
}

// one reseals a row with one sealed part. It skips an empty part.
func (r *Resealer) one(location *Location, version *int, sealed *[]byte) error {
	if *version == r.To.Version() || len(*sealed) == 0 {
		return nil
	}
	if err := r.reseal(location, *version, sealed); err != nil {
		return err
	}
	*version = r.To.Version()
	return nil
}

func (r *Resealer) reseal(location *Location, version int, sealed *[]byte) error {
	location.Tenant = r.Tenant
	plain, err := r.From.Open(location, version, *sealed)
	if err != nil {
		return fmt.Errorf("%s of %s %q: %w", location.Field, location.Entity, location.ID, err)
	}
	*sealed, err = r.To.Seal(location, plain)
	return err
}
