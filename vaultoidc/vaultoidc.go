// Package vaultoidc verifies the JWTs of workloads, and signs people in at the
// console, with OpenID Connect. A vault that uses neither does not link it.
//
//	verifier, err := vaultoidc.New(ctx, vaultoidc.Issuer{URL: "https://token.actions.githubusercontent.com", Must: []string{"repository_id"}})
//	v, err := vault.Open(ctx, store, key, &vault.Config{Identities: verifier})
//
// # What is accepted
//
// A JWT has one signature, by RS, PS or ES with 256, 384 or 512, or by EdDSA. The
// header must name a key of the issuer, and the type of that key must permit the
// algorithm. RSA keys have 2,048 to 8,192 bits, and a key with a use other than sig
// or jwt-svid does not count. The claims exp and iat are required, with at most 24
// hours between them; nbf counts if it is there. Clocks may differ by a minute. A JWT
// has at most 8 KiB. Keys and addresses of keys in the header are ignored. A critical
// extension, and a member that occurs twice in the header or the payload, are refused.
//
// # Keys
//
// New makes no request. The keys of an issuer are fetched when the first JWT needs
// them, and again when they are older than four minutes. Verify uses no keys that are
// older than five minutes while the issuer responds. A vault remembers a JWT for at most
// five minutes more, so a key that the issuer has removed stops working within ten. Unknown
// keys cause at most one request for keys in ten seconds. If the issuer does not respond, or
// responds with something else than keys, the last keys serve for an hour; then Verify
// returns an error that wraps [vault.ErrUnavailable]. Nothing that an issuer does
// affects the JWTs of another one.
package vaultoidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Issuer is a service that signs the JWTs of workloads.
type Issuer struct {
	// URL is the claim iss of its JWTs. It is an https URL, and is compared byte for
	// byte: a slash at the end makes it another issuer.
	URL string
	// JWKS is a file with the keys of the issuer. No request is then sent to the issuer.
	// The file is read again as keys are fetched again.
	JWKS string
	// CAFile has the certificates of the authorities that the issuer is trusted by, in
	// PEM. By default these are the system's authorities. It is read for each request.
	CAFile string
	// TokenFile has a token that is sent with each request, as Kubernetes requires. It is
	// read for each request. Without CAFile the token is sent only to the host of URL.
	TokenFile string
	// Must lists claims, or JSON Pointers, of which an identity has to name at least one
	// with an exact value. Default: sub.
	Must []string
}

// Verifier verifies the JWTs of several issuers. It implements
// [vault.IdentityVerifier] and is safe for concurrent use.
type Verifier struct {
	// Logger gets the errors of issuers. Set it before the first JWT. Default: nothing is
	// logged.
	Logger *slog.Logger

	order   []string
	issuers map[string]*issuer
	now     func() time.Time
}

// New returns a verifier of the JWTs of issuers. It reads the files of the issuers, so
// that a mistake in them is an error now, but sends no request. Requests in the
// background end with ctx.
func New(ctx context.Context, issuers ...Issuer) (*Verifier, error) {
	v := &Verifier{issuers: map[string]*issuer{}, now: wallTime}
	for _, config := range issuers {
		if v.issuers[config.URL] != nil {
			return nil, fmt.Errorf("vaultoidc: the issuer %s is given twice", config.URL)
		}
		i, err := newIssuer(ctx, config, v)
		if err != nil {
			return nil, err
		}
		v.issuers[config.URL], v.order = i, append(v.order, config.URL)
	}
	return v, nil
}

// wallTime returns the time without the monotonic clock, which stops while a machine
// sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// Issuers returns the URLs of the issuers.
func (v *Verifier) Issuers() []string { return slices.Clone(v.order) }

// Must returns the claims of which an identity of an issuer has to name one.
func (v *Verifier) Must(issuer string) []string {
	if i := v.issuers[issuer]; i != nil {
		return slices.Clone(i.config.Must)
	}
	return nil
}

// Verify implements [vault.IdentityVerifier]. It remembers no JWT, because the vault
// does.
func (v *Verifier) Verify(ctx context.Context, jwt string) (vault.Claims, error) {
	if len(jwt) > maxJWT {
		return nil, errLong
	}
	t, err := parse(jwt)
	if err != nil {
		return nil, err
	}
	i := v.issuers[t.issuer()]
	if i == nil {
		return nil, errIssuer
	}
	if err := t.times(v.now()); err != nil {
		return nil, err
	}
	if err := i.keys.verify(ctx, t); err != nil {
		return nil, err
	}
	return t.claims, nil
}

// Reasons to refuse a JWT. They never hold a claim.
var (
	errLong      = errors.New("vaultoidc: the JWT has more than 8 KiB")
	errForm      = errors.New("vaultoidc: this is not a JWT with one signature")
	errJSON      = errors.New("vaultoidc: the header or the payload of the JWT is not an object, or has a member twice")
	errAlgorithm = errors.New("vaultoidc: the algorithm of the JWT is not accepted for its key")
	errCritical  = errors.New("vaultoidc: the JWT has critical extensions")
	errNoKey     = errors.New("vaultoidc: the JWT names no key (kid)")
	errKey       = errors.New("vaultoidc: the issuer has no such key")
	errSignature = errors.New("vaultoidc: the signature of the JWT is wrong")
	errTimes     = errors.New("vaultoidc: the JWT needs the times exp and iat, with at most 24 hours between them")
	errExpired   = errors.New("vaultoidc: the JWT has expired")
	errEarly     = errors.New("vaultoidc: the JWT is not valid yet")
	errIssuer    = errors.New("vaultoidc: the issuer of the JWT is not known")
)

// checkURL checks the URL of an issuer.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return errors.New("vaultoidc: an issuer must be an https URL without a user name, a query and a fragment")
	}
	return nil
}
