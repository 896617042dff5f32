package access

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func mustNew(t testing.TB, rules []Rule, permissions ...string) *Grant {
	t.Helper()
	return must.Get(New(rules, permissions))(t)
}

// on returns a rule on a container.
func on(priority int, container string, transform Transform, permissions ...string) Rule {
	return Rule{Priority: priority, Container: container, Transform: transform, Permissions: permissions}
}

// when returns a rule with conditions, which allows reading.
func when(priority int, transform Transform, conditions ...Condition) Rule {
	return Rule{Priority: priority, Conditions: conditions, Transform: transform, Permissions: []string{TokenRead}}
}

func TestHas(t *testing.T) {
	t.Parallel()
	g := mustNew(t, []Rule{on(1, "/a/", Mask, TokenRead)}, LogRead)
	for permission, want := range map[string]bool{TokenRead: true, LogRead: true, TokenUse: false, "": false, "log:write": false} {
		must.Same(t, "Has("+permission+")", want, g.Has(permission))
	}
}

func TestUnlimited(t *testing.T) {
	t.Parallel()
	g := Unlimited()
	for _, p := range Catalogue() {
		if transform, ok := g.Decide(p.Type, "x", []string{"/a/"}); !g.Has(p.Type) || !ok || transform != Reveal {
			t.Errorf("%s: %v, %v", p.Type, transform, ok)
		}
	}
	if g.Condition(TokenRead, Redact, nil) != nil {
		t.Error("the unlimited grant has a condition")
	}
	if _, ok := g.Decide("token:everything", "x", []string{"/a/"}); ok || g.Has("token:everything") {
		t.Error("the unlimited grant has a permission that does not exist")
	}
}

func TestZeroGrantAllowsNothing(t *testing.T) {
	t.Parallel()
	var g Grant
	if _, ok := g.Decide(TokenRead, "x", []string{"/a/"}); ok || g.Has(TokenRead) || g.Best("x", []string{"/a/"}) != None {
		t.Error("the zero grant allows reading")
	}
	if f := g.filter(TokenRead, Redact, setsOf([]string{"/a/"})); f == nil || len(f) > 0 {
		t.Errorf("the zero grant has the filter %+v", f)
	}
}

func TestMayGrant(t *testing.T) {
	t.Parallel()
	g := mustNew(t, nil, ApplicationCreate, LogRead)
	for permission, want := range map[string]bool{TokenUse: true, LogRead: true, ProxyRead: false, "token:everything": false} {
		must.Same(t, "MayGrant("+permission+")", want, g.MayGrant(permission))
	}
}

func TestNewRefusesDamagedGrants(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]Rule{
		"no transform":      on(1, "/", None, TokenRead),
		"unknown transform": on(1, "/", Reveal+1, TokenRead),
		"unknown attribute": when(1, Reveal, Condition{"type", Equals, "card"}),
		"unknown operator":  when(1, Reveal, Condition{ID, "ends_with", "x"}),
		"no such path":      on(1, "pci", Reveal, TokenRead),
		"covers nothing":    on(1, "", Reveal, TokenRead),
	} {
		if g, err := New([]Rule{rule}, []string{TokenRead}); err == nil || g != nil {
			t.Errorf("%s: New = %v, %v, want an error", name, g, err)
		}
	}
	must.Fail(New(nil, []string{"token:everything"}))(t, "an unknown permission is accepted", must.Text("must be a known permission"))
}
