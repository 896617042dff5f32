package keyring

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/seal"
)

// Joined is a master key made of several: it wraps with the first and opens what
// any of them has wrapped. Make one with [Join].
type Joined struct{ all []seal.AEAD }

// Join returns the master key that several make together. There must be at least
// one.
func Join(all []seal.AEAD) *Joined { return &Joined{all} }

// Keys implements [Several].
func (j *Joined) Keys() []seal.AEAD { return j.all }

// Encrypt seals with the first key.
func (j *Joined) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return j.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt opens with the first key that can.
func (j *Joined) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return j.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// EncryptWithContext is Encrypt with a context.
func (j *Joined) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return seal.Encrypt(ctx, j.all[0], plaintext, associatedData)
}

// DecryptWithContext is Decrypt with a context.
func (j *Joined) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	var failed []error
	for _, key := range j.all {
		plaintext, err := seal.Decrypt(ctx, key, ciphertext, associatedData)
		if err == nil {
			return plaintext, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
