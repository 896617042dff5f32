package seal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Root is a random key at the top of a hierarchy of keys. A key that may be held
// outside the vault wraps the root and nothing else, so that its holder gets one
// fixed blob. The root seals everything below.
type Root struct {
	AEAD        // seals what is below the root
	Fingerprint string
	auth        [sha256.Size]byte
}

const rootLabel = "vault root v1"

// ErrNotRoot means that a key has unwrapped something that is not a root, or not the
// root with the expected fingerprint.
var ErrNotRoot = errors.New("what the key unwrapped is not the root of this vault, or not the root whose fingerprint is given")

// fingerprintSize is the length of a fingerprint in bytes.
const fingerprintSize = 16

// newRoot returns the root with the given bytes. Each use has its own derived key.
func newRoot(raw []byte) (*Root, error) {
	if len(raw) != KeySize {
		return nil, ErrNotRoot
	}
	derive := func(use string) [sha256.Size]byte {
		h := hmac.New(sha256.New, raw)
		h.Write([]byte(rootLabel + " " + use))
		return [sha256.Size]byte(h.Sum(nil))
	}
	seals, fingerprint := derive("seal"), derive("fingerprint")
	aead, err := NewAEAD(seals[:])
	if err != nil {
		return nil, err
	}
	return &Root{aead, hex.EncodeToString(fingerprint[:fingerprintSize]), derive("authenticate")}, nil
}

// MakeRoot returns a new root for the vault (a zero tenant) or for a tenant's own key,
// and the root as the key has wrapped it. It fails if the key cannot unwrap what it
// wraps.
func MakeRoot(ctx context.Context, key AEAD, tenant [16]byte) (*Root, []byte, error) {
	raw := RandomKey()
	defer clear(raw)
	root, err := newRoot(raw)
	if err != nil {
		return nil, nil, err
	}
	wrapped, err := wrapRoot(ctx, key, tenant, raw, root.Fingerprint)
	return root, wrapped, err
}

// UnwrapRoot lets the key unwrap a root. A fingerprint, if it is not empty, must be that
// of the root.
func UnwrapRoot(ctx context.Context, key AEAD, tenant [16]byte, wrapped []byte, fingerprint string) (*Root, error) {
	root, raw, err := unwrapRoot(ctx, key, tenant, wrapped, fingerprint)
	clear(raw)
	return root, err
}

func unwrapRoot(ctx context.Context, key AEAD, tenant [16]byte, wrapped []byte, fingerprint string) (*Root, []byte, error) {
	raw, err := Decrypt(ctx, key, wrapped, ringLocation(tenant, rootLabel))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnwrap, err)
	}
	root, err := newRoot(raw)
	if err == nil && fingerprint != "" && fingerprint != root.Fingerprint {
		err = ErrNotRoot
	}
	return root, raw, err
}

// RewrapRoot lets the first key wrap the root with a fingerprint that one of the keys
// unwraps.
func RewrapRoot(ctx context.Context, keys []AEAD, tenant [16]byte, wrapped []byte, fingerprint string) ([]byte, error) {
	var failed []error
	for _, key := range keys {
		_, raw, err := unwrapRoot(ctx, key, tenant, wrapped, fingerprint)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		defer clear(raw)
		return wrapRoot(ctx, keys[0], tenant, raw, fingerprint)
	}
	return nil, errors.Join(failed...)
}

// wrapRoot lets the key wrap a root, and checks that the key unwraps the result.
func wrapRoot(ctx context.Context, key AEAD, tenant [16]byte, raw []byte, fingerprint string) ([]byte, error) {
	wrapped, err := Encrypt(ctx, key, raw, ringLocation(tenant, rootLabel))
	if err != nil {
		return nil, fmt.Errorf("seal: the key could not wrap the root: %w", err)
	}
	_, err = UnwrapRoot(ctx, key, tenant, wrapped, fingerprint)
	return wrapped, err
}

// MAC returns a keyed hash under a key that authenticates and opens nothing.
func (r *Root) MAC(parts ...[]byte) []byte { return Authenticate(r.auth, parts...) }

// Auth returns the key of MAC, for a holder that has to forget the root.
func (r *Root) Auth() [sha256.Size]byte { return r.auth }

// Authenticate returns the keyed hash of MAC.
func Authenticate(auth [sha256.Size]byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, auth[:])
	for _, part := range parts {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return h.Sum(nil)
}
