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
	if got := Transform(9).String(); got != "" {
		t.Errorf("an unknown transform is called %q", got)
	}
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
	back, err := json.Marshal(got)
	if err != nil || string(back) != text {
		t.Errorf("encoded as %s, %v", back, err)
	}
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
		if position(p) != i {
			t.Errorf("%s is at %d, want %d", p, position(p), i)
		}
	}
	if want := [...]int{posCreate, posRead, posUpdate, posDelete, posSearch, posUse, tokenPermissions}; want != [...]int{0, 1, 2, 3, 4, 5, 6} {
		t.Errorf("positions are %v", want)
	}
	for i, p := range Catalogue() {
		if OnTokens(p.Type) != (i < tokenPermissions) {
			t.Errorf("%s is not among the permissions on tokens, or should not be", p.Type)
		}
	}
}
