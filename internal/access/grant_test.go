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

func TestDecide(t *testing.T) {
	t.Parallel()
	in := func(containers ...string) []string { return containers }
	for _, test := range []struct {
		name        string
		rules       []Rule
		permissions []string
		permission  string
		id          string
		containers  []string
		want        Transform
	}{
		{"nothing", nil, nil, TokenRead, "x", in("/a/"), None},
		{"plain read masks", nil, []string{TokenRead}, TokenRead, "x", in("/a/"), Mask},
		{"plain search masks", nil, []string{TokenSearch}, TokenSearch, "x", in("/a/"), Mask},
		{"plain create masks", nil, []string{TokenCreate}, TokenCreate, "x", in("/a/"), Mask},
		{"plain update masks", nil, []string{TokenUpdate}, TokenUpdate, "x", in("/a/"), Mask},
		{"plain delete counts", nil, []string{TokenDelete}, TokenDelete, "x", in("/a/"), Mask},
		{"plain use reveals", nil, []string{TokenUse}, TokenUse, "x", in("/a/"), Reveal},
		{"plain use is not read", nil, []string{TokenUse}, TokenRead, "x", in("/a/"), None},
		{"no permission on tokens", nil, []string{LogRead}, LogRead, "x", in("/a/"), None},
		{"the root covers all", []Rule{on(1, "/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/a/b/"), Reveal},
		{"the container itself", []Rule{on(1, "/pci/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/pci/"), Reveal},
		{"below the container", []Rule{on(1, "/pci/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/pci/low/"), Reveal},
		{"above the container", []Rule{on(1, "/pci/low/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/pci/"), None},
		{"a longer name", []Rule{on(1, "/pci/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/pci2/"), None},
		{"upper case rule", []Rule{on(1, "/PCI/", Reveal, TokenRead)}, nil, TokenRead, "x", in("/pci/"), Reveal},
		{"another permission", []Rule{on(1, "/", Reveal, TokenRead)}, nil, TokenUse, "x", in("/a/"), None},
		{
			"lowest priority first", []Rule{on(7, "/", Reveal, TokenRead), on(3, "/a/", Redact, TokenRead)}, nil,
			TokenRead, "x", in("/a/"), Redact,
		},
		{
			"a rule without the permission is passed over",
			[]Rule{on(1, "/a/", Redact, TokenUse), on(2, "/a/", Reveal, TokenRead)},
			nil, TokenRead, "x", in("/a/"), Reveal,
		},
		{
			"rules before plain permissions", []Rule{on(9, "/a/", Redact, TokenUse)}, []string{TokenUse},
			TokenUse, "x", in("/a/"), Redact,
		},
		{
			"plain permissions elsewhere", []Rule{on(9, "/a/", Redact, TokenUse)}, []string{TokenUse},
			TokenUse, "x", in("/b/"), Reveal,
		},
		{
			"strictest of several containers", []Rule{on(1, "/a/", Reveal, TokenRead), on(2, "/b/", Mask, TokenRead)}, nil,
			TokenRead, "x", in("/a/", "/b/"), Mask,
		},
		{
			"each container is needed", []Rule{on(1, "/a/", Reveal, TokenRead)}, nil,
			TokenRead, "x", in("/a/", "/b/"), None,
		},
		{"in no container", nil, []string{TokenRead}, TokenRead, "x", nil, None},
		{"id equals", []Rule{when(1, Reveal, Condition{ID, Equals, "x"})}, nil, TokenRead, "x", in("/a/", "/b/"), Reveal},
		{"id differs", []Rule{when(1, Reveal, Condition{ID, Equals, "x"})}, nil, TokenRead, "xy", in("/a/"), None},
		{"id differs in case", []Rule{when(1, Reveal, Condition{ID, Equals, "x"})}, nil, TokenRead, "X", in("/a/"), None},
		{"id starts", []Rule{when(1, Reveal, Condition{ID, StartsWith, "x"})}, nil, TokenRead, "xy", in("/a/"), Reveal},
		{
			"container equals", []Rule{when(1, Reveal, Condition{Container, Equals, "/a/"})}, nil,
			TokenRead, "x", in("/a/b/"), None,
		},
		{
			"container starts", []Rule{when(1, Reveal, Condition{Container, StartsWith, "/a/"})}, nil,
			TokenRead, "x", in("/a/b/"), Reveal,
		},
		{
			"conditions are ANDed",
			[]Rule{when(1, Reveal, Condition{Container, StartsWith, "/a/"}, Condition{ID, StartsWith, "x"})},
			nil, TokenRead, "y", in("/a/"), None,
		},
		{
			"contradiction", []Rule{when(1, Reveal, Condition{ID, Equals, "x"}, Condition{ID, StartsWith, "y"})}, nil,
			TokenRead, "x", in("/a/"), None,
		},
		{
			"narrowing", []Rule{when(1, Reveal, Condition{ID, StartsWith, "x"}, Condition{ID, StartsWith, "xy"})}, nil,
			TokenRead, "xz", in("/a/"), None,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := mustNew(t, test.rules, test.permissions...)
			got, ok := g.Decide(test.permission, test.id, test.containers)
			if got != test.want || ok != (test.want != None) {
				t.Errorf("Decide = %v, %v, want %v", got, ok, test.want)
			}
		})
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	g := mustNew(t, []Rule{on(1, "/a/", Mask, TokenRead)}, LogRead)
	for permission, want := range map[string]bool{TokenRead: true, LogRead: true, TokenUse: false, "": false, "log:write": false} {
		if got := g.Has(permission); got != want {
			t.Errorf("Has(%s) = %v", permission, got)
		}
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
	if !g.filter(TokenRead, Redact, nil).All {
		t.Error("the unlimited grant has a limited filter")
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
	if f := g.filter(TokenRead, Redact, [][]string{{"/a/"}}); f.All || len(f.Clauses) > 0 {
		t.Errorf("the zero grant has the filter %+v", f)
	}
}

func TestMayGrant(t *testing.T) {
	t.Parallel()
	g := mustNew(t, nil, ApplicationCreate, LogRead)
	for permission, want := range map[string]bool{TokenUse: true, LogRead: true, ProxyRead: false, "token:everything": false} {
		if got := g.MayGrant(permission); got != want {
			t.Errorf("MayGrant(%s) = %v", permission, got)
		}
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
	if _, err := New(nil, []string{"token:everything"}); err == nil {
		t.Error("an unknown permission is accepted")
	}
}
