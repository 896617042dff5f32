package vault

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/rotation"
	"github.com/seed-72ea4aab/vault/internal/seal"
)

// AEAD is the master key: it wraps the data keys of the tenants. It has the
// methods of Tink's AEAD, so any Tink keyset or cloud KMS key fits; [NewKey]
// and [ParseKey] make a local one, and [JoinKeys] joins several for a change.
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

// JoinKeys returns a master key that wraps with the first of several and opens what
// any of them has wrapped. It is for changing from one master key to another:
// see [Vault.RewrapDataKeys]. A Tink keyset of several keys does the same.
func JoinKeys(primary AEAD, others ...AEAD) AEAD {
	all := []seal.AEAD{primary}
	for _, other := range others {
		all = append(all, other)
	}
	return keyring.Join(all)
}

// RotateOptions adjusts a rotation of keys.
type RotateOptions struct {
	// Progress is called after each batch with the number of rows that have been
	// resealed so far. It may be nil.
	Progress func(done int)
	// User, if set, is the user of the program who wants the rotation, for its
	// entries in the log: see [Client.AsUser].
	User string
}

// RotateDataKeys gives a tenant a new data key, seals everything under it, and
// destroys the old one. Reads and writes go on meanwhile, on every node.
//
// A rotation that was cut off goes on where it stopped when RotateDataKeys is
// called again: what is already sealed under the new key is passed over. The
// old key is destroyed only when no node can be using it any more (a node
// seals with keys that it read at most ten seconds ago, and begins no write
// later) and a last scan found nothing under it; so a rotation takes at least
// twelve seconds. It waits for transactions of the application that have changed
// something of the tenant's (see [Client.InTx]).
//
// Fingerprints and search indexes stay as they are: the key behind them is
// wrapped again under the master key, never replaced.
func (v *Vault) RotateDataKeys(ctx context.Context, tenant uuid.UUID, opts *RotateOptions) error {
	var o rotation.Options
	if opts != nil {
		o = rotation.Options(*opts)
	}
	return rotation.Rotate(ctx, v.core, tenant, o)
}

// RewrapDataKeys wraps the keys of every tenant again under the primary master key,
// while all nodes serve, and last the record by which [Open] recognizes the
// right master key. So when it has returned nil, the vault opens with the new
// key alone, and nothing in it is wrapped under another. One that was cut off
// is finished by calling it again.
//
// It is the third step of a change of the master key. Before it, every node has
// to know the new key, and then to wrap with it, or it would wrap new tenants
// under the old one or not be able to open them:
//
//	vault.JoinKeys(old, next) // on every node, one after the other
//	vault.JoinKeys(next, old) // when the last has the first
//	v.RewrapDataKeys(ctx)     // when the last has the second
//	next                  // after that, on every node
//
// The data keys stay as they are. If the old master key may have
// leaked, let [Vault.RotateDataKeys] replace them after the second step.
func (v *Vault) RewrapDataKeys(ctx context.Context) error { return rotation.Rewrap(ctx, v.core) }
