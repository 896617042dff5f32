package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/expr"
)

// packages are what a fragment can use without importing it.
var packages = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "netip": "net/netip",
	"os": "os", "slog": "log/slog", "strings": "strings", "time": "time",
	"uuid":        "github.com/google/uuid",
	"aead":        "github.com/tink-crypto/tink-go/v2/aead",
	"keyset":      "github.com/tink-crypto/tink-go/v2/keyset",
	"sql":         "database/sql",
	"vault":       "github.com/seed-72ea4aab/vault",
	"console":     "github.com/seed-72ea4aab/vault/console",
	"httpserver":  "github.com/seed-72ea4aab/vault/httpserver",
	"jsruntime":   "github.com/seed-72ea4aab/vault/jsruntime",
	"vaultclient": "github.com/seed-72ea4aab/vault/vaultclient",
	"vaultlog":    "github.com/seed-72ea4aab/vault/vaultlog",
	"vaultsql":    "github.com/seed-72ea4aab/vault/vaultsql",
	"vaulttest":   "github.com/seed-72ea4aab/vault/vaulttest",
	"sqlite":      "github.com/seed-72ea4aab/vault/storage/sqlite",
	"postgres":    "github.com/seed-72ea4aab/vault/storage/postgres",
}

// fragment is what a block that is no complete file is put into: statements
// that may use ctx, a vault v, a client c of a tenant, a master key, a pool db of
// the application's, and must, which the first block of the README has.
const fragment = `package fragment

import (
%s)

func fragment(ctx context.Context, v *vault.Vault, c *vault.Client, key vault.AEAD, db *sql.DB) error {
%s
return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
`

// example is what a fragment is put into that ends in an Output comment: it is
// run, on a vault in memory.
const example = `package fragment

import (
%s)

func Example() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		panic(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		panic(err)
	}
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		panic(err)
	}
	run := func(c *vault.Client) error {
%s
		return nil
	}
	if err := run(v.Tenant(acme.ID)); err != nil {
		fmt.Println(err)
	}
	// Output:%s}
`

// TestGoBlocksBuild vets every Go block of the documents. A block that begins
// with a package clause is a file; any other is a fragment. A fragment that
// ends in an Output comment is run as well.
func TestGoBlocksBuild(t *testing.T) {
	t.Parallel()
	found := 0
	for _, file := range documents(t) {
		for _, b := range blocksOf(t, file) {
			if b.lang != "go" {
				continue
			}
			found++
			t.Run(fmt.Sprintf("%s line %d", filepath.Base(file), b.line), func(t *testing.T) {
				t.Parallel()
				vet(t, b.text)
			})
		}
	}
	if found < 5 {
		t.Errorf("only %d Go blocks were found", found)
	}
}

// vet compiles and checks a block with the packages of this module.
func vet(t *testing.T, text string) {
	t.Helper()
	name, do := "block.go", "vet"
	statements, output, isExample := strings.Cut(text, "// Output:")
	switch {
	case isExample:
		name, do = "block_test.go", "test"
		text = importing(t, example, statements, output)
	case !strings.HasPrefix(text, "package "):
		text = importing(t, fragment, text)
	case strings.Contains(text, "*testing.T)"):
		name = "block_test.go"
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", do, path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}

// importing fills a frame in and imports what the result uses.
func importing(t *testing.T, frame string, parts ...any) string {
	t.Helper()
	used := map[string]bool{}
	parsed, err := parser.ParseFile(token.NewFileSet(), "block.go", fmt.Sprintf(frame, append([]any{""}, parts...)...), 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, parts)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil && packages[x.Name] != "" {
				used[packages[x.Name]] = true
			}
		}
		return true
	})
	var imports strings.Builder
	for _, path := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&imports, "\t%q\n", path)
	}
	return fmt.Sprintf(frame, append([]any{imports.String()}, parts...)...)
}

// TestFiltersAreKnown compiles every filter that concepts.md lists.
func TestFiltersAreKnown(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(readText(t, "concepts.md"), "\n| filters | |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !ok || !ended {
		t.Fatal("the table of filters was not found")
	}
	names := regexp.MustCompile("`([a-z_0-9]+)").FindAllStringSubmatch(table, -1)
	for _, m := range names {
		_, err := expr.Compile("{{ data | " + m[1] + " }}")
		if err != nil && strings.Contains(err.Error(), "no filter") {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	if _, err := expr.Compile("{{ data | nope }}"); err == nil || !strings.Contains(err.Error(), "no filter") {
		t.Errorf("a filter that is unknown gives %v, which this test does not recognize", err)
	}
	if len(names) < 40 {
		t.Errorf("only %d filters were found", len(names))
	}
}
