package postgres

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The columns of the rows that a Change writes, in the order of the functions
// below. If rows of several tenants share a statement, the tenant comes first.
var (
	tenantColumn = columns{{"tenant_id", bytea}}

	tokenColumns = columns{
		{"ord", bytea}, {"id", text}, {"type", text}, {"set_id", bytea}, {"containers", text},
		{"fingerprint", bytea}, {"expression", bytea}, {"dedup", bytea}, {"hashes", bytea},
		{"key_version", bigint}, {"body", bytea}, {"cvc", bytea}, {"cvc_expires_at", bigint}, {"expires_at", bigint},
		{"created_by", bytea}, {"created_at", bigint}, {"modified_by", bytea}, {"modified_at", bigint}, {"rev", bigint},
	}
	// The columns that find the row of an update, and the columns that it
	// replaces.
	tokenUpdateColumns = append(columns{{"ord", bytea}, {"old_rev", bigint}}, tokenReplaced...)
	tokenReplaced      = columns{
		{"set_id", bytea}, {"containers", text}, {"fingerprint", bytea}, {"expression", bytea}, {"dedup", bytea},
		{"hashes", bytea}, {"key_version", bigint}, {"body", bytea}, {"cvc", bytea},
		{"cvc_expires_at", bigint}, {"expires_at", bigint}, {"modified_by", bytea}, {"modified_at", bigint},
	}
	tokenDeleteColumns = columns{{"ord", bytea}, {"old_rev", bigint}}

	hashColumns  = columns{{"hash", bytea}, {"ord", bytea}}
	countColumns = columns{{"shard", bigint}, {"set_id", bytea}, {"type", text}, {"n", bigint}}

	setColumns        = columns{{"set_id", bytea}, {"containers", text}}
	shardedSetColumns = append(setColumns[:2:2], column{"shard", bigint})

	logColumns = columns{
		{"id", bytea}, {"created_at", bigint}, {"actor_id", bytea}, {"actor_type", text},
		{"entity_type", text}, {"entity_id", text}, {"operation", text}, {"message", text}, {"actor_name", text},
		{"origin", text}, {"mac", bytea},
	}

	recordColumns = columns{
		{"kind", text}, {"id", bytea}, {"name", text}, {"name_fold", text}, {"key_hash", bytea}, {"alt_hash", bytea},
		{"expires_at", bigint}, {"key_version", bigint}, {"body", bytea}, {"created_at", bigint}, {"rev", bigint},
	}
	recordDeleteColumns = columns{{"kind", text}, {"id", bytea}, {"rev", bigint}}
	lookupColumns       = columns{{"hash", bytea}, {"kind", text}, {"id", bytea}}

	claimColumns = columns{
		{"key", bytea}, {"owner", bytea}, {"lease_until", bigint}, {"expires_at", bigint},
		{"key_version", bigint}, {"answer", bytea},
	}

	jobColumns = columns{
		{"id", bytea}, {"kind", text}, {"run_at", bigint}, {"attempts", bigint}, {"dead", boolean},
		{"owner", bytea}, {"lease_until", bigint}, {"key_version", bigint}, {"payload", bytea},
	}
	jobUpdateColumns = columns{
		{"id", bytea}, {"owner", bytea}, {"run_at", bigint}, {"attempts", bigint}, {"dead", boolean},
		{"key_version", bigint}, {"payload", bytea}, {"lease_until", bigint},
	}
	jobDeleteColumns = columns{{"id", bytea}, {"owner", bytea}}

	resealClaimColumns = columns{{"key", bytea}, {"key_version", bigint}, {"body", bytea}, {"below", bigint}}
	resealJobColumns   = columns{{"id", bytea}, {"key_version", bigint}, {"body", bytea}, {"below", bigint}}
)

func putToken(r *rows, t *storage.Token) {
	r.bytes(t.Ord[:])
	r.text(t.ID)
	r.text(t.Type)
	r.bytes(t.Set[:])
	r.text(sqlstore.JoinContainers(t.Containers))
	r.bytes(t.Fingerprint[:])
	r.bytes(t.Expression[:])
	r.hash(&t.Dedup)
	r.bytes(joinHashes(t.Hashes))
	r.int(int64(t.KeyVersion))
	r.bytes(t.Body)
	r.optional(t.CVC)
	r.time(t.CVCExpiresAt)
	r.time(t.ExpiresAt)
	r.id(&t.CreatedBy)
	r.int(t.CreatedAt.UnixMicro())
	r.id(&t.ModifiedBy)
	r.time(t.ModifiedAt)
	r.int(t.Rev)
}

func putTokenUpdate(r *rows, u *storage.TokenUpdate) {
	t := &u.Token
	r.bytes(t.Ord[:])
	r.int(u.Rev)
	r.bytes(t.Set[:])
	r.text(sqlstore.JoinContainers(t.Containers))
	r.bytes(t.Fingerprint[:])
	r.bytes(t.Expression[:])
	r.hash(&t.Dedup)
	if u.KeepHashes {
		r.null()
	} else {
		r.bytes(joinHashes(t.Hashes))
	}
	r.int(int64(t.KeyVersion))
	r.bytes(t.Body)
	r.optional(t.CVC)
	r.time(t.CVCExpiresAt)
	r.time(t.ExpiresAt)
	r.id(&t.ModifiedBy)
	r.time(t.ModifiedAt)
}

func putTokenDelete(r *rows, d *storage.TokenDelete) {
	r.bytes(d.Ord[:])
	r.int(d.Rev)
}

// eachHash calls put for each distinct hash of a token.
func eachHash(hashes []storage.Hash, put func(*storage.Hash)) {
	for i := range hashes {
		if !slices.Contains(hashes[:i], hashes[i]) {
			put(&hashes[i])
		}
	}
}

// newHashes returns the hashes of the updated tokens that do not keep their old
// ones.
func newHashes(updates []storage.TokenUpdate) *rows {
	r := newRows(hashColumns, len(updates))
	for i := range updates {
		if !updates[i].KeepHashes {
			putHashes(r, &updates[i].Token)
		}
	}
	return r
}

func putHashes(r *rows, t *storage.Token) {
	eachHash(t.Hashes, func(h *storage.Hash) {
		r.bytes(h[:])
		r.bytes(t.Ord[:])
	})
}

// joinHashes concatenates the distinct hashes of a token.
func joinHashes(hashes []storage.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*len(storage.Hash{}))
	eachHash(hashes, func(h *storage.Hash) { joined = append(joined, h[:]...) })
	return joined
}

func putSet(r *rows, s *storage.ContainerSet) {
	r.bytes(s.Set[:])
	r.text(sqlstore.JoinContainers(s.Containers))
}

func putLog(r *rows, l *storage.Log) {
	r.bytes(l.ID[:])
	r.int(l.CreatedAt.UnixMicro())
	r.id(&l.ActorID)
	r.text(l.ActorType)
	r.text(l.EntityType)
	r.text(l.EntityID)
	r.text(l.Operation)
	r.text(l.Message)
	r.optionalText(l.ActorName)
	r.optionalText(l.Origin)
	r.hash(&l.Mac)
}

func putRecord(r *rows, record *storage.Record) { putRecordAt(r, record, record.Rev) }

func putRecordUpdate(r *rows, u *storage.RecordUpdate) { putRecordAt(r, &u.Record, u.Rev) }

func putRecordAt(r *rows, record *storage.Record, rev int64) {
	r.text(record.Kind)
	r.bytes(record.ID[:])
	r.text(record.Name)
	r.text(sqlstore.FoldName(record.Name))
	r.key(&record.Key)
	r.key(&record.AltKey)
	r.time(record.ExpiresAt)
	r.int(int64(record.KeyVersion))
	r.bytes(record.Body)
	r.int(record.CreatedAt.UnixMicro())
	r.int(rev)
}

func putRecordDelete(r *rows, d *storage.RecordDelete) {
	r.text(d.Kind)
	r.bytes(d.ID[:])
	r.int(d.Rev)
}

// lookup is a key that finds a record.
type lookup struct {
	key    *storage.Key
	record *storage.Record
}

// lookupsOf appends the keys that find a record.
func lookupsOf(lookups []lookup, r *storage.Record) []lookup {
	if !r.Key.IsZero() {
		lookups = append(lookups, lookup{&r.Key, r})
	}
	if !r.AltKey.IsZero() && r.AltKey != r.Key {
		lookups = append(lookups, lookup{&r.AltKey, r})
	}
	return lookups
}

func putLookup(r *rows, l *lookup) {
	r.bytes(l.key[:])
	r.text(l.record.Kind)
	r.bytes(l.record.ID[:])
}

func putClaim(r *rows, c *storage.Claim) {
	r.bytes(c.Key[:])
	r.bytes(c.Owner[:])
	r.time(c.LeaseUntil)
	r.time(c.ExpiresAt)
	r.int(int64(c.KeyVersion))
	r.optional(c.Answer)
}

func putJob(r *rows, j *storage.Job) {
	r.bytes(j.ID[:])
	r.text(j.Kind)
	r.int(j.RunAt.UnixMicro())
	r.int(int64(j.Attempts))
	r.bool(j.Dead)
	r.id(&j.Owner)
	r.time(j.LeaseUntil)
	r.int(int64(j.KeyVersion))
	r.bytes(j.Payload)
}

func putJobUpdate(r *rows, u *storage.JobUpdate) {
	j := &u.Job
	r.bytes(j.ID[:])
	r.bytes(u.Owner[:])
	r.int(j.RunAt.UnixMicro())
	r.int(int64(j.Attempts))
	r.bool(j.Dead)
	r.int(int64(j.KeyVersion))
	r.bytes(j.Payload)
	r.time(u.Until)
}

func putJobDelete(r *rows, d *storage.JobDelete) {
	r.bytes(d.ID[:])
	r.id(&d.Owner)
}

func putSealed(r *rows, s *storage.Sealed) {
	if s.Kind == storage.SealedJobs {
		r.bytes(s.Key[:len(storage.ID{})])
	} else {
		r.bytes(s.Key[:])
	}
	r.int(int64(s.KeyVersion))
	r.bytes(s.Body)
	r.int(int64(s.Below()))
}
