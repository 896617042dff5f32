package cli_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultoidc"
)

// A command over HTTP signs in with the JWT that is in the file when it runs.
func TestCommandsWithAWorkloadsJWT(t *testing.T) {
	t.Parallel()
	const issuer = "https://issuer.example"
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := private.Public().(ed25519.PublicKey)
	encode := base64.RawURLEncoding.EncodeToString
	dir := t.TempDir()
	keys, file := filepath.Join(dir, "keys.json"), filepath.Join(dir, "jwt")
	must.Do(t, os.WriteFile(keys, fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","use":"sig","x":%q}]}`, encode(public)), 0o600))
	verifier := must.Get(vaultoidc.New(t.Context(), vaultoidc.Issuer{URL: issuer, JWKS: keys}))(t)

	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	v := must.Get(vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1, Identities: verifier}))(t)
	t.Cleanup(func() { must.Match(t, "Close", v.Close(), nil) })
	acme := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	app := must.Get(v.Tenant(acme.ID).CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "workload", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}, CreateKey: new(false),
		Identities: []vault.Identity{{Issuer: issuer, Audience: "vault", Claims: map[string]any{"sub": "shop"}}},
	}))(t)
	srv := httptest.NewServer(httpserver.Handler(v, nil))
	t.Cleanup(srv.Close)

	env := map[string]string{"TOKENVAULT_URL": srv.URL, "TOKENVAULT_APPLICATION": app.ID.String(), "TOKENVAULT_IDENTITY_FILE": file}
	for _, c := range []struct {
		subject string
		code    int
		want    string
	}{
		{"shop", 0, "XXXXXXXXXXXX4242"},
		{"other", 4, "the API key is missing, unknown, expired or revoked"},
		{"shop", 0, "XXXXXXXXXXXX4242"},
	} {
		now := time.Now().Unix() // the server and the verifier use the clock of the machine
		text := encode([]byte(`{"alg":"EdDSA","kid":"1"}`)) + "." +
			encode(fmt.Appendf(nil, `{"iss":%q,"aud":"vault","sub":%q,"iat":%d,"exp":%d}`, issuer, c.subject, now, now+3600))
		must.Do(t, os.WriteFile(file, []byte(text+"."+encode(ed25519.Sign(private, []byte(text)))+"\n"), 0o600))
		var out bytes.Buffer
		code := cli.Run(t.Context(), []string{"token", "create", "--type", "card_number", "--data", "4242424242424242"},
			func(name string) string { return env[name] }, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", c.subject, code, c.code, c.want, out.String())
		}
	}
}
