package vaultkms

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// keeper lets a service that keeps a key encrypt or decrypt. Its errors are
// classified: see classify.
type keeper func(ctx context.Context, op string, data []byte) ([]byte, error)

const (
	opEncrypt = "encrypt"
	opDecrypt = "decrypt"
)

// envelope is a master key that seals with a data key, which a keeper wraps. It
// seals with the data key that it unwrapped last, so that all nodes of a vault use
// the data key of the vault's own ring.
//
// A ciphertext is the version, the length of the wrapped data key, the wrapped data
// key, and the sealed bytes.
type envelope struct {
	keeper keeper

	making sync.Mutex // held while the first data key is made
	mu     sync.Mutex
	keys   map[[sha256.Size]byte]*dataKey // by the hash of their wrapped form
	latest *dataKey
}

type dataKey struct {
	wrapped []byte
	aead    seal.AEAD
}

const (
	envelopeVersion = 1
	// maxWrapped limits the wrapped form of a data key.
	maxWrapped = 1 << 15
	// maxDataKeys limits the data keys in memory. One is usual; each node that
	// wrapped with this key during a change of the master key adds one.
	maxDataKeys = 256
)

var (
	errFormat  = errors.New("vaultkms: the ciphertext is not one of this key")
	errTooLong = errors.New("vaultkms: the service returned a ciphertext that is too long")
)

func newEnvelope(k keeper) vault.AEAD {
	return vault.KeyWithContext(&envelope{keeper: k, keys: map[[sha256.Size]byte]*dataKey{}})
}

// EncryptWithContext implements vault.AEADWithContext.
func (e *envelope) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	key, err := e.current(ctx)
	if err != nil {
		return nil, err
	}
	sealed, err := key.aead.Encrypt(plaintext, associatedData)
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint16([]byte{envelopeVersion}, uint16(len(key.wrapped)))
	return slices.Concat(out, key.wrapped, sealed), nil
}

// DecryptWithContext implements vault.AEADWithContext. It calls the service for a
// data key that it does not know, and if the vault asks whether the key may still
// be used.
func (e *envelope) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	const header = 3
	if len(ciphertext) < header || ciphertext[0] != envelopeVersion {
		return nil, errFormat
	}
	n := int(binary.BigEndian.Uint16(ciphertext[1:header]))
	if n > len(ciphertext)-header {
		return nil, errFormat
	}
	wrapped, sealed := ciphertext[header:header+n], ciphertext[header+n:]
	key := e.known(wrapped)
	if key == nil || vault.FreshKey(ctx) {
		var err error
		if key, err = e.unwrap(ctx, wrapped); err != nil {
			return nil, err
		}
	}
	return key.aead.Decrypt(sealed, associatedData)
}

// current returns the data key to seal with. Concurrent callers make one.
func (e *envelope) current(ctx context.Context) (*dataKey, error) {
	if key := e.newest(); key != nil {
		return key, nil
	}
	e.making.Lock()
	defer e.making.Unlock()
	if key := e.newest(); key != nil {
		return key, nil
	}
	raw := seal.RandomKey()
	defer clear(raw)
	wrapped, err := e.keeper(ctx, opEncrypt, raw)
	if err != nil {
		return nil, e.failed(err)
	}
	return e.keep(wrapped, raw)
}

// unwrap lets the service unwrap a data key.
func (e *envelope) unwrap(ctx context.Context, wrapped []byte) (*dataKey, error) {
	raw, err := e.keeper(ctx, opDecrypt, wrapped)
	if err != nil {
		return nil, e.failed(err)
	}
	defer clear(raw)
	return e.keep(wrapped, raw)
}

// failed drops all data keys if the use of the key was denied.
func (e *envelope) failed(err error) error {
	if errors.Is(err, vault.ErrKeyDenied) {
		e.mu.Lock()
		defer e.mu.Unlock()
		clear(e.keys)
		e.latest = nil
	}
	return err
}

func (e *envelope) newest() *dataKey {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.latest
}

func (e *envelope) known(wrapped []byte) *dataKey {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keys[sha256.Sum256(wrapped)]
}

// keep stores a data key. One that was known stays as it was.
func (e *envelope) keep(wrapped, raw []byte) (*dataKey, error) {
	if len(wrapped) > maxWrapped {
		return nil, errTooLong
	}
	aead, err := seal.NewAEAD(slices.Clone(raw))
	if err != nil {
		return nil, errFormat
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := sha256.Sum256(wrapped)
	if known := e.keys[id]; known != nil {
		return known, nil
	}
	if len(e.keys) >= maxDataKeys {
		clear(e.keys)
	}
	e.latest = &dataKey{slices.Clone(wrapped), aead}
	e.keys[id] = e.latest
	return e.latest, nil
}
