package outgoing

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const password = "a-secret-of-the-api"

// gate is a vault with the token "secret", behind a forward proxy.
type gate struct {
	*vaulttest.Vault
	url, to string         // of the destination
	roots   *x509.CertPool // trusts it
	proxy   string         // address
	pass    string         // key that may use secret at the destination
}

// newGate returns a gate to a TLS server.
func newGate(t testing.TB, destination http.Handler) *gate {
	t.Helper()
	server := httptest.NewTLSServer(destination)
	t.Cleanup(server.Close)
	g := &gate{url: server.URL, to: strings.TrimPrefix(server.URL, "https://"), roots: x509.NewCertPool()}
	g.roots.AddCert(server.Certificate())
	g.Vault = vaulttest.Open(t, ":memory:", &vault.Config{Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: g.roots}})
	g.Clock.Advance(time.Since(g.Clock.Now())) // clients check certificates by their own clocks
	must.Get(g.Private.CreateToken(t.Context(), vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: password}))(t)
	g.pass = g.key(t, g.to)
	front := httptest.NewServer(g.ForwardProxy(nil))
	t.Cleanup(front.Close)
	g.proxy = front.Listener.Addr().String()
	return g
}

// key returns a key that may use all tokens in requests to destinations.
func (g *gate) key(t testing.TB, destinations ...string) string {
	t.Helper()
	_, key := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{{
		Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{vault.PermissionTokenUse}, Destinations: destinations}})
	return key
}

// caFile returns a file with the certificate of the forward proxy.
func (g *gate) caFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(name, must.Get(g.ForwardCA(t.Context()))(t), 0o600))
	return name
}

// program runs a program of the machine in a directory and returns what it prints.
func program(t testing.TB, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is like program, but the command must succeed.
func run(t testing.TB, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := program(t, dir, env, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
