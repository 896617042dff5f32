package wire

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The columns of the rows that a Change writes, in the order of the functions
// below. If rows of several tenants share a statement, the tenant comes first.
var (
	TenantColumn = Columns{{"tenant_id", Bytea}}

	TokenColumns = Columns{
		{"ord", Bytea}, {"id", Text}, {"type", Text}, {"set_id", Bytea}, {"containers", Text},
		{"fingerprint", Bytea}, {"expression", Bytea}, {"dedup", Bytea}, {"hashes", Bytea},
		{"key_version", Bigint}, {"body", Bytea}, {"cvc", Bytea}, {"cvc_expires_at", Bigint}, {"expires_at", Bigint},
		{"created_by", Bytea}, {"created_at", Bigint}, {"modified_by", Bytea}, {"modified_at", Bigint}, {"rev", Bigint},
	}
	// The columns that find the row of an update, and the columns that it
	// replaces.
	TokenUpdateColumns = append(Columns{{"ord", Bytea}, {"old_rev", Bigint}}, TokenReplaced...)
	TokenReplaced      = Columns{
		{"set_id", Bytea}, {"containers", Text}, {"fingerprint", Bytea}, {"expression", Bytea}, {"dedup", Bytea},
		{"hashes", Bytea}, {"key_version", Bigint}, {"body", Bytea}, {"cvc", Bytea},
		{"cvc_expires_at", Bigint}, {"expires_at", Bigint}, {"modified_by", Bytea}, {"modified_at", Bigint},
	}
	TokenDeleteColumns = Columns{{"ord", Bytea}, {"old_rev", Bigint}}

	HashColumns  = Columns{{"hash", Bytea}, {"ord", Bytea}}
	CountColumns = Columns{{"shard", Bigint}, {"set_id", Bytea}, {"type", Text}, {"n", Bigint}}

	SetColumns        = Columns{{"set_id", Bytea}, {"containers", Text}}
	ShardedSetColumns = append(SetColumns[:2:2], Column{"shard", Bigint})

	LogColumns = Columns{
		{"id", Bytea}, {"created_at", Bigint}, {"actor_id", Bytea}, {"actor_type", Text},
		{"entity_type", Text}, {"entity_id", Text}, {"operation", Text}, {"message", Text}, {"actor_name", Text},
		{"origin", Text}, {"mac", Bytea},
	}

	RecordColumns = Columns{
		{"kind", Text}, {"id", Bytea}, {"name", Text}, {"name_fold", Text}, {"key_hash", Bytea}, {"alt_hash", Bytea},
		{"expires_at", Bigint}, {"key_version", Bigint}, {"body", Bytea}, {"created_at", Bigint}, {"rev", Bigint},
	}
	RecordDeleteColumns = Columns{{"kind", Text}, {"id", Bytea}, {"rev", Bigint}}
	LookupColumns       = Columns{{"hash", Bytea}, {"kind", Text}, {"id", Bytea}}

	ClaimColumns = Columns{
		{"key", Bytea}, {"owner", Bytea}, {"lease_until", Bigint}, {"expires_at", Bigint},
		{"key_version", Bigint}, {"answer", Bytea},
	}

	JobColumns = Columns{
		{"id", Bytea}, {"kind", Text}, {"run_at", Bigint}, {"attempts", Bigint}, {"dead", boolean},
		{"owner", Bytea}, {"lease_until", Bigint}, {"key_version", Bigint}, {"payload", Bytea},
	}
	JobUpdateColumns = Columns{
		{"id", Bytea}, {"owner", Bytea}, {"run_at", Bigint}, {"attempts", Bigint}, {"dead", boolean},
		{"key_version", Bigint}, {"payload", Bytea}, {"lease_until", Bigint},
	}
	JobDeleteColumns = Columns{{"id", Bytea}, {"owner", Bytea}}

	ResealClaimColumns = Columns{{"key", Bytea}, {"key_version", Bigint}, {"body", Bytea}, {"below", Bigint}}
	ResealJobColumns   = Columns{{"id", Bytea}, {"key_version", Bigint}, {"body", Bytea}, {"below", Bigint}}
)

// PutToken adds a row of TokenColumns.
func PutToken(r *Rows, t *storage.Token) {
	r.Bytes(t.Ord[:])
	r.Text(t.ID)
	r.Text(t.Type)
	r.Bytes(t.Set[:])
	r.Text(sqlstore.JoinContainers(t.Containers))
	r.Bytes(t.Fingerprint[:])
	r.Bytes(t.Expression[:])
	r.Hash(&t.Dedup)
	r.Bytes(joinHashes(t.Hashes))
	r.Int(int64(t.KeyVersion))
	r.Bytes(t.Body)
	r.optional(t.CVC)
	r.time(t.CVCExpiresAt)
	r.time(t.ExpiresAt)
	r.ID(&t.CreatedBy)
	r.Int(t.CreatedAt.UnixMicro())
	r.ID(&t.ModifiedBy)
	r.time(t.ModifiedAt)
	r.Int(t.Rev)
}

// PutTokenUpdate adds a row of TokenUpdateColumns.
func PutTokenUpdate(r *Rows, u *storage.TokenUpdate) {
	t := &u.Token
	r.Bytes(t.Ord[:])
	r.Int(u.Rev)
	r.Bytes(t.Set[:])
	r.Text(sqlstore.JoinContainers(t.Containers))
	r.Bytes(t.Fingerprint[:])
	r.Bytes(t.Expression[:])
	r.Hash(&t.Dedup)
	if u.KeepHashes {
		r.null()
	} else {
		r.Bytes(joinHashes(t.Hashes))
	}
	r.Int(int64(t.KeyVersion))
	r.Bytes(t.Body)
	r.optional(t.CVC)
	r.time(t.CVCExpiresAt)
	r.time(t.ExpiresAt)
	r.ID(&t.ModifiedBy)
	r.time(t.ModifiedAt)
}

// PutTokenDelete adds a row of TokenDeleteColumns.
func PutTokenDelete(r *Rows, d *storage.TokenDelete) {
	r.Bytes(d.Ord[:])
	r.Int(d.Rev)
}

// EachHash calls put for each distinct hash of a token.
func EachHash(hashes []storage.Hash, put func(*storage.Hash)) {
	for i := range hashes {
		if !slices.Contains(hashes[:i], hashes[i]) {
			put(&hashes[i])
		}
	}
}

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
	EachHash(t.Hashes, func(h *storage.Hash) {
		r.Bytes(h[:])
		r.Bytes(t.Ord[:])
	})
}

// joinHashes concatenates the distinct hashes of a token.
func joinHashes(hashes []storage.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*len(storage.Hash{}))
	EachHash(hashes, func(h *storage.Hash) { joined = append(joined, h[:]...) })
	return joined
}

// PutSet adds a row of SetColumns.
func PutSet(r *Rows, s *storage.ContainerSet) {
	r.Bytes(s.Set[:])
	r.Text(sqlstore.JoinContainers(s.Containers))
}

// PutLog adds a row of LogColumns.
func PutLog(r *Rows, l *storage.Log) {
	r.Bytes(l.ID[:])
	r.Int(l.CreatedAt.UnixMicro())
	r.ID(&l.ActorID)
	r.Text(l.ActorType)
	r.Text(l.EntityType)
	r.Text(l.EntityID)
	r.Text(l.Operation)
	r.Text(l.Message)
	r.OptionalText(l.ActorName)
	r.OptionalText(l.Origin)
	r.Hash(&l.Mac)
}

// PutRecord adds a row of RecordColumns.
func PutRecord(r *Rows, record *storage.Record) { putRecordAt(r, record, record.Rev) }

// PutRecordUpdate adds a row of RecordColumns, with the revision to replace.
func PutRecordUpdate(r *Rows, u *storage.RecordUpdate) { putRecordAt(r, &u.Record, u.Rev) }

func putRecordAt(r *Rows, record *storage.Record, rev int64) {
	r.Text(record.Kind)
	r.Bytes(record.ID[:])
	r.Text(record.Name)
	r.Text(sqlstore.FoldName(record.Name))
	r.key(&record.Key)
	r.key(&record.AltKey)
	r.time(record.ExpiresAt)
	r.Int(int64(record.KeyVersion))
	r.Bytes(record.Body)
	r.Int(record.CreatedAt.UnixMicro())
	r.Int(rev)
}

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

// PutClaim adds a row of ClaimColumns.
func PutClaim(r *Rows, c *storage.Claim) {
	r.Bytes(c.Key[:])
	r.Bytes(c.Owner[:])
	r.time(c.LeaseUntil)
	r.time(c.ExpiresAt)
	r.Int(int64(c.KeyVersion))
	r.optional(c.Answer)
}

// PutJob adds a row of JobColumns.
func PutJob(r *Rows, j *storage.Job) {
	r.Bytes(j.ID[:])
	r.Text(j.Kind)
	r.Int(j.RunAt.UnixMicro())
	r.Int(int64(j.Attempts))
	r.bool(j.Dead)
	r.ID(&j.Owner)
	r.time(j.LeaseUntil)
	r.Int(int64(j.KeyVersion))
	r.Bytes(j.Payload)
}

// PutJobUpdate adds a row of JobUpdateColumns.
func PutJobUpdate(r *Rows, u *storage.JobUpdate) {
	j := &u.Job
	r.Bytes(j.ID[:])
	r.Bytes(u.Owner[:])
	r.Int(j.RunAt.UnixMicro())
	r.Int(int64(j.Attempts))
	r.bool(j.Dead)
	r.Int(int64(j.KeyVersion))
	r.Bytes(j.Payload)
	r.time(u.Until)
}

// PutJobDelete adds a row of JobDeleteColumns.
func PutJobDelete(r *Rows, d *storage.JobDelete) {
	r.Bytes(d.ID[:])
	r.ID(&d.Owner)
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
