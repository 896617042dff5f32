package wire

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The columns of the rows that a Change writes. If rows of several tenants share a
// statement, the tenant comes first.
var (
	TenantColumn = ParseColumns("tenant_id:bytea")

	TokenColumns  = Columns(sqlstore.TokenRow)
	TokenReplaced = Columns(sqlstore.TokenReplaced)
	// TokenUpdateColumns start with the columns that find the row of an update.
	TokenUpdateColumns = slices.Concat(TokenDeleteColumns, TokenReplaced)
	TokenDeleteColumns = ParseColumns("ord:bytea old_rev:bigint")

	HashColumns  = ParseColumns("hash:bytea ord:bytea")
	CountColumns = ParseColumns("shard:bigint set_id:bytea type:text n:bigint")

	SetColumns        = ParseColumns("set_id:bytea containers:text")
	ShardedSetColumns = slices.Concat(SetColumns, ParseColumns("shard:bigint"))

	LogColumns = Columns(sqlstore.LogRow)

	RecordColumns       = Columns(sqlstore.RecordRow)
	RecordReplaced      = Columns(sqlstore.RecordReplaced)
	RecordDeleteColumns = ParseColumns("kind:text id:bytea rev:bigint")
	LookupColumns       = ParseColumns("hash:bytea kind:text id:bytea")

	ClaimColumns = Columns(sqlstore.ClaimRow)

	JobColumns       = Columns(sqlstore.JobRow)
	JobUpdateColumns = ParseColumns("id:bytea owner:bytea run_at:bigint attempts:bigint dead:boolean key_version:bigint payload:bytea lease_until:bigint")
	JobDeleteColumns = ParseColumns("id:bytea owner:bytea")

	ResealClaimColumns = ParseColumns("key:bytea key_version:bigint body:bytea below:bigint")
	ResealJobColumns   = ParseColumns("id:bytea key_version:bigint body:bytea below:bigint")
)

// PutTokenUpdate adds a row of TokenUpdateColumns.
func PutTokenUpdate(r sqlstore.Put, u *storage.TokenUpdate) {
	r.Bytes(u.Token.Ord[:], sqlstore.NotNull)
	r.Int(u.Rev, sqlstore.NotNull)
	sqlstore.PutTokenReplaced(r, u)
}

// PutTokenDelete adds a row of TokenDeleteColumns.
func PutTokenDelete(r sqlstore.Put, d *storage.TokenDelete) {
	r.Bytes(d.Ord[:], sqlstore.NotNull)
	r.Int(d.Rev, sqlstore.NotNull)
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
func PutHashes(r sqlstore.Put, t *storage.Token) {
	sqlstore.EachHash(t.Hashes, func(h *storage.Hash) {
		r.Bytes(h[:], sqlstore.NotNull)
		r.Bytes(t.Ord[:], sqlstore.NotNull)
	})
}

// PutSet adds a row of SetColumns.
func PutSet(r sqlstore.Put, s *storage.ContainerSet) {
	r.Bytes(s.Set[:], sqlstore.NotNull)
	r.Text(sqlstore.JoinContainers(s.Containers), sqlstore.NotNull)
}

// PutRecordUpdate adds a row of RecordColumns, with the revision to replace.
func PutRecordUpdate(r sqlstore.Put, u *storage.RecordUpdate) {
	sqlstore.PutRecordAt(r, &u.Record, u.Rev)
}

// PutRecordDelete adds a row of RecordDeleteColumns.
func PutRecordDelete(r sqlstore.Put, d *storage.RecordDelete) {
	r.Text(d.Kind, sqlstore.NotNull)
	r.Bytes(d.ID[:], sqlstore.NotNull)
	r.Int(d.Rev, sqlstore.NotNull)
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
func PutLookup(r sqlstore.Put, l *Lookup) {
	r.Bytes(l.Key[:], sqlstore.NotNull)
	r.Text(l.Record.Kind, sqlstore.NotNull)
	r.Bytes(l.Record.ID[:], sqlstore.NotNull)
}

// PutJobUpdate adds a row of JobUpdateColumns.
func PutJobUpdate(r sqlstore.Put, u *storage.JobUpdate) {
	j := &u.Job
	r.Bytes(j.ID[:], sqlstore.NotNull)
	r.Bytes(u.Owner[:], sqlstore.NotNull)
	r.Int(j.RunAt.UnixMicro(), sqlstore.NotNull)
	r.Int(int64(j.Attempts), sqlstore.NotNull)
	r.Bool(j.Dead)
	r.Int(int64(j.KeyVersion), sqlstore.NotNull)
	r.Bytes(j.Payload, sqlstore.NotNull)
	r.Int(u.Until.UnixMicro(), u.Until.IsZero())
}

// PutJobDelete adds a row of JobDeleteColumns.
func PutJobDelete(r sqlstore.Put, d *storage.JobDelete) {
	r.Bytes(d.ID[:], sqlstore.NotNull)
	r.Bytes(d.Owner[:], d.Owner.IsZero())
}

// PutSealed adds a row of ResealClaimColumns or ResealJobColumns.
func PutSealed(r sqlstore.Put, s *storage.Sealed) {
	if s.Kind == storage.SealedJobs {
		r.Bytes(s.Key[:len(storage.ID{})], sqlstore.NotNull)
	} else {
		r.Bytes(s.Key[:], sqlstore.NotNull)
	}
	r.Int(int64(s.KeyVersion), sqlstore.NotNull)
	r.Bytes(s.Body, sqlstore.NotNull)
	r.Int(int64(s.Below()), sqlstore.NotNull)
}
