package keyring

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/seal"
)

// Joined is a master key that consists of several keys. It wraps with the
// first key, and unwraps with any of them. Create it with [Join].
type Joined struct{ all []seal.AEAD }

// Join returns a master key that consists of the given keys. There must be at
// least one.
func Join(all []seal.AEAD) *Joined { return &Joined{all} }

// Keys implements [Several].
func (j *Joined) Keys() []seal.AEAD { return j.all }

// Encrypt encrypts with the first key.
func (j *Joined) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return j.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt decrypts with the first key that succeeds.
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
