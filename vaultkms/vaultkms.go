// Package vaultkms opens master keys that other services keep: the KMS of a cloud,
// the transit engine of HashiCorp Vault or OpenBao, or an HSM behind a program.
//
//	key, err := vaultkms.Open(ctx, "awskms:///alias/vault?region=eu-central-1")
//	v, err := vault.Open(ctx, store, key, nil)
//
// The service wraps only the root of the vault, 32 bytes, which wraps the keys of all
// tenants. So one call to the service opens a vault with any number of tenants, and
// one call checks whether the key may still be used: see vault.Config.KeyAge.
//
// This package links the clients of all services. A program that knows its service
// imports one of [github.com/seed-72ea4aab/vault/vaultkms/awskms],
// [github.com/seed-72ea4aab/vault/vaultkms/gcpkms],
// [github.com/seed-72ea4aab/vault/vaultkms/azurekeyvault],
// [github.com/seed-72ea4aab/vault/vaultkms/hashivault] and
// [github.com/seed-72ea4aab/vault/vaultkms/execkey] instead.
package vaultkms

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms/awskms"
	"github.com/seed-72ea4aab/vault/vaultkms/azurekeyvault"
	"github.com/seed-72ea4aab/vault/vaultkms/execkey"
	"github.com/seed-72ea4aab/vault/vaultkms/gcpkms"
	"github.com/seed-72ea4aab/vault/vaultkms/hashivault"
)

// Options adjusts OpenOptions. Nil means the defaults.
type Options struct {
	// Logger gets what the program of an exec: key writes to its standard error. The
	// default is [slog.Default].
	Logger *slog.Logger
}

// Open opens the key of a URI. The scheme selects the package of this module that opens it:
// awskms, gcpkms, azurekeyvault and hashivault take credentials from the environment, and
// exec:PROGRAM ARG... starts a program, without a shell.
//
// Open does not call the service. An error of the key that matches
// [vault.ErrKeyDenied] means that the key is disabled or deleted, or that this
// process may not use it; any other error is temporary. The key is an io.Closer. Close it
// after the vault.
func Open(ctx context.Context, uri string) (vault.AEAD, error) { return OpenOptions(ctx, uri, nil) }

// OpenOptions is Open with options.
func OpenOptions(ctx context.Context, uri string, opts *Options) (vault.AEAD, error) {
	if opts == nil {
		opts = &Options{}
	}
	scheme, _, _ := strings.Cut(uri, ":")
	switch strings.ToLower(scheme) {
	case "awskms":
		return opened(awskms.Open(ctx, uri, nil))
	case "gcpkms":
		return opened(gcpkms.Open(ctx, uri, nil))
	case "azurekeyvault":
		return opened(azurekeyvault.Open(ctx, uri, nil))
	case "hashivault":
		return opened(hashivault.Open(ctx, uri, nil))
	case "exec":
		return opened(execkey.Open(ctx, uri, &execkey.Options{Logger: opts.Logger}))
	}
	return nil, errors.New("vaultkms: the URI of a key begins with awskms://, gcpkms://, azurekeyvault:// or hashivault://, or is exec:PROGRAM")
}

// opened returns no key with an error.
func opened[K vault.AEAD](key K, err error) (vault.AEAD, error) {
	if err != nil {
		return nil, err
	}
	return key, nil
}
