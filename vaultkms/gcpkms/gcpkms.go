// Package gcpkms opens a master key in Google Cloud KMS. It links no other provider.
package gcpkms

import (
	"context"
	"fmt"
	"io"

	cloudkms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms/internal/keeper"
)

// Options adjusts Open. Nil means the defaults.
type Options struct {
	// Client is used instead of a client with the Application Default Credentials. The
	// key does not close it.
	Client *cloudkms.KeyManagementClient
}

// Key is a key in Google Cloud KMS. Close ends its connections.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	vault.PinnedKey
	io.Closer
}

// Open opens the key of a URI such as
// gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K. The parameter root is the
// fingerprint of the vault's root. Open does not call the service.
//
// The key must be symmetric. Each call names the key, so Cloud KMS decrypts nothing of
// another key.
func Open(ctx context.Context, uri string, opts *Options) (Key, error) {
	u, err := keeper.Parse(uri, "gcpkms")
	if err != nil {
		return nil, err
	}
	s := keeper.Service{Denies: denies, Root: u.Root}
	k := &key{name: u.Path}
	if opts != nil && opts.Client != nil {
		k.client = opts.Client
	} else {
		if k.client, err = cloudkms.NewKeyManagementClient(ctx); err != nil {
			return nil, fmt.Errorf("vaultkms: open the key: %w", err)
		}
		s.Close = k.client.Close
	}
	s.Encrypt, s.Decrypt = k.encrypt, k.decrypt
	return keeper.New(s), nil
}

type key struct {
	client *cloudkms.KeyManagementClient
	name   string
}

func (k *key) encrypt(ctx context.Context, data []byte) ([]byte, error) {
	out, err := k.client.Encrypt(ctx, &kmspb.EncryptRequest{Name: k.name, Plaintext: data})
	return out.GetCiphertext(), err
}

func (k *key) decrypt(ctx context.Context, data []byte) ([]byte, error) {
	out, err := k.client.Decrypt(ctx, &kmspb.DecryptRequest{Name: k.name, Ciphertext: data})
	return out.GetPlaintext(), err
}

func denies(err error) bool {
	switch status.Code(err) { //nolint:exhaustive // all others are temporary
	case codes.PermissionDenied, codes.NotFound, codes.FailedPrecondition:
		return true
	}
	return false
}
