// Package hashivault opens a master key in the transit engine of HashiCorp Vault or
// OpenBao. It links no other provider.
package hashivault

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms/internal/keeper"
)

// Options adjusts Open. Nil means the defaults.
type Options struct {
	// Client is used instead of a client for the server in VAULT_SERVER_URL or
	// VAULT_ADDR with the token in VAULT_SERVER_TOKEN or VAULT_TOKEN.
	Client *api.Client
}

// Key is a key in the transit engine. Close ends its connections.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	vault.PinnedKey
	io.Closer
}

// Open opens the key of a URI such as hashivault://KEY. The parameters are engine
// (transit), and root, the fingerprint of the vault's root. Open does not call the
// service.
//
// Each call names the key, so the engine decrypts nothing of another key. A key of RSA
// authenticates nothing: a vault that exists opens with it only with the fingerprint of
// its root.
func Open(_ context.Context, uri string, opts *Options) (Key, error) {
	u, err := keeper.Parse(uri, "hashivault", "engine")
	if err != nil {
		return nil, err
	}
	k := &key{name: u.Path, engine: cmp.Or(u.Query.Get("engine"), "transit")}
	if opts != nil {
		k.client = opts.Client
	}
	if k.client == nil {
		if k.client, err = newClient(); err != nil {
			return nil, fmt.Errorf("vaultkms: open the key: %w", err)
		}
	}
	return keeper.New(keeper.Service{Encrypt: k.encrypt, Decrypt: k.decrypt, Denies: denies, Root: u.Root, Public: public}), nil
}

func newClient() (*api.Client, error) {
	cfg := api.DefaultConfig()
	if cfg.Error != nil {
		return nil, cfg.Error
	}
	cfg.Address = cmp.Or(os.Getenv("VAULT_SERVER_URL"), os.Getenv("VAULT_ADDR"))
	if cfg.Address == "" {
		return nil, errors.New("neither VAULT_SERVER_URL nor VAULT_ADDR is set")
	}
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, errors.New("the address of the server is malformed") // it may hold a password
	}
	if token := cmp.Or(os.Getenv("VAULT_SERVER_TOKEN"), os.Getenv("VAULT_TOKEN")); token != "" {
		client.SetToken(token)
	}
	return client, nil
}

type key struct {
	client       *api.Client
	name, engine string
}

func (k *key) encrypt(ctx context.Context, data []byte) ([]byte, error) {
	text, err := k.call(ctx, "encrypt", map[string]any{"plaintext": data}, "ciphertext")
	return []byte(text), err
}

func (k *key) decrypt(ctx context.Context, data []byte) ([]byte, error) {
	text, err := k.call(ctx, "decrypt", map[string]any{"ciphertext": string(data)}, "plaintext")
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

var errAnswer = errors.New("the transit engine returned something else")

func (k *key) call(ctx context.Context, op string, in map[string]any, field string) (string, error) {
	out, err := k.client.Logical().WriteWithContext(ctx, path.Join(k.engine, op, k.name), in)
	if err != nil {
		return "", err
	}
	if out != nil {
		if text, ok := out.Data[field].(string); ok {
			return text, nil
		}
	}
	return "", errAnswer
}

// maxGenuine is more than the length of a root that a key which authenticates has
// encrypted, 104 bytes at most, and far less than a ciphertext of RSA has without its
// leading zeros, which the engine does not need.
const maxGenuine = 128

// public reports whether a ciphertext may be of RSA. The last part of a ciphertext of
// another key is short, and the engine decodes it in the same way.
func public(ciphertext []byte) bool {
	raw, err := base64.StdEncoding.DecodeString(string(ciphertext[bytes.LastIndexByte(ciphertext, ':')+1:]))
	return err != nil || len(raw) > maxGenuine
}

func denies(err error) bool {
	e, ok := errors.AsType[*api.ResponseError](err)
	return ok && (e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound ||
		e.StatusCode == http.StatusBadRequest && slices.ContainsFunc(e.Errors, isDenial))
}

// isDenial reports whether a message of the transit engine means that the key was
// deleted, or that its version must not be used. The engine has no code for it.
func isDenial(message string) bool {
	return strings.Contains(message, "encryption key not found") || strings.Contains(message, "disallowed by policy")
}
