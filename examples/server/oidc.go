package main

import (
	"context"
	"log/slog"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/vaultoidc"
)

// oidc has the functions behind -issuer and -console-oidc.
var oidc = serve.OIDC{
	Issuers: func(ctx context.Context, logger *slog.Logger, issuers []serve.Issuer) (vault.IdentityVerifier, error) {
		list := make([]vaultoidc.Issuer, len(issuers))
		for n, i := range issuers {
			list[n] = vaultoidc.Issuer(i)
		}
		v, err := vaultoidc.New(ctx, list...)
		if err != nil {
			return nil, err
		}
		v.Logger = logger
		return v, nil
	},
	SignIn: func(ctx context.Context, c serve.SignInConfig) (serve.SignIn, error) {
		roles := make([]vaultoidc.RoleRule, len(c.Roles))
		for n, r := range c.Roles {
			roles[n] = vaultoidc.RoleRule(r)
		}
		return vaultoidc.NewSignIn(ctx, vaultoidc.SignInConfig{
			Issuer: c.Issuer, ClientID: c.ClientID, SecretFile: c.SecretFile, URL: c.URL, Roles: roles, Logger: c.Logger,
		})
	},
}
