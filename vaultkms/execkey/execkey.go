// Package execkey opens a master key behind a program, such as a key in an HSM. It links
// no provider. docs/keys.md specifies the protocol.
package execkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// Options adjusts Open. Nil means the defaults.
type Options struct {
	// Logger gets what the program writes to its standard error. The default is
	// [slog.Default].
	Logger *slog.Logger
}

// Key is a key behind a program. Close ends the program, and on Unix the programs that it
// has started; later calls fail.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	io.Closer
}

const (
	opEncrypt = "encrypt"
	opDecrypt = "decrypt"
)

// Open opens the key of a line exec:PROGRAM ARG..., which is split at spaces. The first
// call of the key starts the program.
//
// The program must authenticate: only a holder of its key can make a ciphertext that it
// decrypts. If it uses the public key of a pair, set vault.Config.Root to the
// fingerprint of the vault's root.
func Open(_ context.Context, line string, opts *Options) (Key, error) {
	command, ok := strings.CutPrefix(line, "exec:")
	words := strings.Fields(command)
	if !ok || len(words) == 0 {
		return nil, errors.New("vaultkms: the key of a program is exec:PROGRAM ARG...")
	}
	if opts == nil {
		opts = &Options{}
	}
	return &key{program{words: words, logger: cmp.Or(opts.Logger, slog.Default())}}, nil
}

type key struct{ program program }

// Format prints the name of the program for every verb. Its arguments may hold secrets.
func (k *key) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "exec:"+filepath.Base(k.program.words[0]))
}

// EncryptWithContext implements vault.AEADWithContext.
func (k *key) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return k.program.call(ctx, opEncrypt, plaintext, associatedData)
}

// DecryptWithContext implements vault.AEADWithContext.
func (k *key) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	return k.program.call(ctx, opDecrypt, ciphertext, associatedData)
}

// Encrypt implements vault.AEAD.
func (k *key) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt implements vault.AEAD.
func (k *key) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// Close implements io.Closer.
func (k *key) Close() error { return k.program.close() }
