package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The claims of an identity keep their types and the text of numbers. A manifest whose
// numbers would lose it is refused.
func TestIdentitiesOfAManifest(t *testing.T) {
	t.Parallel()
	read := func(claims string) (vault.ApplicationParams, error) {
		text := "kind: application\nname: Shop\ntype: private\npermissions: [token:create]\nidentities:\n  - issuer: https://ci.example.com\n    audience: vault\n    claims: {" + claims + "}\n"
		file := filepath.Join(t.TempDir(), "shop.yaml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		all := must.Get(manifest.Read(file, manifest.Application))(t)
		return manifestParams(all[0])
	}
	p := must.Get(read(`sub: "7", run: 7, protected: true, /k/uid: a`))(t)
	want := []vault.Identity{{Issuer: "https://ci.example.com", Audience: "vault", Claims: map[string]any{"sub": "7", "run": json.Number("7"), "protected": true, "/k/uid": "a"}}}
	must.Same(t, "identities", want, p.Identities)
	for _, number := range []string{"1.0", "-0.5"} {
		must.Match(t, number, must.Err(read("sub: a, run: "+number)), must.Text("the claim run must be an integer"))
	}
}
