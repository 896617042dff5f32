package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/rotation"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// AEAD is the master key, which wraps the data keys of the tenants. It has the
// methods of Tink's AEAD, so any Tink keyset or cloud KMS key fits. [NewKey] and
// [ParseKey] make a local key, and [JoinKeys] joins several keys for a change of
// the master key.
//
// If the key also implements [AEADWithContext], it is called with the context of
// the operation, so a call to a KMS ends when its caller stops waiting.
type AEAD interface {
	// Encrypt seals plaintext so that it opens only with associatedData.
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	// Decrypt opens what Encrypt sealed.
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// AEADWithContext is a key whose methods take a context. It has the methods of
// Tink's AEADWithContext; [KeyWithContext] turns it into a master key.
type AEADWithContext interface {
	// EncryptWithContext is Encrypt of [AEAD] with a context.
	EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error)
	// DecryptWithContext is Decrypt of [AEAD] with a context.
	DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error)
}

// KeyWithContext adapts an AEAD whose methods take a context, such as Tink's KMS
// clients, to a master key.
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

// Key is a local master key: XAES-256-GCM with a 256-bit random key. Anyone who has
// it and the database can read everything, so keep the two apart.
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

// ParseKey reads a master key from the text that [Key.Text] returned. White space
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

// Text returns the key as text, for a secret store.
func (k *Key) Text() string {
	return seal.KeyText(k.bytes)
}

// String hides the key from logs and format verbs.
func (k *Key) String() string { return seal.KeyPrefix + "(hidden)" }

// GoString hides the key from %#v.
func (k *Key) GoString() string { return k.String() }

// errNoKey is returned by a zero Key.
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

// JoinKeys returns a master key that wraps with primary and opens what any of the
// keys has wrapped. It is for changing the master key: see [Vault.RewrapDataKeys].
// A Tink keyset with several keys does the same.
func JoinKeys(primary AEAD, others ...AEAD) AEAD {
	all := []seal.AEAD{primary}
	for _, other := range others {
		all = append(all, other)
	}
	return keyring.Join(all)
}

// isLocal reports whether a master key is held by this process alone.
func isLocal(key AEAD) bool {
	if several, ok := key.(keyring.Several); ok {
		return !slices.ContainsFunc(several.Keys(), func(k seal.AEAD) bool { return !isLocal(k) })
	}
	_, local := key.(*Key)
	return local
}

// FreshKey reports whether a call to a master key asks if the key may still be
// used. A key that keeps key material in memory must then ask the service that
// holds it. The key must implement [AEADWithContext].
func FreshKey(ctx context.Context) bool { return seal.IsFresh(ctx) }

// watchKey returns the watch of the master key.
func (v *Vault) watchKey(check *keyring.Check) *keyring.Watch {
	return keyring.NewWatch(keyring.WatchConfig{
		Age: v.cfg.KeyAge, Grace: max(0, v.cfg.KeyGrace), Now: v.core.Now, Logger: v.cfg.Logger,
		Check: check.Holds, Drop: v.core.Tenants.DropAll,
		Changed: func(ctx context.Context, c keyring.KeyChange) error { return v.core.KeyChanged(ctx, c, v.sweepNow) },
	})
}

// openKey returns Config.OpenKey for the internal packages.
func (c *Config) openKey() func(ctx context.Context, uri string) (seal.AEAD, error) {
	if c.OpenKey == nil {
		return nil
	}
	return func(ctx context.Context, uri string) (seal.AEAD, error) {
		key, err := c.OpenKey(ctx, uri)
		if err == nil && key == nil {
			err = errors.New("vault: Config.OpenKey returned no key")
		}
		return key, err
	}
}

// SetTenantKey gives a tenant a key of its own, which Config.OpenKey opens by its
// URI. An empty URI removes it. The tenant's keys are then sealed with this key
// inside the master key, so neither holder opens them alone. SetTenantKey also
// rotates the tenant's data key, so that its keys in older backups do not open rows
// of today: see [Vault.RotateDataKeys]. After an interruption, call it again with the
// same URI to finish. All nodes keep serving.
//
// Every node asks the holder of the key as Config.KeyAge says. When the holder denies
// its use, the operations of the tenant fail with [ErrKeyDenied], and after
// Config.KeyGrace without a response with [ErrKeyUnavailable], until the key is
// available again. Other tenants are not affected.
func (v *Vault) SetTenantKey(ctx context.Context, tenant uuid.UUID, uri string) error {
	if uri == "" {
		return public(rotation.SetKey(ctx, v.core, tenant, nil))
	}
	if v.core.OpenKey == nil {
		return errors.New("vault: SetTenantKey needs Config.OpenKey")
	}
	key, err := v.core.OpenKey(ctx, uri)
	if err != nil {
		return err
	}
	return public(rotation.SetKey(ctx, v.core, tenant, &seal.OwnKey{URI: uri, AEAD: key}))
}

// TenantKeyStates returns how many keys of tenants this node uses, by state. Tenants
// with the same URI share a key.
func (v *Vault) TenantKeyStates() map[TenantKeyState]int {
	states := map[TenantKeyState]int{}
	for state, n := range v.core.Own.States() {
		states[TenantKeyState(state)] = n
	}
	return states
}

// maxReadAge is how long a node uses the keys and settings of a tenant before it
// reads them from the database again. Only changed keys are unwrapped again.
const maxReadAge = time.Second

func (c *Config) readAge() time.Duration {
	if c.KeyAge > 0 {
		return min(c.KeyAge, maxReadAge)
	}
	return maxReadAge
}

// RotateOptions adjusts a rotation of keys.
type RotateOptions struct {
	// Progress is called when rows were resealed or a tenant is done, never
	// concurrently. It gets the number of resealed rows, and of tenants whose old
	// key is destroyed. It may be nil.
	Progress func(rows, tenants int)
	// User, if set, is the user of the program who requested the rotation, for its
	// log entries: see [Owner.AsUser].
	User string
	// OlderThan, if set, makes [Vault.RotateAllDataKeys] skip tenants whose data key
	// was made at or after this time, except interrupted rotations. A second call
	// with the same time continues where the first stopped.
	OlderThan time.Time
}

func (o *RotateOptions) inside() rotation.Options {
	if o == nil {
		return rotation.Options{}
	}
	return rotation.Options(*o)
}

// RotateDataKeys gives a tenant a new data key, seals everything under it, and
// destroys the old key. Reads and writes continue on every node during the
// rotation.
//
// An interrupted rotation continues where it stopped when RotateDataKeys is called
// again: rows that are sealed under the new key are skipped. The old key is
// destroyed only when no node can still use it and a last scan found nothing under
// it. A node seals with keys that it read at most ten seconds ago and starts no
// write later, so a rotation takes at least twelve seconds. It waits for
// transactions of the application that have changed data of the tenant (see
// [Client.InTx]).
//
// Fingerprints and search indexes do not change: the key behind them is wrapped
// again under the master key, never replaced.
func (v *Vault) RotateDataKeys(ctx context.Context, tenant uuid.UUID, opts *RotateOptions) error {
	return rotation.Rotate(ctx, v.core, tenant, opts.inside())
}

// RotateAllDataKeys does what [Vault.RotateDataKeys] does, for all tenants and
// several at a time. A thousand tenants share one wait of twelve seconds. A failing
// tenant does not stop the others: the error joins all failures, and another call
// continues. Set [RotateOptions].OlderThan to the time of the first call to skip
// tenants that are done.
func (v *Vault) RotateAllDataKeys(ctx context.Context, opts *RotateOptions) error {
	return public(rotation.RotateAll(ctx, v.core, opts.inside()))
}

// RewrapDataKeys wraps the keys of every tenant again under the primary master key,
// while all nodes keep serving. Last it wraps the record by which [Open] recognizes
// the right master key. When it returns nil, the vault opens with the new key
// alone, and no key in it is wrapped under another. After an interruption, call it
// again to finish.
//
// It is the third step of a change of the master key. First every node has to know
// the new key, and then every node has to wrap with it. Otherwise a node would wrap
// new tenants under the old key, or could not open them:
//
//	vault.JoinKeys(old, next) // 1. on every node, one after the other
//	vault.JoinKeys(next, old) // 2. on every node, when all nodes have step 1
//	v.RewrapDataKeys(ctx)     // 3. once, when all nodes have step 2
//	next                      // 4. on every node, after step 3
//
// The data keys do not change. If the old master key may have leaked, let
// [Vault.RotateDataKeys] replace them after the second step.
func (v *Vault) RewrapDataKeys(ctx context.Context) error { return rotation.Rewrap(ctx, v.core) }
