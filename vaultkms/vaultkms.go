// Package vaultkms opens master keys that other services keep: the KMS of a cloud,
// the transit engine of HashiCorp Vault or OpenBao, or an HSM behind a program.
//
//	key, err := vaultkms.Open(ctx, "awskms:///alias/vault?region=eu-central-1")
//	v, err := vault.Open(ctx, store, key, nil)
//
// The service wraps only a data key of 32 bytes, which seals the keys of all
// tenants. So one call to the service opens a vault with any number of tenants, and
// one call checks whether the key may still be used: see vault.Config.KeyAge.
package vaultkms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/hashicorp/vault/api"
	"gocloud.dev/gcerrors"
	"gocloud.dev/secrets"
	_ "gocloud.dev/secrets/awskms"        // registers awskms://
	_ "gocloud.dev/secrets/azurekeyvault" // registers azurekeyvault://
	_ "gocloud.dev/secrets/gcpkms"        // registers gcpkms://
	_ "gocloud.dev/secrets/hashivault"    // registers hashivault://

	"github.com/seed-72ea4aab/vault"
)

// execScheme starts the URI of a program.
const execScheme = "exec:"

// Open opens the key of a URI:
//
//   - awskms, gcpkms, azurekeyvault and hashivault are the URLs of package
//     gocloud.dev/secrets, which takes credentials from the environment;
//   - exec:PROGRAM ARG... starts a program, without a shell, and talks to it over
//     its standard input and output.
//
// Open does not call the service. An error of the key that matches
// [vault.ErrKeyDenied] means that the key is disabled or deleted, or that this
// process may not use it; any other error is temporary.
func Open(ctx context.Context, uri string) (vault.AEAD, error) {
	return open(ctx, secrets.DefaultURLMux(), uri)
}

func open(ctx context.Context, mux *secrets.URLMux, uri string) (vault.AEAD, error) {
	if command, ok := strings.CutPrefix(uri, execScheme); ok {
		words := strings.Fields(command)
		if len(words) == 0 {
			return nil, errors.New("vaultkms: exec: needs a program")
		}
		return newEnvelope((&program{words: words, logger: loggerOf(ctx)}).call), nil
	}
	u, err := url.Parse(uri)
	if err != nil || u.User != nil { // the text may hold a secret
		return nil, errors.New("vaultkms: the URI of the key is malformed, or has a user or password")
	}
	for name := range u.Query() {
		if slices.Contains([]string{"key", "token", "password", "secret", "signature"}, strings.ToLower(name)) {
			return nil, errors.New("vaultkms: the URI of the key has a parameter " + strings.ToLower(name) + ": credentials belong in the environment")
		}
	}
	if !slices.Contains([]string{"awskms", "gcpkms", "azurekeyvault", "hashivault"}, u.Scheme) {
		return nil, errors.New("vaultkms: the URI of a key begins with awskms://, gcpkms://, azurekeyvault:// or hashivault://, or is exec:PROGRAM")
	}
	k, err := mux.OpenKeeperURL(ctx, u)
	if err != nil {
		text, _, _ := strings.Cut(u.String(), "?") // parameters may hold secrets
		return nil, errors.New("vaultkms: open the key: " + strings.ReplaceAll(err.Error(), u.String(), text))
	}
	return newEnvelope(service(k)), nil
}

type loggerKey struct{}

// WithLogger returns a context for [Open] whose logger gets what the program of an
// exec: key writes to its standard error. The default is [slog.Default].
func WithLogger(ctx context.Context, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, logger)
}

func loggerOf(ctx context.Context) *slog.Logger {
	if logger, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return logger
	}
	return slog.Default()
}

// service returns a keeper in a cloud.
func service(k *secrets.Keeper) keeper {
	return func(ctx context.Context, op string, data []byte) ([]byte, error) {
		do := k.Encrypt
		if op == opDecrypt {
			do = k.Decrypt
		}
		out, err := do(ctx, data)
		return out, classify(err)
	}
}

// classify adds ErrKeyDenied to an error that says that the key is disabled or
// deleted, or that this process may not use it.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case denies(err):
		return fmt.Errorf("%w: %w", vault.ErrKeyDenied, err)
	default:
		return fmt.Errorf("vaultkms: %w", err) // an error of gocloud.dev prints its stack in a log
	}
}

func denies(err error) bool {
	switch gcerrors.Code(err) { //nolint:exhaustive // all others are temporary
	case gcerrors.PermissionDenied, gcerrors.NotFound, gcerrors.FailedPrecondition:
		return true
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok { // a code that package awskms does not know
		return e.ErrorCode() == "AccessDeniedException"
	}
	if e, ok := errors.AsType[*api.ResponseError](err); ok { // package hashivault knows no codes
		return e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound ||
			e.StatusCode == http.StatusBadRequest && slices.ContainsFunc(e.Errors, isDenial)
	}
	return false
}

// isDenial reports whether a message of the transit engine means that the key was
// deleted, or that its version must not be used. The engine has no code for it.
func isDenial(message string) bool {
	return strings.Contains(message, "encryption key not found") || strings.Contains(message, "disallowed by policy")
}
