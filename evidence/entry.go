package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// Entry is an entry of a tenant's log.
type Entry struct {
	ID         uuid.UUID
	CreatedAt  time.Time
	ActorID    uuid.UUID // zero if the tenant itself acted
	ActorType  string
	ActorName  string
	EntityType string
	EntityID   string
	Operation  string
	Message    string
	Origin     string
}

// redacted returns the remaining fields of an entry after its erasure.
func (e Entry) redacted() Entry {
	e.ActorName, e.Origin = "", ""
	return e
}

// Mac is the keyed hash that the vault stores with an entry.
type Mac [16]byte

// commitPrefix begins every commitment.
const commitPrefix = "vault/log/1"

// AppendMacFields appends the fields of an entry in the form that its mac
// hashes. For a read, the entity type is left out: a storage that reads a
// token and logs the read in one step does not know the type beforehand.
func (e *Entry) AppendMacFields(b []byte) []byte {
	if e.Operation == "read" {
		return e.appendFields(b, "")
	}
	return e.appendFields(b, e.EntityType)
}

// appendFields appends the same bytes as entryText.appendFields, without
// allocating the texts.
func (e *Entry) appendFields(b []byte, entityType string) []byte {
	b = appendID(b, e.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(timeLayout)))
	b = appendTime(b, e.CreatedAt.UTC())
	if e.ActorID == (uuid.UUID{}) {
		b = appendField(b, "")
	} else {
		b = appendID(b, e.ActorID)
	}
	for _, field := range [...]string{e.ActorType, e.ActorName, entityType, e.EntityID, e.Operation, e.Message, e.Origin} {
		b = appendField(b, field)
	}
	return b
}

func appendField(b []byte, field string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}

// appendTime appends a time in UTC as timeLayout has it. Package time reads the layout
// for each time, which takes longer than the hash of a whole entry.
func appendTime(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, timeLayout)
	}
	hour, minute, second := t.Clock()
	text := []byte(timeLayout)
	putDigits(text[:4], year)
	putDigits(text[5:7], int(month))
	putDigits(text[8:10], day)
	putDigits(text[11:13], hour)
	putDigits(text[14:16], minute)
	putDigits(text[17:19], second)
	putDigits(text[20:26], t.Nanosecond()/1000)
	return append(b, text...)
}

// putDigits replaces a text with the last digits of a number.
func putDigits(text []byte, n int) {
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
}

// appendID appends the text of an id.
func appendID(b []byte, id uuid.UUID) []byte {
	b = binary.BigEndian.AppendUint32(b, 36)
	for i, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}

// Commit returns the commitment to an entry.
func (e *Entry) Commit(tenant uuid.UUID, mac Mac) Hash {
	var room [512]byte
	return commitFields(tenant, mac, e.appendFields(room[:0], e.EntityType))
}

// commitFields returns the commitment to fields in the form that commitments hash.
func commitFields(tenant uuid.UUID, mac Mac, fields []byte) Hash {
	var room [640]byte
	b := append(room[:0], commitPrefix...)
	b = append(b, tenant[:]...)
	b = append(b, mac[:]...)
	return sha256.Sum256(append(b, fields...))
}

// Kind is the way in which an entry was added to the tree.
type Kind byte

// The kinds of leaves in a tenant's tree.
const (
	// KindEntry is an entry that was added soon after it was written.
	KindEntry Kind = iota + 1
	// KindImported is an entry that existed before evidence began. Its leaf
	// attests the entry as it was at that time.
	KindImported
	// KindVault is an entry that was written without the keys of the tenant. Its
	// mac is under the vault's own keys.
	KindVault
)

var kindNames = [...]string{
	KindEntry: "entry", KindImported: "imported", KindVault: "vault",
}

// Valid reports whether the kind is known.
func (k Kind) Valid() bool { return k >= KindEntry && k <= KindVault }

// String returns the name of the kind in a bundle.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return kindNames[k]
}

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if name != "" && name == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return errKind
}

// LeafHash returns the leaf of an entry in its tenant's tree.
func LeafHash(k Kind, id uuid.UUID, commitment Hash) Hash {
	var b [1 + 16 + tlog.HashSize]byte
	b[0] = byte(k)
	copy(b[1:], id[:])
	copy(b[17:], commitment[:])
	return tlog.RecordHash(b[:])
}

// Millis returns the Unix time in milliseconds from an id. Ids of entries are
// UUIDv7.
func Millis(id uuid.UUID) int64 {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return int64(binary.BigEndian.Uint64(ms[:]))
}

// timeLayout is the form of times in commitments: UTC, with microseconds.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// entryText is an entry as it appears in a bundle: the texts that are hashed.
type entryText struct {
	ID         string `json:"id"`
	CreatedAt  string `json:"created_at"`
	ActorID    string `json:"actor_id,omitempty"`
	ActorType  string `json:"actor_type,omitempty"`
	ActorName  string `json:"actor_name,omitempty"`
	EntityType string `json:"entity_type,omitempty"`
	EntityID   string `json:"entity_id,omitempty"`
	Operation  string `json:"operation,omitempty"`
	Message    string `json:"message,omitempty"`
	Origin     string `json:"origin,omitempty"`
}

func (e *Entry) text() entryText {
	t := entryText{
		ID: e.ID.String(), CreatedAt: e.CreatedAt.UTC().Format(timeLayout),
		ActorType: e.ActorType, ActorName: e.ActorName, EntityType: e.EntityType, EntityID: e.EntityID,
		Operation: e.Operation, Message: e.Message, Origin: e.Origin,
	}
	if e.ActorID != (uuid.UUID{}) {
		t.ActorID = e.ActorID.String()
	}
	return t
}

// entry returns the entry as far as its texts can be read.
func (t *entryText) entry() *Entry {
	e := &Entry{
		ActorType: t.ActorType, ActorName: t.ActorName, EntityType: t.EntityType, EntityID: t.EntityID,
		Operation: t.Operation, Message: t.Message, Origin: t.Origin,
	}
	e.ID, _ = uuid.Parse(t.ID)
	e.ActorID, _ = uuid.Parse(t.ActorID)
	e.CreatedAt, _ = time.Parse(timeLayout, t.CreatedAt)
	return e
}

func (t *entryText) appendFields(b []byte) []byte {
	for _, field := range [...]string{
		t.ID, t.CreatedAt, t.ActorID, t.ActorType, t.ActorName, t.EntityType, t.EntityID, t.Operation, t.Message, t.Origin,
	} {
		b = appendField(b, field)
	}
	return b
}

func (t *entryText) commit(tenant uuid.UUID, mac Mac) Hash {
	var room [512]byte
	return commitFields(tenant, mac, t.appendFields(room[:0]))
}
