// Package azurekeyvault opens a master key in Azure Key Vault. It links no other
// provider.
package azurekeyvault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms/internal/keeper"
)

// Options adjusts Open. Nil means the defaults.
type Options struct {
	// Client is used instead of a client with the DefaultAzureCredential.
	Client *azkeys.Client
}

// Key is a key in Azure Key Vault. Close ends its connections.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	vault.PinnedKey
	io.Closer
}

// Open opens the key of a URI such as azurekeyvault://NAME.vault.azure.net/keys/KEY, to
// which a version of the key may be appended. The parameters are algorithm
// (RSA-OAEP-256), and root, the fingerprint of the vault's root. Open does not call the
// service.
//
// The key is of RSA, so anybody who knows its public key can encrypt for it. A vault that
// exists opens only with the fingerprint of its root, here or in vault.Config.
func Open(_ context.Context, uri string, opts *Options) (Key, error) {
	u, err := keeper.Parse(uri, "azurekeyvault", "algorithm")
	if err != nil {
		return nil, err
	}
	host, name, ok := strings.Cut(u.Path, "/keys/")
	name, version, _ := strings.Cut(name, "/")
	if !ok || name == "" || !strings.Contains(host, ".vault.") || strings.Contains(version, "/") {
		return nil, errors.New("vaultkms: the URI of the key must be azurekeyvault://NAME.vault.azure.net/keys/KEY, with or without /VERSION")
	}
	k := &key{name: name, version: version, algorithm: azkeys.EncryptionAlgorithmRSAOAEP256}
	if algorithm := u.Query.Get("algorithm"); algorithm != "" {
		k.algorithm = azkeys.EncryptionAlgorithm(algorithm)
	}
	if opts != nil {
		k.client = opts.Client
	}
	if k.client == nil {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("vaultkms: open the key: %w", err)
		}
		if k.client, err = azkeys.NewClient("https://"+host+"/", credential, nil); err != nil {
			return nil, fmt.Errorf("vaultkms: open the key: %w", err)
		}
	}
	return keeper.New(keeper.Service{
		Encrypt: k.encrypt, Decrypt: k.decrypt, Denies: denies, Root: u.Root, Public: func([]byte) bool { return true },
	}), nil
}

type key struct {
	client        *azkeys.Client
	name, version string
	algorithm     azkeys.EncryptionAlgorithm
}

// encrypt returns the version of the key, a slash, and the ciphertext, so that the key can
// get another version.
func (k *key) encrypt(ctx context.Context, data []byte) ([]byte, error) {
	out, err := k.client.Encrypt(ctx, k.name, k.version, azkeys.KeyOperationParameters{Algorithm: &k.algorithm, Value: data}, nil)
	if err != nil {
		return nil, err
	}
	version := k.version
	if out.KID != nil && version == "" {
		version = out.KID.Version()
	}
	return slices.Concat([]byte(version+"/"), out.Result), nil
}

var errFormat = errors.New("the ciphertext is not one of this key")

func (k *key) decrypt(ctx context.Context, data []byte) ([]byte, error) {
	version, ciphertext, ok := bytes.Cut(data, []byte("/"))
	if !ok || k.version != "" && k.version != string(version) {
		return nil, errFormat
	}
	out, err := k.client.Decrypt(ctx, k.name, string(version), azkeys.KeyOperationParameters{Algorithm: &k.algorithm, Value: ciphertext}, nil)
	if err != nil {
		return nil, err
	}
	return out.Result, nil
}

func denies(err error) bool {
	e, ok := errors.AsType[*azcore.ResponseError](err)
	return ok && (e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound)
}
