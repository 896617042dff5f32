package vault_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-72ea4aab/vault"

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps,Standard", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// below are the rooms that every feature stands on: one operation, what it needs,
// and the languages of tokens.
var below = []string{
	"internal/core", "internal/fault", "internal/access", "internal/admission", "internal/audit", "internal/budget", "internal/expr", "internal/find",
	"internal/form", "internal/ids", "internal/jsonx", "internal/kept", "internal/limits", "internal/query", "internal/seal", "internal/sealed",
	"internal/token", "storage", "github.com/google/uuid",
}

// feature returns what a feature may import: the rooms below, and other features.
func feature(others ...string) []string { return append(others, below...) }

// mayImport says what each package may import directly, besides the standard
// library: packages of this module by their folder, "." for the root, and others by
// their path. A folder or a module stands for all packages in it, except ".".
var mayImport = map[string][]string{
	".": {"evidence", "storage", "script", "internal", "github.com/google/uuid", "golang.org/x/mod"},

	// Contracts, and those who fulfil them.
	"storage":                            {},
	"script":                             {},
	"storage/internal/direct":            {},
	"storage/internal/sqlstore":          {"storage", "github.com/jmoiron/sqlx", "golang.org/x/text"},
	"storage/sqlite":                     {"storage", "github.com/jmoiron/sqlx", "golang.org/x/sys", "modernc.org/sqlite"},
	"storage/postgres":                   {"storage", "github.com/jmoiron/sqlx", "github.com/lib/pq", "golang.org/x/sys"},
	"storage/storagetest":                {"storage", "github.com/google/go-cmp"},
	"storage/storagetest/internal/model": {"storage"},
	"jsruntime":                          {"script", "jsruntime/internal/modules", "jsruntime/internal/workers"},
	"jsruntime/internal/regex":           {"golang.org/x/text"},
	"jsruntime/internal/native":          {"github.com/dop251/goja"},
	"jsruntime/internal/compile":         {"script", "jsruntime/internal/regex", "github.com/dop251/goja", "github.com/evanw/esbuild", "github.com/go-sourcemap/sourcemap"},
	"jsruntime/internal/modules":         {"jsruntime/internal/compile", "github.com/dop251/goja", "github.com/evanw/esbuild"},
	"jsruntime/internal/crypto":          {"jsruntime/internal/native", "github.com/dop251/goja", "golang.org/x/crypto"},
	"jsruntime/internal/node": {"script", "jsruntime/internal/compile", "jsruntime/internal/crypto", "jsruntime/internal/modules", "jsruntime/internal/native", "jsruntime/internal/regex",
		"github.com/andybalholm/brotli", "github.com/dop251/goja", "github.com/nlnwa/whatwg-url", "golang.org/x/net/idna", "golang.org/x/text"},
	"jsruntime/internal/workers": {"script", "jsruntime/internal/compile", "jsruntime/internal/modules", "jsruntime/internal/node", "golang.org/x/sys"},

	// Rooms behind the front.
	"internal/access":    {},
	"internal/admission": {"internal/share", "github.com/google/uuid"},
	"internal/apikey":    {"internal/ids"},
	"internal/audit":     {"internal/token"},
	"internal/bridge":    {"internal/admission", "internal/core", "internal/jsonx", "storage", "github.com/google/uuid"},
	"internal/browser":   {"github.com/chromedp/cdproto", "github.com/chromedp/chromedp"},
	"internal/budget":    {"internal/admission"},
	"internal/cache":     {},
	"internal/core": {"evidence", "internal/access", "internal/admission", "internal/apikey", "internal/audit", "internal/cache", "internal/fault", "internal/form",
		"internal/ids", "internal/jsonx", "internal/kept", "internal/keyring", "internal/ledger", "internal/seal", "internal/sealed", "internal/trace", "storage", "github.com/google/uuid"},
	"internal/records": {"internal/audit", "internal/core", "internal/fault", "internal/find", "internal/form", "internal/jsonx", "storage", "github.com/google/uuid"},
	"internal/sessions": {"internal/access", "internal/apikey", "internal/audit", "internal/core", "internal/fault", "internal/find", "internal/form", "internal/ids",
		"internal/records", "storage", "github.com/google/uuid"},
	"internal/egress":        {"script", "internal/share", "code.dny.dev/ssrf"},
	"internal/expr":          {"internal/budget", "internal/jsonx", "internal/expr", "github.com/ncruces/go-strftime"},
	"internal/expr/jsonpath": {"internal/budget", "internal/jsonx"},
	"internal/fault":         {"internal/form", "script", "storage"},
	"internal/find":          {"internal/access", "internal/query", "internal/seal", "internal/token", "storage", "github.com/mr-tron/base58"},
	"internal/form":          {"internal/jsonx", "internal/expr", "github.com/google/uuid"},
	"internal/ids":           {"github.com/google/uuid"},
	"internal/jobs":          {"storage", "github.com/google/uuid"},
	"internal/jsonx":         {},
	"internal/kept":          {"internal/access", "github.com/google/uuid"},
	"evidence":               {"internal/merkle", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/merkle":        {"golang.org/x/mod"},
	"internal/evident":       {"evidence", "internal/core", "internal/fault", "internal/keyring", "internal/ledger", "internal/seal", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/ledger":        {"evidence", "internal/merkle", "storage", "github.com/google/uuid", "golang.org/x/mod"},
	"internal/keyring":       {"internal/fault", "internal/seal", "internal/sealed", "storage", "github.com/google/uuid"},
	"internal/limits":        {"internal/kept"},
	"internal/query":         {},
	"internal/seal":          {"github.com/tink-crypto/tink-go/v2", "github.com/mr-tron/base58"},
	"internal/sealed":        {"internal/seal", "storage", "github.com/google/uuid"},
	"internal/share":         {},
	"internal/token":         {"internal/budget", "internal/form", "internal/jsonx", "internal/expr", "internal/query", "internal/seal"},
	"internal/trace":         {},
	"internal/webhook":       {},

	// Features: rooms with functions that take an operation.
	"internal/erase":    feature("internal/runs", "internal/tokens"),
	"internal/explain":  feature("internal/tokens"),
	"internal/logs":     feature("internal/share"),
	"internal/once":     feature("internal/cache", "internal/tokens"),
	"internal/relay":    feature("internal/egress", "internal/reveal", "internal/runs", "internal/tokens", "internal/trace"),
	"internal/runs":     feature("internal/egress", "internal/jobs", "internal/once", "internal/reveal", "internal/trace", "internal/webhook", "script"),
	"internal/rotation": feature("internal/keyring"),
	"internal/sinks":    feature("internal/keyring", "internal/ledger", "internal/logs", "internal/webhook"),
	"internal/sweep":    feature("internal/keyring", "internal/ledger", "internal/tokens"),
	"internal/tokens":   feature(),
	"internal/reveal":   feature("internal/tokens"),
	"internal/transfer": feature("internal/tokens"),

	// Around the vault.
	"vaultlog":       {},
	"vaultsql":       {".", "internal/form", "internal/jsonx", "internal/token"},
	"httptokenize":   {".", "httpserver"},
	"httpserver":     {".", "script", "internal/bridge", "internal/fault", "internal/form", "internal/trace", "github.com/google/uuid", "golang.org/x/time"},
	"vaultclient":    {".", "script", "internal/egress", "internal/fault", "internal/trace", "github.com/google/uuid"},
	"vaulttest":      {".", "internal/keyring", "storage"},
	"console":        {".", "internal/fault", "github.com/google/uuid"},
	"cmd/tokenvault": {"cmd/tokenvault/internal/cli", "golang.org/x/crypto"},
	"cmd/tokenvault/internal/cli": {".", "evidence", "internal/fault", "internal/jsonx", "internal/serve", "internal/terminal", "internal/token", "jsruntime", "script", "storage", "vaultclient",
		"filippo.io/age", "github.com/ProtonMail/go-crypto", "github.com/goccy/go-yaml", "github.com/google/uuid", "github.com/lib/pq", "golang.org/x/sys"},
	"internal/serve": {".", "console", "evidence", "httpserver", "internal/terminal", "jsruntime", "script", "storage", "storage/postgres", "storage/sqlite",
		"github.com/google/uuid", "github.com/prometheus/client_golang", "golang.org/x/time"},
	"internal/terminal":              {"golang.org/x/sys"},
	"internal/terminal/terminaltest": {"golang.org/x/sys"},
	"examples/checkout":              {".", "httpserver", "storage/sqlite", "vaultclient", "github.com/google/uuid", "golang.org/x/time"},
	"examples/embed":                 {".", "jsruntime", "script", "storage/sqlite", "github.com/google/uuid"},
	"examples/server":                {"internal/serve"},
	"examples/service":               {".", "httpserver", "jsruntime", "storage/postgres"},
	"examples/evidence":              {},
	"examples/shop":                  {".", "vaultlog", "vaultsql", "storage/postgres", "storage/sqlite", "github.com/google/uuid", "github.com/lib/pq"},
	"examples/unittest":              {"."},

	// Tests and their tools.
	"docs":                    {},
	"internal/bench":          {},
	"internal/faults":         {},
	"internal/long":           {},
	"internal/intxtest":       {".", "storage", "vaulttest", "github.com/google/uuid"},
	"internal/pgtest":         {"github.com/lib/pq"},
	"internal/pgtest/testrun": {"internal/pgtest"},
	"internal/sentences":      {},
}

// folder returns the folder of a package of this module, "." for the root, and
// the path of every other package.
func folder(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// TestImports holds the arrows between the packages: who may know whom. The
// trust boundary is one of them: a backend that cannot import a type cannot name
// it.
func TestImports(t *testing.T) {
	t.Parallel()
	all := listPackages(t)
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
			t.Errorf("mayImport has a row for %s, which is no package", path)
		}
	}
}

// TestNeverReached holds what a package must not depend on by any way.
func TestNeverReached(t *testing.T) {
	t.Parallel()
	all := listPackages(t)
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
			t.Errorf("%s is no package", path)
		}
		for _, dep := range p.Deps {
			if slices.Contains(not, dep) {
				t.Errorf("%s must not depend on %s", folder(p.ImportPath), dep)
			}
		}
	}
	// A room behind the front knows no name of the front's. Tests may, and so does
	// the server, which is a program around it.
	for path, p := range all {
		room := strings.HasPrefix(folder(path), "internal/") || folder(path) == "script" || strings.HasPrefix(folder(path), "storage")
		if room && folder(path) != "internal/serve" && slices.Contains(p.Imports, module) {
			t.Errorf("%s must not import the root", folder(path))
		}
	}
}
