package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
)

// OIDC has the functions of OpenID Connect, which are in a module that this package
// does not import. If one is nil, its flags are refused.
type OIDC struct {
	// Issuers returns a verifier of the JWTs of workloads. Its requests end with ctx.
	Issuers func(ctx context.Context, logger *slog.Logger, issuers []Issuer) (vault.IdentityVerifier, error)
	// SignIn returns the sign-in at the console. Its requests end with ctx.
	SignIn func(ctx context.Context, config SignInConfig) (SignIn, error)
}

// Issuer is an issuer of JWTs, as --issuer describes it.
type Issuer struct {
	URL, JWKS, CAFile, TokenFile string
	Must                         []string
}

// SignIn signs people in at the console.
type SignIn interface {
	Handler(console http.Handler) http.Handler
	Authorize(r *http.Request) (console.User, error)
	SignOut(w http.ResponseWriter, r *http.Request)
}

// SignInConfig is a sign-in, as the flags --console-oidc describe it.
type SignInConfig struct {
	Issuer, ClientID, SecretFile, URL string
	Roles                             []RoleRule
	Logger                            *slog.Logger
}

// RoleRule gives a role to people with a claim.
type RoleRule struct {
	Claim, Value string
	Role         console.Role
}

// issuerList is the flag --issuer. It may be repeated.
type issuerList []Issuer

func (l *issuerList) set(text string) error {
	words := strings.Split(text, ",")
	i := Issuer{URL: words[0]}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		to, ok := map[string]*string{"jwks": &i.JWKS, "ca": &i.CAFile, "token": &i.TokenFile}[name]
		switch {
		case value == "":
			return fmt.Errorf("%q needs a value: URL[,jwks=FILE][,ca=FILE][,token=FILE][,must=CLAIM|CLAIM]", name)
		case ok && *to == "":
			*to = value
		case name == "must" && i.Must == nil:
			i.Must = strings.Split(value, "|")
		default:
			return fmt.Errorf("%q is not known, or is given twice: URL[,jwks=FILE][,ca=FILE][,token=FILE][,must=CLAIM|CLAIM]", name)
		}
	}
	if slices.ContainsFunc(*l, func(other Issuer) bool { return other.URL == i.URL }) {
		return errors.New("the issuer is given twice")
	}
	*l = append(*l, i)
	return nil
}

// roleRules is the flag --console-oidc-role. It may be repeated.
type roleRules []RoleRule

func (l *roleRules) set(text string) error {
	at := strings.LastIndex(text, ":")
	claim, value, ok := strings.Cut(text[:max(at, 0)], "=")
	if !ok || claim == "" || value == "" {
		return errors.New("must be CLAIM=VALUE:ROLE, such as groups=vault-admins:owner")
	}
	role, err := ParseRole(text[at+1:])
	if err != nil {
		return err
	}
	*l = append(*l, RoleRule{claim, value, role})
	return nil
}

// oidcFlags are the flags of the sign-in at the console.
type oidcFlags struct {
	issuer, client, secretFile string
	roles                      roleRules
}

func (o *oidcFlags) flags(f *flag.FlagSet) {
	f.StringVar(&o.issuer, "console-oidc", "", "`URL` of an OpenID Connect provider where people sign in to the console; needs --console-url")
	f.StringVar(&o.client, "console-oidc-client", "", "`name` of the console at the provider, its client_id")
	f.StringVar(&o.secretFile, "console-oidc-secret-file", "", "`file` with the secret of the console at the provider, its client_secret")
	f.Func("console-oidc-role", "`CLAIM=VALUE:ROLE` gives a role to people with a claim: viewer, operator or owner; repeatable, the first match counts", o.roles.set)
}

// check checks the flags of the sign-in. url is the URL of the console.
func (o *oidcFlags) check(url string) error {
	switch {
	case o.issuer == "" && (o.client != "" || o.secretFile != "" || len(o.roles) > 0):
		return errors.New("--console-oidc-client, --console-oidc-secret-file and --console-oidc-role need --console-oidc")
	case o.issuer != "" && (o.client == "" || len(o.roles) == 0 || url == ""):
		return errors.New("--console-oidc needs --console-oidc-client, --console-oidc-role and --console-url")
	default:
		return nil
	}
}

// errNoOIDC means that the program was built without OpenID Connect.
var errNoOIDC = errors.New("this program has no OpenID Connect: --issuer and --console-oidc are not available")

// openIssuers opens the verifier of the flags --issuer. Without them it does nothing.
func (c *Config) openIssuers(ctx context.Context, logger *slog.Logger) (err error) {
	switch {
	case len(c.issuers) == 0:
		return nil
	case c.OIDC.Issuers == nil:
		return errNoOIDC
	}
	c.identities, err = c.OIDC.Issuers(ctx, logger, c.issuers)
	return err
}

// openSignIn opens the sign-in of the flags --console-oidc. Without them it does nothing.
func (c *Config) openSignIn(ctx context.Context, logger *slog.Logger) (err error) {
	o := c.consoleFlags.oidc
	switch {
	case o.issuer == "" || c.console == nil:
		return nil
	case c.OIDC.SignIn == nil:
		return errNoOIDC
	}
	c.console.signIn, err = c.OIDC.SignIn(ctx, SignInConfig{
		Issuer: o.issuer, ClientID: o.client, SecretFile: o.secretFile, URL: c.consoleFlags.url, Roles: o.roles, Logger: logger,
	})
	return err
}
