package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestIssuerFlags(t *testing.T) {
	t.Parallel()
	c := must.Get(parseFlags([]string{
		"-issuer", "https://token.actions.githubusercontent.com,must=repository_id|environment",
		"-issuer", "https://kubernetes.default.svc,ca=ca.crt,token=token", "-issuer", "https://ci.example.com,jwks=keys=1.json",
	}, io.Discard))(t)
	want := issuerList{
		{URL: "https://token.actions.githubusercontent.com", Must: []string{"repository_id", "environment"}},
		{URL: "https://kubernetes.default.svc", CAFile: "ca.crt", TokenFile: "token"},
		{URL: "https://ci.example.com", JWKS: "keys=1.json"},
	}
	must.Same(t, "issuers", want, c.issuers)
	for text, says := range map[string]string{
		"https://a.example,jwks": `"jwks" needs a value`, "https://a.example,ca=": `"ca" needs a value`, "https://a.example,audience=x": `"audience" is not known`,
		"https://a.example,ca=a,ca=b": `"ca" is not known, or is given twice`, "https://a.example,must=a,must=b": "given twice", "https://a.example,": "needs a value",
	} {
		must.Fail(parseFlags([]string{"-issuer", text}, io.Discard))(t, text, must.Text(says))
	}
	must.Fail(parseFlags([]string{"-issuer", "https://a.example", "-issuer", "https://a.example,must=a"}, io.Discard))(t, "twice", must.Text("given twice"))
}

func TestSignInFlags(t *testing.T) {
	t.Parallel()
	all := []string{
		"-console-url", "https://console.example.com/", "-console-oidc", "https://id.example.com", "-console-oidc-client", "vault",
		"-console-oidc-role", "groups=a=b:c:owner", "-console-oidc-role", "email=ann@example.com:viewer",
	}
	c := must.Get(parseFlags(all, io.Discard))(t)
	must.Same(t, "roles", roleRules{{"groups", "a=b:c", console.Owner}, {"email", "ann@example.com", console.Viewer}}, c.consoleFlags.oidc.roles)
	for says, args := range map[string][]string{
		"must be CLAIM=VALUE:ROLE, such as groups=vault-admins:owner":                  {"-console-oidc-role", "owner"},
		"must be CLAIM=VALUE:ROLE":                                                     {"-console-oidc-role", "=a:owner"},
		"a role is viewer, operator or owner":                                          {"-console-oidc-role", "a=b:root"},
		"need --console-oidc":                                                          {"-console-oidc-client", "vault"},
		"--console-oidc needs --console-oidc-client":                                   all[:4],
		"--console-oidc needs --console-oidc-client, --console-oidc-role and":          all[2:],
		"need --console":                                                               append([]string{"-console", ""}, all[2:]...),
		"--console-header, --console-link-file and --console-oidc are ways":            append([]string{"-console-header", "X-User"}, all...),
		"--console-header, --console-link-file and --console-oidc are ways to sign in": append([]string{"-console-link-file", "link"}, all...),
	} {
		must.Fail(parseFlags(args, io.Discard))(t, fmt.Sprint(args), must.Text(says))
	}
}

// A program without OpenID Connect refuses the flags before it opens a database.
func TestProgramWithoutOIDC(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{
		{"-issuer", "https://ci.example.com"},
		{"-console-url", "https://c.example", "-console-oidc", "https://id.example.com", "-console-oidc-client", "vault", "-console-oidc-role", "a=b:owner"},
	} {
		dir := t.TempDir()
		args := append([]string{"-addr", "127.0.0.1:0", "-db", filepath.Join(dir, "v.db"), "-key-file", filepath.Join(dir, "k"), "-credentials", filepath.Join(dir, "c")}, flags...)
		must.Match(t, flags[0], Main(t.Context(), args, OIDC{}, func(string) string { return "" }, io.Discard, io.Discard), errNoOIDC)
		files := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
		must.Same(t, "files", 0, len(files))
	}
}

// signIn is a sign-in that knows one person.
type signIn struct{ SignInConfig }

func (s signIn) Handler(h http.Handler) http.Handler { return h }

func (s signIn) Authorize(*http.Request) (console.User, error) {
	return console.User{ID: s.ClientID, Role: s.Roles[0].Role}, nil
}

func (s signIn) SignOut(http.ResponseWriter, *http.Request) {}

// TestSignInAtTheConsole serves a console with the sign-in of the flags, and without
// links.
func TestSignInAtTheConsole(t *testing.T) {
	t.Parallel()
	var issuers []Issuer
	s := runServerWith(t, OIDC{
		Issuers: func(_ context.Context, _ *slog.Logger, list []Issuer) (vault.IdentityVerifier, error) {
			issuers = list
			return nil, nil //nolint:nilnil // a vault without issuers
		},
		SignIn: func(_ context.Context, config SignInConfig) (SignIn, error) { return signIn{config}, nil },
	}, "-console", "127.0.0.1:0", "-console-url", "https://console.example.com", "-console-oidc", "https://id.example.com",
		"-console-oidc-client", "Ann", "-console-oidc-role", "groups=a:operator", "-issuer", "https://ci.example.com")
	must.Contain(t, "the banner", s.await(`The console is at \S+`), "https://console.example.com/")
	s.await("Ctrl-C")
	must.Same(t, "issuers", []Issuer{{URL: "https://ci.example.com"}}, issuers)
	if link := s.printed.find(linkPattern); link != "" {
		t.Errorf("there is a link %s", link)
	}
	s.end()
}
