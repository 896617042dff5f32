package sqlstore

import (
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// Kind is the type of a column.
type Kind int

// The types of columns.
const (
	Blob Kind = iota
	Text
	Int
	Bool
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

// Columns are columns of a table, in the order in which a Put function gives their
// values.
type Columns []Column

// Names lists the columns, each with a prefix.
func (cs Columns) Names(prefix string) string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = prefix + c.Name
	}
	return strings.Join(names, ", ")
}

// Without returns the columns except some.
func (cs Columns) Without(names ...string) Columns {
	return slices.DeleteFunc(slices.Clone(cs), func(c Column) bool { return slices.Contains(names, c.Name) })
}

// The columns of rows. The tenant comes before them, except in vault_lookups, where
// it comes after the first.
var (
	TokenRow = slices.Concat(Columns{{"ord", Blob}, {"id", Text}, {"type", Text}}, tokenContent,
		Columns{{"created_by", Blob}, {"created_at", Int}}, tokenModified, Columns{{"rev", Int}})
	// TokenReplaced are the columns that an update of a token replaces.
	TokenReplaced = slices.Concat(tokenContent, tokenModified)
	tokenContent  = Columns{
		{"set_id", Blob}, {"containers", Text}, {"fingerprint", Blob}, {"expression", Blob}, {"dedup", Blob}, {"hashes", Blob},
		{"key_version", Int}, {"body", Blob}, {"cvc", Blob}, {"cvc_expires_at", Int}, {"expires_at", Int},
	}
	tokenModified = Columns{{"modified_by", Blob}, {"modified_at", Int}}

	LogRow = Columns{
		{"id", Blob}, {"created_at", Int}, {"actor_id", Blob}, {"actor_type", Text}, {"entity_type", Text}, {"entity_id", Text},
		{"operation", Text}, {"message", Text}, {"actor_name", Text}, {"origin", Text}, {"mac", Blob},
	}

	RecordRow = slices.Concat(Columns{{"kind", Text}, {"id", Blob}}, RecordReplaced, Columns{{"rev", Int}})
	// RecordReplaced are the columns that an update of a record replaces.
	RecordReplaced = Columns{
		{"name", Text}, {"name_fold", Text}, {"key_hash", Blob}, {"alt_hash", Blob},
		{"expires_at", Int}, {"key_version", Int}, {"body", Blob}, {"created_at", Int},
	}

	ClaimRow = Columns{
		{"key", Blob}, {"owner", Blob}, {"lease_until", Int}, {"expires_at", Int}, {"key_version", Int}, {"answer", Blob},
	}

	JobRow = Columns{
		{"id", Blob}, {"kind", Text}, {"run_at", Int}, {"attempts", Int}, {"dead", Bool},
		{"owner", Blob}, {"lease_until", Int}, {"key_version", Int}, {"payload", Blob},
	}
)

// Put receives the values of a row. A value is NULL if null is true.
type Put interface {
	Bytes(v []byte, null bool) // nil is an empty value
	Text(v string, null bool)
	Int(v int64, null bool)
	Bool(v bool)
}

// NotNull is the argument of Put for columns that are never NULL.
const NotNull = false

// PutToken puts the values of TokenRow.
func PutToken(p Put, t *storage.Token) {
	p.Bytes(t.Ord[:], NotNull)
	p.Text(t.ID, NotNull)
	p.Text(t.Type, NotNull)
	putContent(p, t, false)
	p.Bytes(t.CreatedBy[:], t.CreatedBy.IsZero())
	p.Int(t.CreatedAt.UnixMicro(), NotNull)
	p.Bytes(t.ModifiedBy[:], t.ModifiedBy.IsZero())
	p.Int(t.ModifiedAt.UnixMicro(), t.ModifiedAt.IsZero())
	p.Int(t.Rev, NotNull)
}

// PutTokenReplaced puts the values of TokenReplaced. The hashes are NULL if they
// stay.
func PutTokenReplaced(p Put, u *storage.TokenUpdate) {
	t := &u.Token
	putContent(p, t, u.KeepHashes)
	p.Bytes(t.ModifiedBy[:], t.ModifiedBy.IsZero())
	p.Int(t.ModifiedAt.UnixMicro(), t.ModifiedAt.IsZero())
}

func putContent(p Put, t *storage.Token, keepHashes bool) {
	p.Bytes(t.Set[:], NotNull)
	p.Text(JoinContainers(t.Containers), NotNull)
	p.Bytes(t.Fingerprint[:], NotNull)
	p.Bytes(t.Expression[:], NotNull)
	p.Bytes(t.Dedup[:], t.Dedup == storage.Hash{})
	var hashes []byte
	if !keepHashes {
		hashes = joinHashes(t.Hashes)
	}
	p.Bytes(hashes, keepHashes)
	p.Int(int64(t.KeyVersion), NotNull)
	p.Bytes(t.Body, NotNull)
	p.Bytes(t.CVC, t.CVC == nil)
	p.Int(t.CVCExpiresAt.UnixMicro(), t.CVCExpiresAt.IsZero())
	p.Int(t.ExpiresAt.UnixMicro(), t.ExpiresAt.IsZero())
}

// PutLog puts the values of LogRow.
func PutLog(p Put, l *storage.Log) {
	p.Bytes(l.ID[:], NotNull)
	p.Int(l.CreatedAt.UnixMicro(), NotNull)
	p.Bytes(l.ActorID[:], l.ActorID.IsZero())
	p.Text(l.ActorType, NotNull)
	p.Text(l.EntityType, NotNull)
	p.Text(l.EntityID, NotNull)
	p.Text(l.Operation, NotNull)
	p.Text(l.Message, NotNull)
	p.Text(l.ActorName, l.ActorName == "")
	p.Text(l.Origin, l.Origin == "")
	p.Bytes(l.Mac[:], l.Mac == storage.Hash{})
}

// PutRecord puts the values of RecordRow.
func PutRecord(p Put, r *storage.Record) { PutRecordAt(p, r, r.Rev) }

// PutRecordAt is like PutRecord, with another revision.
func PutRecordAt(p Put, r *storage.Record, rev int64) {
	p.Text(r.Kind, NotNull)
	p.Bytes(r.ID[:], NotNull)
	PutRecordReplaced(p, r)
	p.Int(rev, NotNull)
}

// PutRecordReplaced puts the values of RecordReplaced.
func PutRecordReplaced(p Put, r *storage.Record) {
	p.Text(r.Name, NotNull)
	p.Text(FoldName(r.Name), NotNull)
	p.Bytes(r.Key[:], r.Key.IsZero())
	p.Bytes(r.AltKey[:], r.AltKey.IsZero())
	p.Int(r.ExpiresAt.UnixMicro(), r.ExpiresAt.IsZero())
	p.Int(int64(r.KeyVersion), NotNull)
	p.Bytes(r.Body, NotNull)
	p.Int(r.CreatedAt.UnixMicro(), NotNull)
}

// PutClaim puts the values of ClaimRow.
func PutClaim(p Put, c *storage.Claim) {
	p.Bytes(c.Key[:], NotNull)
	p.Bytes(c.Owner[:], NotNull)
	p.Int(c.LeaseUntil.UnixMicro(), c.LeaseUntil.IsZero())
	p.Int(c.ExpiresAt.UnixMicro(), c.ExpiresAt.IsZero())
	p.Int(int64(c.KeyVersion), NotNull)
	p.Bytes(c.Answer, c.Answer == nil)
}

// PutJob puts the values of JobRow.
func PutJob(p Put, j *storage.Job) {
	p.Bytes(j.ID[:], NotNull)
	p.Text(j.Kind, NotNull)
	p.Int(j.RunAt.UnixMicro(), NotNull)
	p.Int(int64(j.Attempts), NotNull)
	p.Bool(j.Dead)
	p.Bytes(j.Owner[:], j.Owner.IsZero())
	p.Int(j.LeaseUntil.UnixMicro(), j.LeaseUntil.IsZero())
	p.Int(int64(j.KeyVersion), NotNull)
	p.Bytes(j.Payload, NotNull)
}

// EachHash calls do for each distinct hash of a token.
func EachHash(hashes []storage.Hash, do func(*storage.Hash)) {
	for i := range hashes {
		if !slices.Contains(hashes[:i], hashes[i]) {
			do(&hashes[i])
		}
	}
}

// joinHashes concatenates the distinct hashes of a token.
func joinHashes(hashes []storage.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*len(storage.Hash{}))
	EachHash(hashes, func(h *storage.Hash) { joined = append(joined, h[:]...) })
	return joined
}
