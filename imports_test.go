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

// TestImports holds the arrows between the packages: who may know whom. The
// trust boundary is one of them: what a backend cannot import, it cannot name.
func TestImports(t *testing.T) {
	t.Parallel()
	all := listPackages(t)
	own := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

	// What each package may import directly, besides the standard library.
	allowed := map[string][]string{
		"storage":                      {},
		"script":                       {},
		"evidence":                     {module + "/internal/merkle", "github.com/google/uuid", "golang.org/x/mod"},
		"internal/merkle":              {"golang.org/x/mod"},
		"internal/ledger":              {module + "/evidence", module + "/internal/merkle", module + "/storage", "github.com/google/uuid", "golang.org/x/mod"},
		"internal/seal":                {"github.com/tink-crypto/tink-go/v2", "github.com/mr-tron/base58"},
		"internal/jsonx":               {},
		"internal/admission":           {"github.com/google/uuid"},
		"internal/budget":              {module + "/internal/admission"},
		"internal/expr":                {module + "/internal/budget", module + "/internal/jsonx", module + "/internal/expr", "github.com/ncruces/go-strftime"},
		"internal/expr/jsonpath":       {module + "/internal/budget", module + "/internal/jsonx"},
		"internal/egress":              {module + "/script", "code.dny.dev/ssrf"},
		"internal/trace":               {},
		"internal/webhook":             {},
		"internal/form":                {module + "/internal/jsonx", module + "/internal/expr", "github.com/google/uuid"},
		"internal/relay":               {module + "/internal/egress", module + "/internal/form", module + "/internal/jsonx", module + "/internal/expr"},
		"internal/jobs":                {module + "/storage", "github.com/google/uuid"},
		"internal/keyring":             {module + "/internal/seal", module + "/internal/sealed", module + "/storage", "github.com/google/uuid"},
		"internal/kept":                {module + "/internal/access", "github.com/google/uuid"},
		"internal/audit":               {module + "/internal/token"},
		"internal/long":                {},
		"internal/ids":                 {"github.com/google/uuid"},
		"internal/apikey":              {module + "/internal/ids"},
		"internal/cache":               {},
		"internal/limits":              {module + "/internal/kept", "github.com/google/uuid"},
		"internal/token":               {module + "/internal/budget", module + "/internal/form", module + "/internal/jsonx", module + "/internal/expr", module + "/internal/query", module + "/internal/seal"},
		"internal/sealed":              {module + "/internal/seal", module + "/storage", "github.com/google/uuid"},
		"internal/find":                {module + "/internal/access", module + "/internal/query", module + "/internal/seal", module + "/internal/token", module + "/storage", "github.com/mr-tron/base58"},
		"internal/access":              {},
		"internal/query":               {},
		"storage/internal/direct":      {},
		"storage/internal/sqlstore":    {module + "/storage", "github.com/jmoiron/sqlx", "golang.org/x/text"},
		"storage/sqlite":               {module + "/storage", "github.com/jmoiron/sqlx", "modernc.org/sqlite"},
		"storage/postgres":             {module + "/storage", "github.com/jmoiron/sqlx", "github.com/lib/pq", "golang.org/x/sys"},
		"storage/storagetest":          {module + "/storage", "github.com/google/go-cmp"},
		"":                             {module + "/storage", module + "/script", module + "/internal", "github.com/google/uuid", "github.com/mr-tron/base58"},
		"jsruntime":                    {module + "/script", "github.com/andybalholm/brotli", "github.com/dop251/goja", "github.com/evanw/esbuild", "github.com/go-sourcemap/sourcemap", "github.com/nlnwa/whatwg-url", "golang.org/x/crypto", "golang.org/x/net/idna", "golang.org/x/text", "golang.org/x/sys"},
		"httpserver":                   {module, module + "/script", module + "/internal/trace", "github.com/google/uuid", "golang.org/x/time"},
		"vaultclient":                  {module, module + "/script", module + "/internal/egress", module + "/internal/trace", "github.com/google/uuid"},
		"internal/terminal":            {"golang.org/x/sys"},
		"cmd/tokenvault":               {module + "/cmd/tokenvault/internal/cli", "golang.org/x/crypto"},
		"cmd/tokenvault/internal/cli":  {module, "filippo.io/age", "github.com/ProtonMail/go-crypto", "github.com/goccy/go-yaml", "github.com/google/uuid", "github.com/lib/pq", module + "/internal/jsonx", module + "/internal/serve", module + "/internal/terminal", module + "/internal/token", module + "/jsruntime", module + "/script", module + "/storage", module + "/vaultclient", "golang.org/x/sys"},
		"internal/serve":               {module, module + "/console", module + "/httpserver", module + "/internal/terminal", module + "/jsruntime", module + "/storage/postgres", module + "/storage/sqlite", "github.com/google/uuid", "github.com/prometheus/client_golang"},
		"vaulttest":                    {module, module + "/storage/sqlite"},
		"console":                      {module, "github.com/google/uuid"},
		"storage/storagetest/internal": {module + "/storage"},
	}
	for path, may := range allowed {
		p, ok := all[strings.TrimSuffix(module+"/"+path, "/")]
		if !ok {
			continue
		}
		for _, imported := range p.Imports {
			if all[imported].Standard || slices.ContainsFunc(may, func(a string) bool {
				return imported == a || a != module && strings.HasPrefix(imported, a+"/")
			}) {
				continue
			}
			t.Errorf("%s must not import %s", p.ImportPath, imported)
		}
	}

	// What must not be reached at all, by any way.
	never := map[string][]string{
		"":                 {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver", module + "/storage/sqlite"},
		"storage/sqlite":   {module, module + "/storage/postgres", "github.com/lib/pq"},
		"storage/postgres": {module, module + "/storage/sqlite", "modernc.org/sqlite"},
		"jsruntime":        {module, module + "/storage"},
		"evidence":         {module, module + "/storage"},
		"httpserver":       {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja"},
		"console":          {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver", module + "/storage/sqlite"},
		"vaultclient":      {"modernc.org/sqlite", "github.com/lib/pq", "github.com/dop251/goja", module + "/httpserver"},
	}
	for path, not := range never {
		p, ok := all[strings.TrimSuffix(module+"/"+path, "/")]
		if !ok {
			continue
		}
		for _, dep := range p.Deps {
			if slices.Contains(not, dep) {
				t.Errorf("%s must not depend on %s", own(p.ImportPath), dep)
			}
		}
	}
	// A room behind the front knows no name of the front's. Tests may, and so does
	// the server, which is a program around it.
	for path, p := range all {
		room := strings.HasPrefix(own(path), "internal/") || own(path) == "script" || strings.HasPrefix(own(path), "storage")
		if room && own(path) != "internal/serve" && slices.Contains(p.Imports, module) {
			t.Errorf("%s must not import the root", own(path))
		}
	}
	if len(all) < 20 {
		t.Fatalf("go list found only %d packages", len(all))
	}
}
