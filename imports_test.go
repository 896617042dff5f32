package vault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

const module = "github.com/seed-72ea4aab/vault"

// listed is the output of go list for a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

var listPackages = sync.OnceValues(func() (map[string]listed, error) {
	list := []string{"list", "-deps", "-json=ImportPath,Imports,Deps,Standard", "./..."}
	out, err := exec.CommandContext(context.Background(), "go", list...).Output()
	all := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		var p listed
		if err = d.Decode(&p); err == nil {
			all[p.ImportPath] = p
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
})

// below are the internal packages that every feature uses: operations and their
// dependencies, and the languages of tokens.
var below = []string{
	"internal/core", "internal/fault", "internal/access", "internal/admission", "internal/audit", "internal/expr", "internal/find",
	"internal/form", "internal/ids", "internal/jsonx", "internal/pace", "internal/query", "internal/seal",
	"internal/token", "storage", "github.com/google/uuid",
}

// feature returns what a feature may import: the packages below, and other
// features.
func feature(others ...string) []string { return append(others, below...) }

// mayImport lists what each package may import directly, besides the standard
// library. Packages of this module are named by their folder, "." for the root, and
// other packages by their path. A folder or a module stands for all packages in it,
// except ".".
var mayImport = map[string][]string{
	".": {"evidence", "storage", "script", "internal", "github.com/google/uuid", "golang.org/x/mod"},

	// Contracts and their implementations.
	"storage":                              {},
	"script":                               {"internal/fault/kind"},
	"storage/internal/direct":              {},
	"storage/internal/sqlstore":            {"internal/pace", "storage", "github.com/jmoiron/sqlx", "golang.org/x/text"},
	"storage/sqlite":                       {"internal/pace", "storage", "github.com/jmoiron/sqlx", "golang.org/x/sys", "modernc.org/sqlite"},
	"storage/postgres/internal/link":       {"storage", "github.com/lib/pq", "golang.org/x/sys"},
	"storage/postgres/internal/statements": {"storage"},
	"storage/postgres/internal/wire":       {"storage"},
	"storage/postgres/internal/citus":      {"internal/pace", "storage", "github.com/lib/pq"},
	"storage/postgres":                     {"internal/pace", "storage", "github.com/jmoiron/sqlx", "github.com/lib/pq"},
	"storage/storagetest":                  {"storage", "github.com/google/go-cmp"},
	"storage/storagetest/internal/model":   {"storage"},
	"jsruntime":                            {"script", "jsruntime/internal/modules", "jsruntime/internal/workers"},
	"jsruntime/internal/regex":             {"golang.org/x/text"},
	"jsruntime/internal/native":            {"github.com/dop251/goja"},
	"jsruntime/internal/compile":           {"script", "jsruntime/internal/regex", "github.com/dop251/goja", "github.com/evanw/esbuild", "github.com/go-sourcemap/sourcemap"},
	"jsruntime/internal/modules":           {"jsruntime/internal/compile", "github.com/dop251/goja", "github.com/evanw/esbuild"},
	"jsruntime/internal/crypto":            {"jsruntime/internal/native", "github.com/dop251/goja", "golang.org/x/crypto"},
	"jsruntime/internal/node": {"script", "internal/jsonx", "jsruntime/internal/compile", "jsruntime/internal/crypto", "jsruntime/internal/modules", "jsruntime/internal/native", "jsruntime/internal/regex",
		"github.com/andybalholm/brotli", "github.com/dop251/goja", "github.com/nlnwa/whatwg-url", "golang.org/x/net/idna", "golang.org/x/text"},
	"jsruntime/internal/workers": {"script", "internal/share", "jsruntime/internal/compile", "jsruntime/internal/modules", "jsruntime/internal/node", "golang.org/x/sys"},

	// Rooms behind the front.
	"internal/access":    {"internal/form", "storage", "golang.org/x/net"},
	"internal/admission": {"internal/fault", "internal/jsonx", "internal/share", "github.com/google/uuid"},
	"internal/audit":     {"internal/token"},
	"internal/core": {"internal/access", "internal/admission", "internal/audit", "internal/fault", "internal/form",
		"internal/ids", "internal/jsonx", "internal/keyring", "internal/pace", "internal/seal", "internal/trace", "storage", "github.com/google/uuid"},
	"internal/records": {"internal/audit", "internal/core", "internal/fault", "internal/find", "internal/form", "internal/jsonx", "storage", "github.com/google/uuid"},
	"internal/sessions": {"internal/access", "internal/audit", "internal/core", "internal/fault", "internal/find", "internal/form", "internal/ids",
		"internal/records", "storage", "github.com/google/uuid"},
	"internal/egress":        {"internal/share", "code.dny.dev/ssrf"},
	"internal/expr":          {"internal/admission", "internal/jsonx", "internal/expr", "github.com/ncruces/go-strftime"},
	"internal/expr/jsonpath": {"internal/admission", "internal/jsonx"},
	"internal/fault":         {"internal/fault/kind", "internal/form", "storage"},
	"internal/fault/kind":    {},
	"internal/find":          {"internal/seal", "internal/token", "storage"},
	"internal/form":          {"internal/jsonx", "github.com/google/uuid"},
	"internal/ids":           {"github.com/google/uuid"},
	"internal/jsonx":         {},
	"evidence":               {"internal/merkle", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/merkle":        {"golang.org/x/mod"},
	"internal/evident":       {"evidence", "internal/audit", "internal/core", "internal/fault", "internal/keyring", "internal/ledger", "internal/pace", "internal/pending", "internal/seal", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/pending":       {"evidence", "github.com/google/uuid"},
	"internal/ledger":        {"evidence", "internal/merkle", "internal/pace", "internal/pending", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/keyring":       {"internal/fault", "internal/seal", "storage", "github.com/google/uuid"},
	"internal/pace":          {},
	"internal/query":         {"storage", "github.com/google/uuid", "github.com/mr-tron/base58"},
	"internal/seal":          {"storage", "github.com/google/uuid", "github.com/tink-crypto/tink-go/v2", "github.com/mr-tron/base58"},
	"internal/share":         {},
	"internal/token":         {"internal/admission", "internal/form", "internal/jsonx", "internal/expr", "internal/query", "internal/seal"},
	"internal/trace":         {"github.com/google/uuid"},
	"internal/webhook":       {},

	// Features: rooms with functions that take an operation.
	"internal/applications": feature("internal/records", "internal/tokens"),
	"internal/tenants":      feature("internal/keyring", "internal/records", "internal/tokens", "internal/webhook"),
	"internal/erase":        feature("evidence", "internal/applications", "internal/runs", "internal/sessions", "internal/tokens"),
	"internal/forward":      feature("internal/keyring", "internal/relay", "internal/share", "internal/trace"),
	"internal/once":         feature("internal/tokens"),
	"internal/relay":        feature("github.com/andybalholm/brotli", "internal/egress", "internal/records", "internal/reveal", "internal/runs", "internal/tokens", "internal/trace"),
	"internal/runs": feature("internal/applications", "internal/egress", "internal/once", "internal/records", "internal/reveal", "internal/share",
		"internal/tokens", "internal/trace", "internal/webhook", "script"),
	"internal/rotation": feature("internal/keyring"),
	"internal/sinks":    feature("internal/egress", "internal/keyring", "internal/ledger", "internal/share", "internal/webhook"),
	"internal/sweep":    feature("internal/keyring", "internal/ledger", "internal/tokens"),
	"internal/tokens":   feature(),
	"internal/reveal":   feature("internal/tokens"),
	"internal/transfer": feature("internal/tokens"),

	// Around the vault.
	"vaultlog":     {},
	"vaultsql":     {".", "internal/jsonx", "internal/token"},
	"httptokenize": {".", "httpserver"},
	"httpserver":   {".", "script", "internal/admission", "internal/core", "internal/fault", "internal/form", "internal/pace", "internal/records", "internal/relay", "internal/token", "internal/trace", "github.com/google/uuid", "golang.org/x/time"},
	"vaultclient":  {".", "script", "internal/core", "internal/egress", "internal/fault", "internal/pace", "internal/token", "internal/trace", "github.com/google/uuid"},
	"vaulttest":    {".", "internal/keyring", "internal/seal", "storage"},
	"console":      {".", "internal/fault", "internal/pace", "github.com/google/uuid"},
	"internal/serve": {".", "console", "evidence", "httpserver", "internal/pace", "internal/terminal", "jsruntime", "script", "storage", "storage/postgres", "storage/sqlite",
		"github.com/google/uuid", "github.com/lib/pq", "github.com/prometheus/client_golang", "golang.org/x/time"},
	"internal/terminal": {"golang.org/x/sys"},
	"examples/checkout": {".", "httpserver", "storage/sqlite", "vaultclient", "github.com/google/uuid"},
	"examples/embed":    {".", "jsruntime", "script", "storage/sqlite", "github.com/google/uuid"},
	"examples/server":   {"internal/serve"},
	"examples/service":  {".", "httpserver", "jsruntime", "storage/postgres"},
	"examples/evidence": {},
	"examples/shop":     {".", "vaultlog", "vaultsql", "storage/postgres", "storage/sqlite", "github.com/google/uuid", "github.com/lib/pq"},
	"examples/unittest": {"."},

	// Tests and their tools.
	"docs":                       {},
	"internal/bench":             {},
	"internal/test/browser":      {"internal/test/must", "github.com/chromedp/cdproto", "github.com/chromedp/chromedp"},
	"internal/test/terminaltest": {"internal/test/must", "golang.org/x/sys"},
	"internal/test/faults":       {},
	"internal/test/long":         {},
	"internal/test/must":         {"github.com/google/go-cmp"},
	"internal/test/pgtest":       {"internal/test/must", "github.com/lib/pq"},
	"internal/test/testrun":      {"internal/test/pgtest"},
	"internal/test/sentences":    {},
	"internal/test/tampering":    {},
}

// folder returns the folder of a package of this module, "." for the root, and
// the path of every other package.
func folder(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// TestImports checks the dependencies between packages. They include the trust
// boundary: a backend that cannot import a type cannot use it.
func TestImports(t *testing.T) {
	t.Parallel()
	all := must.Get(listPackages())(t)
	own := map[string]bool{}
	for path, p := range all {
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		own[folder(path)] = true
		may, known := mayImport[folder(path)]
		if !known {
			t.Errorf("%s has no row in mayImport", folder(path))
			continue
		}
		for _, imported := range p.Imports {
			allowed := func(a string) bool {
				return folder(imported) == a || a != "." && strings.HasPrefix(folder(imported), a+"/")
			}
			if !all[imported].Standard && !slices.ContainsFunc(may, allowed) {
				t.Errorf("%s must not import %s", folder(path), folder(imported))
			}
		}
	}
	for path := range mayImport {
		if !own[path] {
			t.Errorf("mayImport has a row for %s, which is not a package", path)
		}
	}
}

// TestForbiddenDependencies checks the packages that a package must not depend on, even
// indirectly.
func TestForbiddenDependencies(t *testing.T) {
	t.Parallel()
	all := must.Get(listPackages())(t)
	never := map[string][]string{
		"":                 {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver", module + "/storage/sqlite"},
		"storage/sqlite":   {module, module + "/storage/postgres", "github.com/lib/pq"},
		"storage/postgres": {module, module + "/storage/sqlite", "modernc.org/sqlite"},
		"jsruntime":        {module, module + "/storage"},
		"vaultsql":         {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver"},
		"evidence":         {module, module + "/storage"},
		"httptokenize":     {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja"},
		"httpserver":       {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja"},
		"console":          {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver", module + "/storage/sqlite"},
		"vaultclient":      {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver"},
	}
	for path, not := range never {
		p, ok := all[strings.TrimSuffix(module+"/"+path, "/")]
		if !ok {
			t.Errorf("%s is not a package", path)
		}
		for _, dep := range p.Deps {
			if slices.Contains(not, dep) {
				t.Errorf("%s must not depend on %s", folder(p.ImportPath), dep)
			}
		}
	}
	// The clients of clouds are in the module vaultkms.
	for _, path := range []string{module, module + "/httpserver"} {
		for _, dep := range all[path].Deps {
			if regexp.MustCompile(`aws|azure|google\.com/go|gocloud|hashicorp`).MatchString(strings.ToLower(dep)) {
				t.Errorf("%s must not depend on %s", path, dep)
			}
		}
	}
	// Internal packages do not import the root package. The exception is the
	// server, a program around the vault.
	for path, p := range all {
		room := strings.HasPrefix(folder(path), "internal/") || folder(path) == "script" || strings.HasPrefix(folder(path), "storage")
		if room && folder(path) != "internal/serve" && slices.Contains(p.Imports, module) {
			t.Errorf("%s must not import the root", folder(path))
		}
	}
}

// released are the folders of the modules that users fetch, beside the root.
var released = []string{"otelvault", "vaultpgx", "vaultkms", tool}

// tool is the folder of the program. It requires vaultkms.
const tool = "cmd/tokenvault"

// TestModulesResolve fetches the modules from a clone with the tags of a release,
// as go get does for a user. Other modules come from the module cache, or from the
// proxy if they are not in it.
func TestModulesResolve(t *testing.T) {
	t.Parallel()
	version := requiredVersion(t)
	clone := filepath.Join(t.TempDir(), "clone.git")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--bare", ".", clone).CombinedOutput(); err != nil {
		t.Skipf("this is no clone: %v\n%s", err, out)
	}
	user := t.TempDir()
	writeGoFile(t, user, "go.mod", "module example.com/user\n\ngo 1.26.0\n")
	imports, get := "package user\n", []string{"get"}
	for _, folder := range append([]string{""}, released...) {
		if out, err := exec.CommandContext(t.Context(), "git", "-C", clone, "tag", path.Join(folder, version), "HEAD").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if folder != tool && folder != "vaultkms" {
			imports += "\nimport _ \"" + path.Join(module, folder) + "\"\n"
			get = append(get, path.Join(module, folder)+"@"+version)
		}
	}
	writeGoFile(t, user, "user.go", imports)
	goAsUser(t, user, clone, get...)
	packages := goAsUser(t, user, clone, "list", "-deps", "./...")
	operator := t.TempDir() // who installs the tool
	writeGoFile(t, operator, "go.mod", "module example.com/operator\n\ngo 1.26.0\n")
	goAsUser(t, operator, clone, "get", path.Join(module, tool)+"@"+version)
	packages += goAsUser(t, operator, clone, "list", "-deps", path.Join(module, tool))
	for _, folder := range released {
		must.Contain(t, "the packages of the user", packages, path.Join(module, folder)+"\n")
	}
	if all := goAsUser(t, user, clone, "list", "-m", "all"); !strings.Contains(all, module+" "+version+"\n") || strings.Contains(all, "=>") {
		t.Errorf("the modules of the user: %s", all)
	}
}

// requiredVersion is the version of the vault that the other modules require: one
// version for all, without a replacement.
func requiredVersion(t *testing.T) string {
	t.Helper()
	version := ""
	for _, folder := range released {
		text := must.Get(os.ReadFile(filepath.Join(folder, "go.mod")))(t)
		mod, err := modfile.Parse("go.mod", text, nil)
		if err != nil || len(mod.Replace) > 0 {
			t.Fatalf("%s: %d replacements, %v", folder, len(mod.Replace), err)
		}
		for _, r := range mod.Require {
			if r.Mod.Path != module {
				continue
			}
			if version != "" && version != r.Mod.Version {
				t.Errorf("%s requires %s, and others require %s", folder, r.Mod.Version, version)
			}
			version = r.Mod.Version
		}
	}
	if strings.HasPrefix(version, "v0.0.0") || version == "" {
		t.Fatalf("the modules require version %q of the vault, which is not a release version", version)
	}
	return version
}

// goAsUser runs the go command in a user's folder. The clone has the name of the
// repository, and the user has a separate module cache.
func goAsUser(t *testing.T, folder, clone string, args ...string) string {
	t.Helper()
	env := must.Get(exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output())(t)
	cache, proxy, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE="+filepath.Join(filepath.Dir(clone), "cache"),
		"GOPRIVATE=github.com/seed-72ea4aab", "GONOSUMDB=*", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(cache, "cache", "download"))+","+proxy,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+clone+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+module)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.String()
}

func writeGoFile(t *testing.T, folder, name, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
}

// Every method of Client that takes a context is a verb of the same name, and every
// verb is a method or a part of other work.
func TestVerbsAreMethods(t *testing.T) {
	t.Parallel()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "internal/core/verbs.go", nil, parser.SkipObjectResolution))(t)
	named := map[string]string{} // the Name of a verb by the name of its variable, without Verb
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() {
			literal, ok := v.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			for _, e := range literal.Elts {
				if kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Name" {
					named[strings.TrimPrefix(v.Names[0].Name, "Verb")] = strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
				}
			}
		}
		return true
	})
	for _, verbs := range []core.EntityVerbs{core.ApplicationVerbs, core.ReactorVerbs, core.ProxyVerbs} {
		for i := range reflect.TypeFor[core.EntityVerbs]().NumField() {
			name := reflect.ValueOf(verbs).Field(i).Interface().(core.Verb).Name
			named[name] = name
		}
	}
	client := reflect.TypeFor[*vault.Owner]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		if m.Type.NumIn() < 2 || m.Type.In(1).String() != "context.Context" {
			continue
		}
		same(t, "the verb of "+m.Name, named[m.Name], m.Name)
	}
	inside := []string{"RoundTripper", "Work", "FindProxy"}
	for variable, name := range named {
		if _, ok := client.MethodByName(name); !ok && !slices.Contains(inside, name) {
			t.Errorf("%s names %s, which is not a method", variable, name)
		}
	}
}

// Methods that only the tenant itself may call belong to Owner.
func TestOwnerHasMethodsThatAPIKeysLack(t *testing.T) {
	t.Parallel()
	client, owner := reflect.TypeFor[*vault.Client](), reflect.TypeFor[*vault.Owner]()
	only := 0
	for _, verb := range []core.Verb{core.VerbAs, core.VerbStats, core.VerbListJobs, core.VerbRetryJob, core.VerbDiscardJob, core.VerbTestRun} {
		_, ofClient := client.MethodByName(verb.Name)
		if _, ofOwner := owner.MethodByName(verb.Name); ofClient || !ofOwner || verb.Only == "" {
			t.Errorf("%s is a method of Client, or not of Owner", verb.Name)
		}
		only++
	}
	text := must.Get(os.ReadFile("internal/core/verbs.go"))(t)
	same(t, "verbs for the tenant only", strings.Count(string(text), "Only: "), only)
}

// The comment of API lists the methods of Client that API leaves out.
func TestAPIListsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("api.go"))(t)
	comment, _, _ := strings.Cut(string(text), "type API interface")
	api, client := reflect.TypeFor[vault.API](), reflect.TypeFor[*vault.Client]()
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		_, has := api.MethodByName(name)
		if listed := strings.Contains(comment, "[Client."+name+"]"); listed == has {
			t.Errorf("%s is in API: %v; its comment says that it leaves it out: %v", name, has, listed)
		}
	}
}

// An internal type has the same fields and JSON as its type in this package. Only
// Token.Transform is not stored with a token, and follows from its other fields.
func TestInternalTypesMatchPublicTypes(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[vault.Token](), reflect.TypeFor[tokens.Token]()},
		{reflect.TypeFor[vault.Application](), reflect.TypeFor[applications.Application]()},
		{reflect.TypeFor[vault.ApplicationParams](), reflect.TypeFor[applications.Params]()},
		{reflect.TypeFor[vault.Reactor](), reflect.TypeFor[runs.Reactor]()},
		{reflect.TypeFor[vault.ReactorParams](), reflect.TypeFor[runs.ReactorParams]()},
		{reflect.TypeFor[vault.Proxy](), reflect.TypeFor[relay.Proxy]()},
		{reflect.TypeFor[vault.ProxyParams](), reflect.TypeFor[relay.Params]()},
		{reflect.TypeFor[vault.TenantParams](), reflect.TypeFor[tenants.Params]()},
		{reflect.TypeFor[vault.TenantSettings](), reflect.TypeFor[core.TenantSettings]()},
	} {
		same(t, fmt.Sprintf("%s beside %s", pair[1], pair[0]), fieldsAndTags(pair[1]), fieldsAndTags(pair[0]))
	}
	params, read := reflect.TypeFor[vault.TokenParams](), reflect.TypeFor[tokens.Params]()
	for i := range params.NumField() {
		if _, ok := read.FieldByName(params.Field(i).Name); !ok || params.NumField() != read.NumField() {
			t.Errorf("package tokens lacks the parameter %s, or has others", params.Field(i).Name)
		}
	}
}

// fieldsAndTags lists the exported fields of a type with their tags.
func fieldsAndTags(typ reflect.Type) (all []string) {
	for f := range typ.Fields() {
		// The root derives Token.Transform from Revealed.
		if f.IsExported() && f.Name != "Transform" && f.Name != "Revealed" {
			all = append(all, f.Name+" "+string(f.Tag))
		}
	}
	return all
}
