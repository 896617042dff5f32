package core

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A cache that counts on the size of principals holds no more text than that, whatever
// their callers have chosen.
func TestSizeOfPrincipals(t *testing.T) {
	t.Parallel()
	some := rand.New(rand.NewPCG(1, 2))
	text := func() string { return strings.Repeat("x", some.IntN(400)) }
	rights := func() (r Rights) {
		for range some.IntN(50) {
			r.Permissions = append(r.Permissions, text())
		}
		for range some.IntN(100) {
			rule := access.Rule{Description: text(), Container: text(), Permissions: []string{text(), ""}, Destinations: []string{text()}}
			for range some.IntN(10) {
				rule.Conditions = append(rule.Conditions, access.Condition{Value: text()})
			}
			r.Rules = append(r.Rules, rule)
		}
		return r
	}
	for range 200 {
		of, own := rights(), rights()
		app := &Application{Permissions: of.Permissions, Rules: of.Rules, Keys: make([]Key, some.IntN(20))}
		for range some.IntN(10) {
			app.Identities = append(app.Identities, identity.Identity{Issuer: text(), Audience: text(), Claims: map[string]any{
				"a" + text(): text(), "b" + text(): json.Number("1" + strings.Repeat("0", some.IntN(400))), text(): true,
			}})
		}
		p := &principal{rights: own, app: app}
		texts := len(must.Get(json.Marshal(own))(t)) + len(must.Get(json.Marshal(app))(t))
		if size := p.size(); size < texts || size > 10*texts+principalBytes {
			t.Fatalf("a principal with %d bytes of JSON has the size %d", texts, size)
		}
	}
}
