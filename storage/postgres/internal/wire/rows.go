package wire

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The columns of the rows that a Change writes. If rows of several tenants share a
// statement, the tenant comes first.
var (
	TenantColumn = Columns{{"tenant_id", Bytea}}

	TokenColumns  = Of(sqlstore.TokenRow)
	TokenReplaced = Of(sqlstore.TokenReplaced)
	// TokenUpdateColumns start with the columns that find the row of an update.
	TokenUpdateColumns = slices.Concat(TokenDeleteColumns, TokenReplaced)
	TokenDeleteColumns = Columns{{"ord", Bytea}, {"old_rev", Bigint}}

	HashColumns  = Columns{{"hash", Bytea}, {"ord", Bytea}}
	CountColumns = Columns{{"shard", Bigint}, {"set_id", Bytea}, {"type", Text}, {"n", Bigint}}

	SetColumns        = Columns{{"set_id", Bytea}, {"containers", Text}}
	ShardedSetColumns = append(SetColumns[:2:2], Column{"shard", Bigint})

	LogColumns = Of(sqlstore.LogRow)

	RecordColumns       = Of(sqlstore.RecordRow)
	RecordReplaced      = Of(sqlstore.RecordReplaced)
	RecordDeleteColumns = Columns{{"kind", Text}, {"id", Bytea}, {"rev", Bigint}}
	LookupColumns       = Columns{{"hash", Bytea}, {"kind", Text}, {"id", Bytea}}

	ClaimColumns = Of(sqlstore.ClaimRow)

	JobColumns       = Of(sqlstore.JobRow)
	JobUpdateColumns = Columns{
		{"id", Bytea}, {"owner", Bytea}, {"run_at", Bigint}, {"attempts", Bigint}, {"dead", boolean},
		{"key_version", Bigint}, {"payload", Bytea}, {"lease_until", Bigint},
	}
	JobDeleteColumns = Columns{{"id", Bytea}, {"owner", Bytea}}

	ResealClaimColumns = Columns{{"key", Bytea}, {"key_version", Bigint}, {"body", Bytea}, {"below", Bigint}}
	ResealJobColumns   = Columns{{"id", Bytea}, {"key_version", Bigint}, {"body", Bytea}, {"below", Bigint}}
)

// Of returns columns with the types of PostgreSQL.
func Of(columns sqlstore.Columns) (cs Columns) {
	for _, c := range columns {
		cs = append(cs, Column{c.Name, kinds[c.Kind]})
	}
	return cs
}

// PutTokenUpdate adds a row of TokenUpdateColumns.
func PutTokenUpdate(r *Rows, u *storage.TokenUpdate) {
	r.Bytes(u.Token.Ord[:])
	r.Int(u.Rev)
	sqlstore.PutTokenReplaced(r, u)
}

// PutTokenDelete adds a row of TokenDeleteColumns.
func PutTokenDelete(r *Rows, d *storage.TokenDelete) {
	r.Bytes(d.Ord[:])
	r.Int(d.Rev)
}

// PutToken adds a row of TokenColumns.
func PutToken(r *Rows, t *storage.Token) { sqlstore.PutToken(r, t) }

// PutLog adds a row of LogColumns.
func PutLog(r *Rows, l *storage.Log) { sqlstore.PutLog(r, l) }

// PutClaim adds a row of ClaimColumns.
func PutClaim(r *Rows, c *storage.Claim) { sqlstore.PutClaim(r, c) }

// PutJob adds a row of JobColumns.
func PutJob(r *Rows, j *storage.Job) { sqlstore.PutJob(r, j) }

// NewHashes returns the hashes of the updated tokens that do not keep their old
// ones.
func NewHashes(updates []storage.TokenUpdate) *Rows {
	r := NewRows(HashColumns, len(updates))
	for i := range updates {
		if !updates[i].KeepHashes {
			PutHashes(r, &updates[i].Token)
		}
	}
	return r
}

// PutHashes adds a row of HashColumns for each hash of a token.
func PutHashes(r *Rows, t *storage.Token) {
	sqlstore.EachHash(t.Hashes, func(h *storage.Hash) {
		r.Bytes(h[:])
		r.Bytes(t.Ord[:])
	})
}

// PutSet adds a row of SetColumns.
func PutSet(r *Rows, s *storage.ContainerSet) {
	r.Bytes(s.Set[:])
	r.Text(sqlstore.JoinContainers(s.Containers))
}

// PutRecord adds a row of RecordColumns.
func PutRecord(r *Rows, record *storage.Record) { sqlstore.PutRecord(r, record, record.Rev) }

// PutRecordUpdate adds a row of RecordColumns, with the revision to replace.
func PutRecordUpdate(r *Rows, u *storage.RecordUpdate) { sqlstore.PutRecord(r, &u.Record, u.Rev) }

// PutRecordDelete adds a row of RecordDeleteColumns.
func PutRecordDelete(r *Rows, d *storage.RecordDelete) {
	r.Text(d.Kind)
	r.Bytes(d.ID[:])
	r.Int(d.Rev)
}

// Lookup is a key that finds a record.
type Lookup struct {
	Key    *storage.Key
	Record *storage.Record
}

// LookupsOf appends the keys that find a record.
func LookupsOf(lookups []Lookup, r *storage.Record) []Lookup {
	if !r.Key.IsZero() {
		lookups = append(lookups, Lookup{&r.Key, r})
	}
	if !r.AltKey.IsZero() && r.AltKey != r.Key {
		lookups = append(lookups, Lookup{&r.AltKey, r})
	}
	return lookups
}

// PutLookup adds a row of LookupColumns.
func PutLookup(r *Rows, l *Lookup) {
	r.Bytes(l.Key[:])
	r.Text(l.Record.Kind)
	r.Bytes(l.Record.ID[:])
}

// PutJobUpdate adds a row of JobUpdateColumns.
func PutJobUpdate(r *Rows, u *storage.JobUpdate) {
	j := &u.Job
	r.Bytes(j.ID[:])
	r.Bytes(u.Owner[:])
	r.Int(j.RunAt.UnixMicro())
	r.Int(int64(j.Attempts))
	r.Bool(j.Dead)
	r.Int(int64(j.KeyVersion))
	r.Bytes(j.Payload)
	sqlstore.PutTime(r, u.Until)
}

// PutJobDelete adds a row of JobDeleteColumns.
func PutJobDelete(r *Rows, d *storage.JobDelete) {
	r.Bytes(d.ID[:])
	sqlstore.PutID(r, &d.Owner)
}

// PutSealed adds a row of ResealClaimColumns or ResealJobColumns.
func PutSealed(r *Rows, s *storage.Sealed) {
	if s.Kind == storage.SealedJobs {
		r.Bytes(s.Key[:len(storage.ID{})])
	} else {
		r.Bytes(s.Key[:])
	}
	r.Int(int64(s.KeyVersion))
	r.Bytes(s.Body)
	r.Int(int64(s.Below()))
}
