package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestCleanContainer(t *testing.T) {
	t.Parallel()
	deepest := "/" + strings.Repeat("a/", maxSegments)
	longest := "/" + strings.Repeat("a", maxPathLength-2) + "/"
	for path, want := range map[string]string{
		"/": "/", "/pci/": "/pci/", "/PCI/High-1_x/": "/pci/high-1_x/", deepest: deepest, longest: longest,
		"": "", "pci/": "", "/pci": "", "pci": "", "//": "", "/a//b/": "", "/a b/": "", "/a.b/": "", "/../": "",
		"/é/": "", "/a*/": "", "/\u212a/": "", "/a\x00/": "",
		deepest + "a/": "", longest[:1] + "a" + longest[1:]: "",
	} {
		if got, ok := cleanContainer(path); got != want || ok != (want != "") {
			t.Errorf("cleanContainer(%q) = %q, %v", path, got, ok)
		}
	}
}

func TestCheckContainers(t *testing.T) {
	t.Parallel()
	got, problems := CheckContainers([]string{"/B/", "/a/", "/b/"})
	if diff := cmp.Diff([]string{"/b/", "/a/"}, got); diff != "" || problems != nil {
		t.Errorf("containers (-want +got):\n%s\nproblems %v", diff, problems)
	}
	for name, test := range map[string]struct {
		paths []string
		field string
	}{
		"none":     {nil, "containers"},
		"too many": {make([]string, maxContainers+1), "containers"},
		"bad path": {[]string{"/a/", "b"}, "containers[1]"},
		"too long": {[]string{"/" + strings.Repeat("a", maxPathLength) + "/"}, "containers[0]"},
	} {
		got, problems := CheckContainers(test.paths)
		if got != nil || len(problems) != 1 || len(problems[test.field]) != 1 {
			t.Errorf("%s: %v, %v, want a problem at %s", name, got, problems, test.field)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		{Priority: 2, Container: "/PCI/", Transform: Mask, Permissions: []string{TokenRead, TokenUse}},
		when(1, Redact, Condition{Container, Equals, "/A/"}, Condition{ID, StartsWith, "Ab"}),
	}
	want := []Rule{
		{Priority: 2, Container: "/pci/", Transform: Mask, Permissions: []string{TokenRead, TokenUse}},
		when(1, Redact, Condition{Container, Equals, "/a/"}, Condition{ID, StartsWith, "Ab"}),
	}
	got, permissions, problems := Check(Private, rules, []string{TokenCreate}, false)
	if problems != nil {
		t.Fatal(problems)
	}
	must.Same(t, "rules", want, got)
	must.Same(t, "permissions", []string{TokenCreate}, permissions)
	if rules[0].Container != "/PCI/" || rules[1].Conditions[0].Value != "/A/" {
		t.Error("Check changed its argument")
	}
}

func TestCheckHolders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		holder     Holder
		permission string
		onRules    string // path of the problem in a rule, or ""
		plain      string
	}{
		{Public, TokenCreate, "", ""},
		{Public, TokenRead, "rules[0].permissions[0]", "permissions[0]"},
		{Private, TokenRead, "", ""},
		{Private, LogRead, "rules[0].permissions[0]", "permissions[0]"},
		{Management, LogRead, "rules", ""},
		{Management, TokenRead, "rules", "permissions[0]"},
		{Session, TokenUse, "", ""},
		{Session, TenantRead, "rules[0].permissions[0]", "permissions[0]"},
		{"unheard-of", TokenRead, "rules[0].permissions[0]", "permissions[0]"},
	} {
		_, _, problems := Check(test.holder, []Rule{on(1, "/", Mask, test.permission)}, nil, false)
		if !only(problems, test.onRules) {
			t.Errorf("%s with %s in a rule: %v, want a problem at %q", test.holder, test.permission, problems, test.onRules)
		}
		_, _, problems = Check(test.holder, nil, []string{test.permission}, false)
		if !only(problems, test.plain) {
			t.Errorf("%s with %s: %v, want a problem at %q", test.holder, test.permission, problems, test.plain)
		}
	}
}

// only reports whether the only problem is at this path. An empty path means
// no problem.
func only(problems map[string][]string, path string) bool {
	if path == "" {
		return problems == nil
	}
	return len(problems) == 1 && len(problems[path]) == 1
}

func TestCheckProblems(t *testing.T) {
	t.Parallel()
	const secret = "sensitive"
	bad := func(change func(*Rule)) []Rule {
		r := on(1, "/a/", Mask, TokenRead)
		change(&r)
		return []Rule{r}
	}
	condition := func(c Condition) []Rule { return []Rule{when(1, Mask, c)} }
	many := func(n int) []Rule {
		rules := make([]Rule, n)
		for i := range rules {
			rules[i] = on(i+1, "/a/", Mask, TokenRead)
		}
		return rules
	}
	for name, test := range map[string]struct {
		rules       []Rule
		permissions []string
		field       string // empty for no problem
	}{
		"nothing at all":        {nil, nil, "permissions"},
		"as many as can be":     {many(maxRules), nil, ""},
		"too many rules":        {many(maxRules + 1), nil, "rules"},
		"no priority":           {bad(func(r *Rule) { r.Priority = 0 }), nil, "rules[0].priority"},
		"negative priority":     {bad(func(r *Rule) { r.Priority = -1 }), nil, "rules[0].priority"},
		"same priority":         {append(many(1), many(1)...), nil, "rules[1].priority"},
		"bad path":              {bad(func(r *Rule) { r.Container = secret }), nil, "rules[0].container"},
		"neither":               {bad(func(r *Rule) { r.Container = "" }), nil, "rules[0].container"},
		"both":                  {bad(func(r *Rule) { r.Conditions = []Condition{{ID, Equals, "x"}} }), nil, "rules[0].container"},
		"no transform":          {bad(func(r *Rule) { r.Transform = None }), nil, "rules[0].transform"},
		"no permissions":        {bad(func(r *Rule) { r.Permissions = nil }), nil, "rules[0].permissions"},
		"unknown in a rule":     {bad(func(r *Rule) { r.Permissions[0] = secret }), nil, "rules[0].permissions[0]"},
		"not on tokens":         {bad(func(r *Rule) { r.Permissions[0] = LogRead }), nil, "rules[0].permissions[0]"},
		"twice in a rule":       {bad(func(r *Rule) { r.Permissions = []string{TokenRead, TokenRead} }), nil, "rules[0].permissions[1]"},
		"long description":      {bad(func(r *Rule) { r.Description = strings.Repeat("é", 501) }), nil, "rules[0].description"},
		"longest description":   {bad(func(r *Rule) { r.Description = strings.Repeat("é", 500) }), nil, ""},
		"broken description":    {bad(func(r *Rule) { r.Description = "\xff" }), nil, "rules[0].description"},
		"NUL in description":    {bad(func(r *Rule) { r.Description = "a\x00" }), nil, "rules[0].description"},
		"unknown attribute":     {condition(Condition{"type", Equals, secret}), nil, "rules[0].conditions[0].attribute"},
		"unknown operator":      {condition(Condition{ID, "matches", secret}), nil, "rules[0].conditions[0].operator"},
		"half a path":           {condition(Condition{Container, StartsWith, "/a"}), nil, "rules[0].conditions[0].value"},
		"empty id":              {condition(Condition{ID, StartsWith, ""}), nil, "rules[0].conditions[0].value"},
		"long id":               {condition(Condition{ID, Equals, strings.Repeat("é", 401)}), nil, "rules[0].conditions[0].value"},
		"longest id":            {condition(Condition{ID, Equals, strings.Repeat("é", 400)}), nil, ""},
		"NUL in id":             {condition(Condition{ID, Equals, "a\x00"}), nil, "rules[0].conditions[0].value"},
		"broken id":             {condition(Condition{ID, Equals, "\xff"}), nil, "rules[0].conditions[0].value"},
		"too many conditions":   {[]Rule{when(1, Mask, make([]Condition, maxConditions+1)...)}, nil, "rules[0].conditions"},
		"unknown permission":    {nil, []string{TokenRead, secret}, "permissions[1]"},
		"permission twice":      {nil, []string{TokenRead, TokenUse, TokenRead}, "permissions[2]"},
		"too many permissions":  {nil, make([]string, maxPermissions+1), "permissions"},
		"too many in a rule":    {bad(func(r *Rule) { r.Permissions = make([]string, maxPermissions+1) }), nil, "rules[0].permissions"},
		"rules and permissions": {many(1), []string{TokenUse}, ""},
	} {
		rules, permissions, problems := Check(Private, test.rules, test.permissions, false)
		if !only(problems, test.field) {
			t.Errorf("%s: %v, want a problem at %q", name, problems, test.field)
		}
		if problems != nil && (rules != nil || permissions != nil) {
			t.Errorf("%s: refused, but there is a result", name)
		}
		must.Lack(t, name+": the problem", fmt.Sprint(problems), secret)
	}
}
