package access

import (
	"encoding/json"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestTransformText(t *testing.T) {
	t.Parallel()
	if !(None < Redact && Redact < Mask && Mask < Reveal) {
		t.Error("transforms are not ordered from strict to open")
	}
	for text, want := range map[string]Transform{
		"redact": Redact, "mask": Mask, "reveal": Reveal, "": None, "REVEAL": None, "show": None,
	} {
		got := Reveal
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("UnmarshalText(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	must.Same(t, "an unknown transform is called", "", Transform(9).String())
}

func TestRuleJSON(t *testing.T) {
	t.Parallel()
	const text = `{"priority":2,"conditions":[{"attribute":"id","operator":"starts_with","value":"a"}],` +
		`"transform":"mask","permissions":["token:read"]}`
	want := Rule{
		Priority: 2, Transform: Mask, Permissions: []string{TokenRead},
		Conditions: []Condition{{ID, StartsWith, "a"}},
	}
	var got Rule
	must.Do(t, json.Unmarshal([]byte(text), &got))
	must.Same(t, "decoded rule", want, got)
	must.Same(t, "encoded as", text, string(must.Get(json.Marshal(got))(t)))
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	may := map[Holder][]string{}
	for _, h := range []Holder{Public, Private, Management, Session} {
		for _, p := range Catalogue() {
			if h.MayHold(p.Type) {
				may[h] = append(may[h], p.Type)
			}
		}
	}
	tokens := []string{TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenSearch, TokenUse}
	want := map[Holder][]string{
		Public:  {TokenCreate, TokenUpdate},
		Private: tokens,
		Session: tokens,
		Management: {
			LogRead, ReactorCreate, ReactorRead, ReactorUpdate, ReactorDelete,
			ProxyCreate, ProxyRead, ProxyUpdate, ProxyDelete,
			ApplicationCreate, ApplicationRead, ApplicationUpdate, ApplicationDelete,
			SessionRead, SessionDelete, TenantRead, TenantUpdate,
		},
	}
	must.Same(t, "who may hold what", want, may)
	if Private.MayHold("token:everything") || Session.MayHold("token:everything") {
		t.Error("an unknown permission can be held")
	}
	Catalogue()[0].ApplicationTypes[0] = Management
	if Management.MayHold(TokenCreate) {
		t.Error("a caller can change the catalogue")
	}
}

// TestPositions checks the order of the catalogue.
func TestPositions(t *testing.T) {
	t.Parallel()
	for i, p := range []string{TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenSearch, TokenUse} {
		must.Same(t, "is at", i, position(p))
	}
	if want := [...]int{posCreate, posRead, posUpdate, posDelete, posSearch, posUse, tokenPermissions}; want != [...]int{0, 1, 2, 3, 4, 5, 6} {
		t.Errorf("positions are %v", want)
	}
	for i, p := range Catalogue() {
		must.Same(t, "is not among the permissions on tokens", i < tokenPermissions, OnTokens(p.Type))
	}
}
