// Package awskms opens a master key in AWS KMS. It links no other provider.
package awskms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms/internal/keeper"
)

// Options adjusts Open. Nil means the defaults.
type Options struct {
	// Client is used instead of a client with the credentials of the environment.
	Client *kms.Client
}

// Key is a key in AWS KMS. Close ends its connections.
type Key interface {
	vault.AEAD
	vault.AEADWithContext
	vault.PinnedKey
	io.Closer
}

// Open opens the key of a URI such as awskms:///alias/vault?region=eu-central-1. The id
// of the key is a key id, an alias or an ARN. The parameters are region, profile,
// endpoint, role (an ARN to assume), context_NAME for the encryption context, and root,
// the fingerprint of the vault's root. Open does not call the service.
//
// The key must be symmetric. Each call names the key, so AWS KMS decrypts nothing of
// another key.
func Open(ctx context.Context, uri string, opts *Options) (Key, error) {
	u, err := keeper.Parse(uri, "awskms", "region", "profile", "endpoint", "role", "context_*")
	if err != nil {
		return nil, err
	}
	k := &key{id: u.Path}
	for name := range u.Query {
		if of, ok := strings.CutPrefix(name, "context_"); ok {
			if k.context == nil {
				k.context = map[string]string{}
			}
			k.context[of] = u.Query.Get(name)
		}
	}
	if opts != nil {
		k.client = opts.Client
	}
	if k.client == nil {
		if k.client, err = newClient(ctx, u); err != nil {
			return nil, fmt.Errorf("vaultkms: open the key: %w", err)
		}
	}
	return keeper.New(keeper.Service{Encrypt: k.encrypt, Decrypt: k.decrypt, Denies: denies, Root: u.Root}), nil
}

func newClient(ctx context.Context, u *keeper.URI) (*kms.Client, error) {
	var load []func(*config.LoadOptions) error
	if region := u.Query.Get("region"); region != "" {
		load = append(load, config.WithRegion(region))
	}
	if profile := u.Query.Get("profile"); profile != "" {
		load = append(load, config.WithSharedConfigProfile(profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, err
	}
	if role := u.Query.Get("role"); role != "" {
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), role))
	}
	return kms.NewFromConfig(cfg, func(o *kms.Options) {
		if endpoint := u.Query.Get("endpoint"); endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	}), nil
}

type key struct {
	client  *kms.Client
	id      string
	context map[string]string
}

func (k *key) encrypt(ctx context.Context, data []byte) ([]byte, error) {
	out, err := k.client.Encrypt(ctx, &kms.EncryptInput{
		KeyId: &k.id, Plaintext: data, EncryptionContext: k.context, EncryptionAlgorithm: types.EncryptionAlgorithmSpecSymmetricDefault,
	})
	if err != nil {
		return nil, err
	}
	return out.CiphertextBlob, nil
}

func (k *key) decrypt(ctx context.Context, data []byte) ([]byte, error) {
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{
		KeyId: &k.id, CiphertextBlob: data, EncryptionContext: k.context, EncryptionAlgorithm: types.EncryptionAlgorithmSpecSymmetricDefault,
	})
	if err != nil {
		return nil, err
	}
	return out.Plaintext, nil
}

func denies(err error) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains([]string{
		"AccessDeniedException", "DisabledException", "InvalidGrantTokenException", "KMSInvalidStateException", "NotFoundException",
	}, e.ErrorCode())
}
