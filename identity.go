package vault

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/identity"
)

// Identity is a workload that may act as an application with a JWT in place of an API
// key: see [Vault.Authenticate]. All claims must match.
type Identity struct {
	// Issuer is one of the issuers of [Config].Identities, byte for byte.
	Issuer string `json:"issuer"`
	// Audience must be equal to the claim aud, or to one of its elements.
	Audience string `json:"audience"`
	// Claims maps the name of a claim, or a JSON Pointer that begins with a slash, to
	// its value: a string, a number or a boolean. If the claim is an array, one element
	// must be equal. A string may end with a star after a colon or a slash. Numbers are
	// equal if their JSON text is.
	Claims map[string]any `json:"claims"`
}

func identitiesOf(list []identity.Identity) []Identity {
	if len(list) == 0 {
		return nil
	}
	out := make([]Identity, len(list))
	for i, id := range identity.Clone(list) {
		out[i] = Identity{id.Issuer, id.Audience, id.Claims}
	}
	return out
}

func insideIdentities(list []Identity) []identity.Identity {
	if len(list) == 0 {
		return nil
	}
	out := make([]identity.Identity, len(list))
	for i, id := range list {
		out[i] = identity.Identity{Issuer: id.Issuer, Audience: id.Audience, Claims: id.Claims}
	}
	return identity.Clone(out)
}

// verifyJWT returns how core verifies a JWT, or nil without a verifier.
func (cfg *Config) verifyJWT() func(context.Context, string) (map[string]any, error) {
	if cfg.Identities == nil {
		return nil
	}
	return func(ctx context.Context, jwt string) (map[string]any, error) { return cfg.Identities.Verify(ctx, jwt) }
}

// mustClaims returns the claims of which an identity of an issuer names at least one,
// and whether there is such an issuer.
func (cfg *Config) mustClaims(issuer string) ([]string, bool) {
	if cfg.Identities == nil || !slices.Contains(cfg.Identities.Issuers(), issuer) {
		return nil, false
	}
	if v, ok := cfg.Identities.(interface{ Must(issuer string) []string }); ok {
		return v.Must(issuer), true
	}
	return nil, true
}

// Claims are the claims of a verified JWT, with numbers as [encoding/json.Number].
// Printed or logged they are hidden, because they may name a person.
type Claims map[string]any

// IdentityVerifier verifies the JWTs of workloads, for [Config].Identities. Module
// vaultoidc implements it.
type IdentityVerifier interface {
	// Verify checks a JWT: its signature under the keys of its issuer, which must be
	// one of Issuers, and its times. An error that wraps [ErrUnavailable] means that
	// the issuer does not respond. Any other error refuses the JWT. Its text may be
	// logged, so it must not hold a claim.
	Verify(ctx context.Context, jwt string) (Claims, error)
	// Issuers returns the URLs of the issuers whose JWTs Verify accepts.
	Issuers() []string
}
