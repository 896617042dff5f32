package sqlstore

import (
	"slices"
	"strings"
	"time"

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

// Put receives the values of a row.
type Put interface {
	Bytes(v []byte) // nil is an empty value
	Text(v string)
	Int(v int64)
	Bool(v bool)
	Null()
}

// PutToken puts the values of TokenRow.
func PutToken(p Put, t *storage.Token) {
	p.Bytes(t.Ord[:])
	p.Text(t.ID)
	p.Text(t.Type)
	putContent(p, t, false)
	PutID(p, &t.CreatedBy)
	p.Int(t.CreatedAt.UnixMicro())
	PutID(p, &t.ModifiedBy)
	PutTime(p, t.ModifiedAt)
	p.Int(t.Rev)
}

// PutTokenReplaced puts the values of TokenReplaced. The hashes are NULL if they
// stay.
func PutTokenReplaced(p Put, u *storage.TokenUpdate) {
	putContent(p, &u.Token, u.KeepHashes)
	PutID(p, &u.Token.ModifiedBy)
	PutTime(p, u.Token.ModifiedAt)
}

func putContent(p Put, t *storage.Token, keepHashes bool) {
	p.Bytes(t.Set[:])
	p.Text(JoinContainers(t.Containers))
	p.Bytes(t.Fingerprint[:])
	p.Bytes(t.Expression[:])
	PutHash(p, &t.Dedup)
	if keepHashes {
		p.Null()
	} else {
		p.Bytes(joinHashes(t.Hashes))
	}
	p.Int(int64(t.KeyVersion))
	p.Bytes(t.Body)
	putUnless(p, t.CVC == nil, t.CVC)
	PutTime(p, t.CVCExpiresAt)
	PutTime(p, t.ExpiresAt)
}

// PutLog puts the values of LogRow.
func PutLog(p Put, l *storage.Log) {
	p.Bytes(l.ID[:])
	p.Int(l.CreatedAt.UnixMicro())
	PutID(p, &l.ActorID)
	p.Text(l.ActorType)
	p.Text(l.EntityType)
	p.Text(l.EntityID)
	p.Text(l.Operation)
	p.Text(l.Message)
	PutOptionalText(p, l.ActorName)
	PutOptionalText(p, l.Origin)
	PutHash(p, &l.Mac)
}

// PutRecord puts the values of RecordRow.
func PutRecord(p Put, r *storage.Record) { PutRecordAt(p, r, r.Rev) }

// PutRecordAt is like PutRecord, with another revision.
func PutRecordAt(p Put, r *storage.Record, rev int64) {
	p.Text(r.Kind)
	p.Bytes(r.ID[:])
	PutRecordReplaced(p, r)
	p.Int(rev)
}

// PutRecordReplaced puts the values of RecordReplaced.
func PutRecordReplaced(p Put, r *storage.Record) {
	p.Text(r.Name)
	p.Text(FoldName(r.Name))
	putUnless(p, r.Key.IsZero(), r.Key[:])
	putUnless(p, r.AltKey.IsZero(), r.AltKey[:])
	PutTime(p, r.ExpiresAt)
	p.Int(int64(r.KeyVersion))
	p.Bytes(r.Body)
	p.Int(r.CreatedAt.UnixMicro())
}

// PutClaim puts the values of ClaimRow.
func PutClaim(p Put, c *storage.Claim) {
	p.Bytes(c.Key[:])
	p.Bytes(c.Owner[:])
	PutTime(p, c.LeaseUntil)
	PutTime(p, c.ExpiresAt)
	p.Int(int64(c.KeyVersion))
	putUnless(p, c.Answer == nil, c.Answer)
}

// PutJob puts the values of JobRow.
func PutJob(p Put, j *storage.Job) {
	p.Bytes(j.ID[:])
	p.Text(j.Kind)
	p.Int(j.RunAt.UnixMicro())
	p.Int(int64(j.Attempts))
	p.Bool(j.Dead)
	PutID(p, &j.Owner)
	PutTime(p, j.LeaseUntil)
	p.Int(int64(j.KeyVersion))
	p.Bytes(j.Payload)
}

// PutID puts an id, or NULL if it is zero.
func PutID(p Put, v *storage.ID) { putUnless(p, v.IsZero(), v[:]) }

// PutHash puts a hash, or NULL if it is zero.
func PutHash(p Put, v *storage.Hash) { putUnless(p, *v == storage.Hash{}, v[:]) }

func putUnless(p Put, isNull bool, v []byte) {
	if isNull {
		p.Null()
	} else {
		p.Bytes(v)
	}
}

// PutTime puts a time, or NULL if it is zero.
func PutTime(p Put, v time.Time) {
	if v.IsZero() {
		p.Null()
	} else {
		p.Int(v.UnixMicro())
	}
}

// PutOptionalText puts a text, or NULL if it is empty.
func PutOptionalText(p Put, v string) {
	if v == "" {
		p.Null()
	} else {
		p.Text(v)
	}
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
