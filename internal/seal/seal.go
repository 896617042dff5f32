// Package seal encrypts values at rest, for the row they belong to.
//
// A [Ring] holds the keys of one tenant: data keys, numbered by version, that
// encrypt bytes with XAES-256-GCM, and one index key for keyed hashes of
// searchable values. The ring itself is stored wrapped with the embedding
// program's master key.
//
// XAES-256-GCM has a 192-bit nonce, so nonces are random and messages need
// not be counted. Everything that decides who may see a value (tenant,
// entity, field, type, containers, key version) is bound to the ciphertext as
// associated data. An attacker who can write to the database can neither move a
// token to a less strict container, nor put the hash of their own key next to
// the rights of another key: the moved bytes cannot be decrypted.
package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/mr-tron/base58"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/xaesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/secretdata"

	"github.com/seed-72ea4aab/vault/storage"
)

// KeySize is the length of every key in this package, in bytes.
const KeySize = 32

// saltSize makes Tink's X-AES-GCM the XAES-256-GCM of c2sp.org, whose 24-byte
// nonce is 12 bytes of salt and 12 bytes of IV.
const saltSize = 12

// ErrOpen means that this key did not seal the bytes for this location: they
// were altered, moved, or sealed with another key.
var ErrOpen = errors.New("seal: cannot decrypt: wrong key, or the bytes were altered or moved")

// AEAD wraps rings. It has the two methods of Tink's AEAD.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// AEADWithContext is an AEAD whose methods take a context. It has the two
// methods of Tink's AEADWithContext.
type AEADWithContext interface {
	EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error)
	DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error)
}

// Encrypt encrypts with a master key. It passes the context if the key takes
// one.
func Encrypt(ctx context.Context, key AEAD, plaintext, associatedData []byte) ([]byte, error) {
	if k, ok := key.(AEADWithContext); ok {
		return k.EncryptWithContext(ctx, plaintext, associatedData)
	}
	return key.Encrypt(plaintext, associatedData)
}

// Decrypt decrypts with a master key. It passes the context if the key takes
// one.
func Decrypt(ctx context.Context, key AEAD, ciphertext, associatedData []byte) ([]byte, error) {
	if k, ok := key.(AEADWithContext); ok {
		return k.DecryptWithContext(ctx, ciphertext, associatedData)
	}
	return key.Decrypt(ciphertext, associatedData)
}

type freshKey struct{}

// Fresh returns a context for calls to a master key that must reach the service
// that holds it.
func Fresh(ctx context.Context) context.Context { return context.WithValue(ctx, freshKey{}, true) }

// IsFresh reports whether the context is from Fresh.
func IsFresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }

// NewAEAD returns XAES-256-GCM with a key of KeySize bytes.
func NewAEAD(key []byte) (AEAD, error) {
	params, err := xaesgcm.NewParameters(xaesgcm.VariantNoPrefix, saltSize)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	k, err := xaesgcm.NewKey(secretdata.NewBytesFromData(key, insecuresecretdataaccess.Token{}), 0, params)
	if err != nil {
		return nil, fmt.Errorf("seal: a key must have %d bytes", KeySize)
	}
	manager := keyset.NewManager()
	id, err := manager.AddKey(k)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if err := manager.SetPrimary(id); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return aead.New(handle)
}

// RandomKey returns KeySize random bytes.
func RandomKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key)
	return key
}

// Location identifies where sealed bytes belong. It becomes their associated
// data.
type Location struct {
	Tenant [16]byte
	Entity string   // the kind of row, such as "token"
	ID     string   // id of the row
	Field  string   // field of the row
	Bound  []string // everything else that must not change without the bytes
}

// appendTo encodes the location. No two places have the same encoding, because
// the length of each part precedes it.
func (p *Location) appendTo(dst []byte, version int) []byte {
	dst = append(dst, p.Tenant[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(version))
	dst = appendPart(dst, p.Entity)
	dst = appendPart(dst, p.ID)
	dst = appendPart(dst, p.Field)
	for _, s := range p.Bound {
		dst = appendPart(dst, s)
	}
	return dst
}

// associatedData is an encoded location. It contains names, never a value, and
// the ciphers of this package do not keep it, so its memory is reused.
type associatedData struct{ bytes []byte }

var spareData = sync.Pool{New: func() any { return &associatedData{make([]byte, 0, 256)} }}

// maxSpareData is the maximum size of a buffer that is kept.
const maxSpareData = 4096

func (p *Location) associatedData(version int) *associatedData {
	ad := spareData.Get().(*associatedData)
	ad.bytes = p.appendTo(ad.bytes[:0], version)
	return ad
}

func (ad *associatedData) release() {
	if cap(ad.bytes) <= maxSpareData {
		spareData.Put(ad)
	}
}

func appendPart[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Parts is the memory in which TokenLocation and CVCLocation store the bound
// columns. The caller provides it, so that a location needs no allocation.
type Parts [5]string

// TokenLocation binds the body of a token to its row: id, type, containers and
// expiry.
func TokenLocation(row *storage.Token, parts *Parts) Location {
	parts[0], parts[1] = row.Type, strings.Join(row.Containers, ",")
	parts[2], parts[3] = string(row.Ord[:]), bindTime(row.ExpiresAt)
	return Location{Entity: "token", ID: row.ID, Field: "body", Bound: parts[:4]}
}

// CVCLocation binds a cvc to its row and to its own expiry.
func CVCLocation(row *storage.Token, parts *Parts) Location {
	p := TokenLocation(row, parts)
	parts[4] = bindTime(row.CVCExpiresAt)
	p.Field, p.Bound = "cvc", parts[:]
	return p
}

// TokenColumns returns a digest of the columns of a token that its location does not
// bind: the keyed hashes, and who wrote it and when. The digest is sealed in
// the body, so altered columns are detected.
func TokenColumns(row *storage.Token) (digest [16]byte) {
	var buf [len(row.Fingerprint) + 5*len(row.Set) + 2*8]byte
	b := append(buf[:0], row.Fingerprint[:]...)
	b = append(append(append(b, row.Expression[:]...), row.Dedup[:]...), row.Set[:]...)
	b = append(append(b, row.CreatedBy[:]...), row.ModifiedBy[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(row.CreatedAt.UnixMicro()))
	b = binary.BigEndian.AppendUint64(b, uint64(row.ModifiedAt.UnixMicro()))
	sum := sha256.Sum256(b)
	return [16]byte(sum[:])
}

// RecordLocation binds a record's document to all plaintext columns, including
// its keys. A document can be decrypted only with the key columns that it was
// sealed with. So a hash that is put next to the rights of another key does
// not gain them.
func RecordLocation(rec *storage.Record) Location {
	return Location{
		Entity: rec.Kind, ID: uuid.UUID(rec.ID).String(), Field: "body",
		Bound: []string{rec.Name, string(rec.Key[:]), string(rec.AltKey[:]), bindTime(rec.ExpiresAt), bindTime(rec.CreatedAt)},
	}
}

// ClaimLocation returns the location of the response in an idempotency claim.
func ClaimLocation(key storage.Key) Location {
	return Location{Entity: "claim", ID: hex.EncodeToString(key[:]), Field: "answer"}
}

// JobLocation returns the location of a job's payload.
func JobLocation(id storage.ID) Location {
	return Location{Entity: "job", ID: uuid.UUID(id).String(), Field: "payload"}
}

// rowLocation returns the location of the sealed part of a claim or a job.
func rowLocation(row *storage.Sealed) Location {
	if row.Kind == storage.SealedClaims {
		return ClaimLocation(row.Key)
	}
	return JobLocation(storage.ID(row.Key[:16]))
}

// bindTime encodes a time as associated data, in the precision of the
// database.
func bindTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// KeyPrefix starts the text of a key, so that secret scanners recognize it.
const KeyPrefix = "vaultkey_"

// keyCheck is the number of checksum bytes at the end of the text of a key.
const keyCheck = 4

// KeyText returns a key as text: the prefix, and the key with a checksum in
// base58.
func KeyText(key []byte) string {
	return KeyPrefix + base58.Encode(append(bytes.Clone(key), keyChecksum(key)...))
}

// ParseKeyText parses the result of KeyText. Its errors do not contain the
// text.
func ParseKeyText(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("the master key is empty")
	}
	body, ok := strings.CutPrefix(text, KeyPrefix)
	if !ok {
		return nil, fmt.Errorf("a master key must start with %s, as Key.Text writes it", KeyPrefix)
	}
	raw, err := base58.Decode(body)
	if err != nil || len(raw) != KeySize+keyCheck {
		return nil, errors.New("the master key is truncated or mistyped")
	}
	key := raw[:KeySize]
	if !bytes.Equal(raw[KeySize:], keyChecksum(key)) {
		return nil, errors.New("the master key's checksum does not match: it is mistyped")
	}
	return key, nil
}

func keyChecksum(key []byte) []byte {
	sum := sha256.Sum256(append([]byte(KeyPrefix), key...))
	return sum[:keyCheck]
}
