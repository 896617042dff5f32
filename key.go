package vault

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/seal"
)

// AEAD is the master key: it wraps the data keys of the tenants. It has the
// methods of Tink's AEAD, so any Tink keyset or cloud KMS key fits; [NewKey]
// and [ParseKey] make a local one, and [Keys] joins several for a change.
type AEAD interface {
	// Encrypt seals plaintext so that it opens only with associatedData.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	// Decrypt opens what Encrypt sealed.
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Key is a local master key: XAES-256-GCM under 256 random bits. Whoever has
// it and the database has everything; keep the two apart.
type Key struct {
	bytes []byte
	aead  seal.AEAD
}

const (
	masterKeyPrefix = "vaultkey_"
	masterKeyCheck  = 4 // bytes of checksum at the end
)

// NewKey returns a new random master key.
func NewKey() *Key {
	k, err := newKey(seal.RandomKey())
	if err != nil {
		panic(err) // unreachable: the key has the right length
	}
	return k
}

// ParseKey reads a master key from what [Key.Text] returned. White space
// around it is ignored.
func ParseKey(text string) (*Key, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("vault: the master key is empty")
	}
	body, ok := strings.CutPrefix(text, masterKeyPrefix)
	if !ok {
		return nil, fmt.Errorf("vault: a master key starts with %s, as Key.Text writes it", masterKeyPrefix)
	}
	raw, err := base58.Decode(body)
	if err != nil || len(raw) != seal.KeySize+masterKeyCheck {
		return nil, errors.New("vault: the master key is cut off or mistyped")
	}
	key := raw[:seal.KeySize]
	if !bytes.Equal(raw[seal.KeySize:], masterChecksum(key)) {
		return nil, errors.New("vault: the master key's checksum does not fit: it is mistyped")
	}
	return newKey(key)
}

func newKey(raw []byte) (*Key, error) {
	aead, err := seal.NewAEAD(raw)
	if err != nil {
		return nil, err
	}
	return &Key{raw, aead}, nil
}

func masterChecksum(key []byte) []byte {
	sum := sha256.Sum256(append([]byte(masterKeyPrefix), key...))
	return sum[:masterKeyCheck]
}

// Text returns the key as text, to be kept in a secret store.
func (k *Key) Text() string {
	return masterKeyPrefix + base58.Encode(append(bytes.Clone(k.bytes), masterChecksum(k.bytes)...))
}

// String hides the key from logs and format verbs.
func (k *Key) String() string { return masterKeyPrefix + "(hidden)" }

// GoString hides the key from %#v.
func (k *Key) GoString() string { return k.String() }

// errNoKey is for a Key that was declared and never made.
var errNoKey = errors.New("vault: the master key is empty: get one from NewKey or ParseKey")

// Encrypt implements AEAD.
func (k *Key) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if k == nil || k.aead == nil {
		return nil, errNoKey
	}
	return k.aead.Encrypt(plaintext, associatedData)
}

// Decrypt implements AEAD.
func (k *Key) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if k == nil || k.aead == nil {
		return nil, errNoKey
	}
	return k.aead.Decrypt(ciphertext, associatedData)
}
