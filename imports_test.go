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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/test/given"
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
	"internal/core", "internal/fault", "internal/access", "internal/admission", "internal/expr",
	"internal/form", "internal/ids", "internal/jsonx", "internal/logs/audit", "internal/pace", "internal/seal",
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
	"script":                               {},
	"storage/internal/direct":              {},
	"storage/internal/sqlstore":            {"internal/pace", "storage", "github.com/jmoiron/sqlx", "golang.org/x/text"},
	"storage/sqlite":                       {"internal/pace", "storage", "github.com/jmoiron/sqlx", "golang.org/x/sys", "modernc.org/sqlite"},
	"storage/postgres/internal/link":       {"storage", "github.com/lib/pq", "golang.org/x/sys"},
	"storage/postgres/internal/statements": {"storage"},
	"storage/postgres/internal/wire":       {"storage"},
	"storage/postgres/internal/citus":      {"internal/pace", "storage", "github.com/lib/pq"},
	"storage/postgres":                     {"internal/bounded", "internal/pace", "storage", "github.com/jmoiron/sqlx", "github.com/lib/pq"},
	"storage/storagetest":                  {"storage", "internal/test/model", "github.com/google/go-cmp"},
	"jsruntime":                            {"script", "jsruntime/internal/modules", "jsruntime/internal/workers"},
	"jsruntime/internal/regex":             {"golang.org/x/text"},
	"jsruntime/internal/native":            {"github.com/dop251/goja"},
	"jsruntime/internal/compile":           {"script", "jsruntime/internal/regex", "github.com/dop251/goja", "github.com/evanw/esbuild", "github.com/go-sourcemap/sourcemap"},
	"jsruntime/internal/modules":           {"jsruntime/internal/compile", "github.com/dop251/goja", "github.com/evanw/esbuild"},
	"jsruntime/internal/crypto":            {"jsruntime/internal/native", "github.com/dop251/goja", "golang.org/x/crypto"},
	"jsruntime/internal/node": {"script", "internal/jsonx", "jsruntime/internal/compile", "jsruntime/internal/crypto", "jsruntime/internal/modules", "jsruntime/internal/native", "jsruntime/internal/regex",
		"github.com/andybalholm/brotli", "github.com/dop251/goja", "github.com/nlnwa/whatwg-url", "golang.org/x/net/idna", "golang.org/x/text"},
	"jsruntime/internal/workers": {"script", "internal/admission/share", "jsruntime/internal/compile", "jsruntime/internal/modules", "jsruntime/internal/node", "golang.org/x/sys"},

	// Rooms behind the front.
	"internal/access":          {"internal/form", "storage", "golang.org/x/net"},
	"internal/admission":       {"internal/admission/share", "internal/fault", "internal/jsonx", "github.com/google/uuid"},
	"internal/admission/share": {},
	"internal/logs/audit":      {"internal/token", "github.com/google/uuid"},
	"internal/core": {"internal/access", "internal/admission", "internal/bounded", "internal/fault", "internal/form",
		"internal/identity", "internal/ids", "internal/jsonx", "internal/keyring", "internal/logs/audit", "internal/pace", "internal/seal", "internal/trace", "storage", "github.com/google/uuid"},
	"internal/records": {"internal/core", "internal/fault", "internal/form", "internal/jsonx", "internal/logs/audit", "storage", "github.com/google/uuid"},
	"internal/sessions": {"internal/access", "internal/core", "internal/fault", "internal/form", "internal/ids", "internal/logs/audit",
		"internal/records", "internal/seal", "storage", "github.com/google/uuid"},
	"internal/relay/search":  {},
	"internal/egress":        {"internal/admission/share", "internal/bounded", "code.dny.dev/ssrf"},
	"internal/expr":          {"internal/admission", "internal/jsonx", "internal/expr", "github.com/ncruces/go-strftime"},
	"internal/expr/jsonpath": {"internal/admission", "internal/jsonx"},
	"internal/fault":         {"internal/form", "script", "storage"},
	"internal/form":          {"internal/jsonx", "github.com/google/uuid"},
	"internal/identity":      {"internal/form", "internal/jsonx"},
	"internal/ids":           {"github.com/google/uuid"},
	"internal/jsonx":         {},
	"evidence":               {"internal/ledger/merkle", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/notary":        {"evidence", "internal/core", "internal/fault", "internal/keyring", "internal/ledger", "internal/logs/audit", "internal/pace", "internal/seal", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/ledger":        {"evidence", "internal/bounded", "internal/ledger/merkle", "internal/pace", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/ledger/merkle": {"golang.org/x/mod"},
	"internal/keyring":       {"internal/bounded", "internal/fault", "internal/pace", "internal/seal", "storage", "github.com/google/uuid"},
	"internal/pace":          {},
	"internal/bounded":       {},
	"internal/seal":          {"internal/bounded", "storage", "github.com/google/uuid", "github.com/tink-crypto/tink-go/v2", "github.com/mr-tron/base58"},
	"internal/token":         {"internal/admission", "internal/form", "internal/jsonx", "internal/expr", "internal/seal", "storage", "github.com/google/uuid", "github.com/mr-tron/base58"},
	"internal/trace":         {"github.com/google/uuid"},

	// Features: rooms with functions that take an operation.
	"internal/applications": feature("internal/identity", "internal/records", "internal/tokens"),
	"internal/tenants":      feature("internal/keyring", "internal/records", "internal/runs", "internal/tokens"),
	"internal/erase":        feature("evidence", "internal/applications", "internal/keyring", "internal/records", "internal/relay", "internal/runs", "internal/sessions", "internal/tokens"),
	"internal/once":         feature("internal/bounded", "internal/tokens"),
	"internal/relay":        feature("github.com/andybalholm/brotli", "internal/egress", "internal/keyring", "internal/records", "internal/relay/search", "internal/reveal", "internal/runs", "internal/tokens", "internal/trace"),
	"internal/runs": feature("internal/applications", "internal/egress", "internal/once", "internal/records", "internal/reveal",
		"internal/tokens", "internal/trace", "script"),
	"internal/rotation": feature("internal/keyring"),
	"internal/logs":     feature("internal/keyring"),
	"internal/sinks":    feature("internal/egress", "internal/keyring", "internal/ledger", "internal/logs", "internal/runs"),
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
	"vaultmetrics": {".", "httpserver", "github.com/google/uuid"},
	"vaultprom":    {"vaultmetrics", "github.com/prometheus/client_golang"},
	"vaulttest":    {".", "internal/core", "internal/seal", "internal/test/keygate", "storage", "github.com/google/uuid"},
	"console":      {".", "internal/bounded", "internal/fault", "internal/pace", "github.com/google/uuid"},
	"elements":     {".", "httpserver", "internal/fault", "github.com/google/uuid", "golang.org/x/net/publicsuffix"},
	"internal/serve": {".", "console", "elements", "evidence", "httpserver", "internal/core", "internal/keyring", "internal/pace", "internal/seal", "internal/terminal", "jsruntime", "storage", "storage/postgres", "storage/sqlite", "vaultmetrics", "vaultprom",
		"github.com/google/uuid", "github.com/lib/pq", "github.com/prometheus/client_golang", "golang.org/x/time"},
	"internal/terminal": {"golang.org/x/sys"},
	"examples/checkout": {".", "elements", "httpserver", "storage/sqlite", "vaultclient", "github.com/google/uuid"},
	"examples/deploy":   {},
	"examples/embed":    {".", "jsruntime", "script", "storage/sqlite", "github.com/google/uuid"},
	"examples/service":  {".", "httpserver", "jsruntime", "storage/postgres"},
	"examples/evidence": {},
	"examples/shop":     {".", "vaultlog", "vaultsql", "storage/postgres", "storage/sqlite", "github.com/google/uuid", "github.com/lib/pq"},
	"examples/unittest": {"."},

	// Tests and their tools.
	"docs":                       {},
	"internal/test/bench":        {},
	"internal/test/auditlog":     {},
	"internal/test/authority":    {},
	"internal/test/destinations": {},
	"internal/test/given":        {".", "evidence", "internal/core", "internal/keyring", "internal/test/keygate", "internal/test/must", "script", "storage", "vaulttest", "github.com/google/go-cmp", "github.com/google/uuid"},
	"internal/test/browser":      {"internal/test/must", "github.com/chromedp/cdproto", "github.com/chromedp/chromedp"},
	"internal/test/terminaltest": {"internal/test/must", "golang.org/x/sys"},
	"internal/test/faults":       {},
	"internal/test/keygate":      {"internal/core", "internal/keyring", "storage"},
	"internal/test/latertest":    {"internal/test/must", "storage"},
	"internal/test/long":         {},
	"internal/test/model":        {"storage"},
	"internal/test/must":         {"github.com/google/go-cmp"},
	"internal/test/outgoing":     {},
	"internal/test/pgtest":       {"internal/test/must", "github.com/lib/pq"},
	"internal/test/testrun":      {"internal/test/pgtest"},
	"internal/test/printing":     {},
	"internal/test/sentences":    {},
	"internal/test/sim":          {},
	"internal/test/power":        {},
	"internal/test/tampering":    {},
	"internal/test/tree":         {},
	"internal/test/ways":         {".", "httpserver", "jsruntime", "storage/sqlite"},
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
		"vaultmetrics":     {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", "github.com/prometheus/client_golang/prometheus"},
		"":                 {"github.com/prometheus/client_golang/prometheus", "modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver", module + "/storage/sqlite"},
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
	// Internal packages do not import the root package. The exceptions are the server,
	// a program around the vault, and what tests share.
	for path, p := range all {
		room := strings.HasPrefix(folder(path), "internal/") && !strings.HasPrefix(folder(path), "internal/test/") || folder(path) == "script" || strings.HasPrefix(folder(path), "storage")
		if room && folder(path) != "internal/serve" && slices.Contains(p.Imports, module) {
			t.Errorf("%s must not import the root", folder(path))
		}
	}
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
		given.Same(t, "the verb of "+m.Name, named[m.Name], m.Name)
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
	given.Same(t, "verbs for the tenant only", strings.Count(string(text), "Only: "), only)
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
// Token.Transform and Suspended are not stored, and follow from other fields.
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
		given.Same(t, fmt.Sprintf("%s beside %s", pair[1], pair[0]), fieldsAndTags(pair[1]), fieldsAndTags(pair[0]))
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
		// The root derives Token.Transform from Revealed, and Suspended from Hold.
		if f.IsExported() && !slices.Contains([]string{"Transform", "Revealed", "Suspended", "Hold"}, f.Name) {
			all = append(all, f.Name+" "+string(f.Tag))
		}
	}
	return all
}
