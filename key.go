package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/rotation"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// AEAD is the master key. It wraps the root of the vault, 32 random bytes, and nothing
// else; the root wraps the data keys of the tenants. So the master key gets one blob when
// the vault is opened, and the same blob when the vault checks whether the key may still
// be used. AEAD has the methods of Tink's AEAD, so any Tink keyset or cloud KMS key fits.
// [NewKey] and [ParseKey] make a local key, and [JoinKeys] joins several keys for a
// change of the master key.
//
// The key must authenticate: only its holder can make a ciphertext that it decrypts. See
// [PinnedKey] for a key that does not. The vault takes a key that implements neither
// for one of RSA if its ciphertexts are as long as the modulus of an RSA key, or up to 7
// bytes shorter.
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

// PinnedKey is implemented by keys that know more about themselves. The keys of the
// clouds in module vaultkms do.
type PinnedKey interface {
	// Public reports whether a public key is enough to make this ciphertext, as with RSA.
	// Whoever writes to the database could then replace the root of the vault, so
	// [Open] requires its fingerprint.
	Public(ciphertext []byte) bool
	// Root returns the fingerprint of the root that this key has wrapped, or "" if the
	// key does not know it. Config.Root is another place for it.
	Root() string
}

// KeyWithContext adapts an AEAD whose methods take a context, such as Tink's KMS
// clients, to a master key.
func KeyWithContext(key AEADWithContext) AEAD {
	if pinned, ok := key.(PinnedKey); ok {
		return struct {
			withContext
			PinnedKey
		}{withContext{key}, pinned}
	}
	return withContext{key}
}

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
// it and the database can read everything, so keep the two apart. With fmt, slog and
// encoding/json a Key shows that it is hidden; [Key.Text] returns it.
type Key struct{ held Secret[keyMaterial] }

// keyMaterial is what a Key hides.
type keyMaterial struct {
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
	return &Key{NewSecret(keyMaterial{raw, aead})}, nil
}

// Text returns the key as text, for a secret store.
func (k *Key) Text() string { return seal.KeyText(k.held.Reveal().bytes) }

// UnmarshalText sets the key from the text that [Key.Text] returned, as [ParseKey]
// does, for configuration in environment variables, JSON or YAML. Errors do not quote
// the text.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err == nil {
		*k = *parsed
	}
	return err
}

// String returns a placeholder that hides the key.
func (Key) String() string { return seal.KeyPrefix + "(" + hidden + ")" }

// Format prints the result of String for every verb.
func (k Key) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, k.String()) // Format cannot return an error
}

// LogValue returns the result of String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText writes the result of String, in JSON too. The key is lost.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// errNoKey is returned by a zero Key.
var errNoKey = errors.New("vault: the master key is empty: get one from NewKey or ParseKey")

// Encrypt implements AEAD.
func (k *Key) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if k == nil || k.held.IsZero() {
		return nil, errNoKey
	}
	return k.held.Reveal().aead.Encrypt(plaintext, associatedData)
}

// Decrypt implements AEAD.
func (k *Key) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if k == nil || k.held.IsZero() {
		return nil, errNoKey
	}
	return k.held.Reveal().aead.Decrypt(ciphertext, associatedData)
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
func (v *Vault) watchKey() *keyring.Watch {
	return keyring.NewWatch(keyring.WatchConfig{
		Age: v.cfg.KeyAge, Grace: max(0, v.cfg.KeyGrace), Now: v.core.Now, Logger: v.cfg.Logger,
		Check: v.root.Holds,
		Drop: func() {
			v.core.Tenants.DropAll()
			v.root.Drop()
		},
		Changed: func(ctx context.Context, c keyring.KeyChange) error { return v.core.KeyChanged(ctx, c, v.sweepNow) },
	})
}

// RootFingerprint returns the fingerprint of the vault's root, 32 hexadecimal digits. It
// stays the same for the life of a vault, whatever master key wraps the root. It is not
// secret: see Config.Root.
func (v *Vault) RootFingerprint() string {
	fingerprint, _ := v.root.Fingerprint()
	return fingerprint
}

// KeyUsable returns ErrKeyDenied or ErrKeyUnavailable while this node may not use the
// master key. It returns the result of the last check, without a call. Tenants' own
// keys do not count.
func (v *Vault) KeyUsable() error { return v.core.Key.Usable() }

// tellRoot logs the fingerprint of a root that was made just now.
func (v *Vault) tellRoot(ctx context.Context) {
	fingerprint, made := v.root.Fingerprint()
	switch {
	case made && v.root.Public():
		v.cfg.Logger.WarnContext(ctx, "the root of the vault was made; anybody can encrypt for this master key, so from now on the vault opens only with --root, root= in the URI of the key, or Config.Root", "root", fingerprint)
	case made:
		v.cfg.Logger.InfoContext(ctx, "the root of the vault was made", "root", fingerprint)
	}
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

// SetTenantKey gives a tenant its own key, which Config.OpenKey opens by its
// URI. An empty URI removes it. The key wraps a root of the tenant, which seals the
// tenant's keys inside the vault's root, so neither holder opens them alone. The vault's
// root also seals the tenant's wrapped root with its fingerprint, so the key never
// unwraps anything else. The vault closes keys that are io.Closers. SetTenantKey also
// rotates the tenant's data key, so that its keys in older backups do not open rows
// of today: see [Vault.RotateDataKeys]. After an interruption, call it again with the
// same URI to finish. All nodes keep serving.
//
// Every node asks the holder of the key as Config.KeyAge says. When the holder denies
// its use, the operations of the tenant fail with [ErrKeyDenied], and after
// Config.KeyGrace without a response with [ErrKeyUnavailable], until the key is
// available again. Other tenants are not affected.
func (v *Vault) SetTenantKey(ctx context.Context, tenant uuid.UUID, uri string) error {
	if uri != "" && v.core.OpenKey == nil {
		return errors.New("vault: SetTenantKey needs Config.OpenKey")
	}
	return public(rotation.SetKey(ctx, v.core, tenant, uri))
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

// RewrapDataKeys lets the primary master key wrap the root of the vault, while all nodes
// keep serving. It is one write. When it returns nil, the vault opens with the new key
// alone.
//
// It is the third step of a change of the master key. First every node has to know
// the new key, so that a node that is restarted opens the vault:
//
//	vault.JoinKeys(old, next) // 1. on every node, one after the other
//	vault.JoinKeys(next, old) // 2. on every node, when all nodes have step 1
//	v.RewrapDataKeys(ctx)     // 3. once, when all nodes have step 2
//	next                      // 4. on every node, after step 3
//
// The root and the data keys do not change. Whoever has the old master key and a copy of
// the database from before opens later copies too. If that may be so, move the data to a
// new vault.
func (v *Vault) RewrapDataKeys(ctx context.Context) error {
	return public(core.Retry(func() error { return v.root.Rewrap(ctx) }))
}
