package vault

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// AEAD is the master key: it wraps the data keys of the tenants. It has the
// methods of Tink's AEAD, so any Tink keyset or cloud KMS key fits; [NewKey]
// and [ParseKey] make a local one, and [Keys] joins several for a change.
//
// A key that is an [AEADWithContext] too is called with the context of the
// operation that needs it, so that a KMS is not asked for longer than its caller
// waits.
type AEAD interface {
	// Encrypt seals plaintext so that it opens only with associatedData.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	// Decrypt opens what Encrypt sealed.
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// AEADWithContext is a key whose calls end with a context. It has the methods of
// Tink's AEADWithContext; [KeyWithContext] makes a master key of it.
type AEADWithContext interface {
	// EncryptWithContext is Encrypt of [AEAD] with a context.
	EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error)
	// DecryptWithContext is Decrypt of [AEAD] with a context.
	DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error)
}

// KeyWithContext returns a master key of one that takes a context in each call,
// as those of Tink for a KMS do.
func KeyWithContext(key AEADWithContext) AEAD { return withContext{key} }

type withContext struct{ AEADWithContext }

// Encrypt implements AEAD.
func (k withContext) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt implements AEAD.
func (k withContext) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// Key is a local master key: XAES-256-GCM under 256 random bits. Whoever has
// it and the database has everything; keep the two apart.
type Key struct {
	bytes []byte
	aead  seal.AEAD
}

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
	raw, err := seal.ParseKeyText(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return newKey(raw)
}

func newKey(raw []byte) (*Key, error) {
	aead, err := seal.NewAEAD(raw)
	if err != nil {
		return nil, err
	}
	return &Key{raw, aead}, nil
}

// Text returns the key as text, to be kept in a secret store.
func (k *Key) Text() string {
	return seal.KeyText(k.bytes)
}

// String hides the key from logs and format verbs.
func (k *Key) String() string { return seal.KeyPrefix + "(hidden)" }

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

// Keys returns a master key that wraps with the first of several and opens what
// any of them has wrapped. It is for going over from one master key to another:
// see [Vault.RewrapKeys]. A Tink keyset of several keys is the same.
func Keys(primary AEAD, others ...AEAD) AEAD {
	k := &keys{primary, []seal.AEAD{primary}}
	for _, other := range others {
		k.all = append(k.all, other)
	}
	return k
}

type keys struct {
	primary AEAD
	all     []seal.AEAD
}

// Keys lets package keyring try each key by itself.
func (k *keys) Keys() []seal.AEAD { return k.all }

// Encrypt implements AEAD.
func (k *keys) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt implements AEAD.
func (k *keys) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// EncryptWithContext implements AEADWithContext.
func (k *keys) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return seal.Encrypt(ctx, k.primary, plaintext, associatedData)
}

// DecryptWithContext implements AEADWithContext.
func (k *keys) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	var failed []error
	for _, key := range k.all {
		plaintext, err := seal.Decrypt(ctx, key, ciphertext, associatedData)
		if err == nil {
			return plaintext, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// RewrapKeys wraps the keys of every tenant again under the primary master key,
// while all nodes serve, and last the record by which [Open] recognizes the
// right master key. So when it has returned nil, the vault opens with the new
// key alone, and nothing in it is wrapped under another. One that was cut off
// is finished by calling it again.
//
// It is the third step of a change of the master key. Before it, every node has
// to know the new key, and then to wrap with it, or it would wrap new tenants
// under the old one or not be able to open them:
//
//	vault.Keys(old, next) // on every node, one after the other
//	vault.Keys(next, old) // when the last has the first
//	v.RewrapKeys(ctx)     // when the last has the second
//	next                  // after that, on every node
//
// The data keys stay as they are. If the old master key may have
// leaked, let [Vault.RotateKeys] replace them after the second step.
func (v *Vault) RewrapKeys(ctx context.Context) error {
	filter := storage.RecordFilter{Kind: kindTenant, Limit: rotateChunk}
	for {
		tenants, _, err := v.store.ListRecords(ctx, filter)
		if err != nil {
			return fmt.Errorf("vault: rewrap keys: %w", err)
		}
		if len(tenants) == 0 {
			break
		}
		for i := range tenants {
			if err := v.rewrapTenant(ctx, uuid.UUID(tenants[i].Tenant)); err != nil {
				return fmt.Errorf("vault: rewrap keys of tenant %s: %w", uuid.UUID(tenants[i].Tenant), err)
			}
		}
		filter.Before = tenants[len(tenants)-1].ID
	}
	_, err := core.RetryStale(func() (struct{}, error) { return struct{}{}, v.check.Rewrap(ctx) })
	return masterError(err)
}

func (v *Vault) rewrapTenant(ctx context.Context, tenant uuid.UUID) error {
	r := &rotation{v: v, tenant: tenant}
	err := r.step(ctx, "Data keys up to %d wrapped again", func(ring *seal.Ring) (*seal.Ring, error) { return ring, nil })
	if errors.Is(err, ErrNotFound) {
		return nil // deleted since the list was read
	}
	return err
}

// masterError says in the vault's own errors what is wrong with a master key.
func masterError(err error) error {
	switch {
	case errors.Is(err, keyring.ErrWrongMaster):
		return fmt.Errorf("%w: %w", ErrWrongKey, err)
	case errors.Is(err, keyring.ErrMasterFails):
		return fmt.Errorf("%w: %w", ErrKeyUnavailable, err)
	}
	return err
}

// wrap seals a ring under the master key.
func (v *Vault) wrap(ctx context.Context, ring *seal.Ring, tenant uuid.UUID) ([]byte, error) {
	wrapped, err := keyring.Wrap(ctx, v.master, ring, storage.ID(tenant))
	return wrapped, masterError(err)
}
