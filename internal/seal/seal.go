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
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/xaesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/secretdata"
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
