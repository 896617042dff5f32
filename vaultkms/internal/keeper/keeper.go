// Package keeper makes a master key of a service that encrypts and decrypts.
package keeper

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Key is a key that a service keeps. Close ends its connections.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	vault.PinnedKey
	io.Closer
}

// Service is what a service does with a key.
type Service struct {
	Encrypt, Decrypt func(ctx context.Context, data []byte) ([]byte, error)
	// Denies reports whether an error means that the key is disabled or deleted, or that
	// this process may not use it.
	Denies func(error) bool
	// Public is Public of [vault.PinnedKey]. Nil means that the key authenticates.
	Public func(ciphertext []byte) bool
	// Root is the fingerprint of the root in the URI.
	Root string
	// Close ends the connections. It may be nil.
	Close func() error
}

// New returns the key of a service.
func New(s Service) Key { return &key{s} }

type key struct{ service Service }

// The service gets the hash of the associated data in front of the plaintext, because
// not every service takes associated data.
var errBound = errors.New("vaultkms: the ciphertext is not for this associated data")

// EncryptWithContext implements vault.AEADWithContext.
func (k *key) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	bound := sha256.Sum256(associatedData)
	in := slices.Concat(bound[:], plaintext)
	defer clear(in)
	out, err := k.service.Encrypt(ctx, in)
	return out, k.classify(err)
}

// DecryptWithContext implements vault.AEADWithContext.
func (k *key) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	out, err := k.service.Decrypt(ctx, ciphertext)
	if err != nil {
		return nil, k.classify(err)
	}
	bound := sha256.Sum256(associatedData)
	if len(out) < len(bound) || subtle.ConstantTimeCompare(out[:len(bound)], bound[:]) == 0 {
		return nil, errBound
	}
	return out[len(bound):], nil
}

// Encrypt implements vault.AEAD.
func (k *key) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt implements vault.AEAD.
func (k *key) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// Public implements vault.PinnedKey.
func (k *key) Public(ciphertext []byte) bool {
	return k.service.Public != nil && k.service.Public(ciphertext)
}

// Root implements vault.PinnedKey.
func (k *key) Root() string { return k.service.Root }

// Close implements io.Closer.
func (k *key) Close() error {
	if k.service.Close == nil {
		return nil
	}
	return k.service.Close()
}

func (k *key) classify(err error) error {
	switch {
	case err == nil:
		return nil
	case k.service.Denies(err):
		return fmt.Errorf("%w: %w", vault.ErrKeyDenied, err)
	default:
		return fmt.Errorf("vaultkms: %w", err)
	}
}

// URI is the parsed URI of a key.
type URI struct {
	Path  string // host and path, without a slash at the beginning
	Root  string // the parameter root
	Query url.Values
}

// Parse parses a URI with a scheme. Its parameters are root and those in known; a name
// that ends in * stands for all names that begin with the rest. Errors do not contain the
// text of the URI, which may hold a secret.
func Parse(uri, scheme string, known ...string) (*URI, error) {
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || u.Fragment != "" {
		return nil, errors.New("vaultkms: the URI of the key is malformed, or has a user or password: credentials belong in the environment")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("vaultkms: the URI of the key has malformed parameters")
	}
	if u.Scheme != scheme {
		return nil, fmt.Errorf("vaultkms: the URI of the key must begin with %s://", scheme)
	}
	for name, values := range query {
		ok := slices.ContainsFunc(append(known, "root"), func(k string) bool {
			prefix, all := strings.CutSuffix(k, "*")
			return name == k || all && strings.HasPrefix(name, prefix)
		})
		if !ok || len(values) != 1 {
			return nil, fmt.Errorf("vaultkms: the URI of the key has an unknown or repeated parameter; known: %s; credentials belong in the environment",
				strings.Join(append(known, "root"), ", "))
		}
	}
	out := &URI{Path: strings.TrimPrefix(u.Host+u.Path, "/"), Root: query.Get("root"), Query: query}
	if out.Path == "" {
		return nil, fmt.Errorf("vaultkms: the URI of the key names no key: %s://...", scheme)
	}
	return out, nil
}
