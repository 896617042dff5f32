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
	"slices"
	"strings"
	"testing"
)

// packages are what a fragment can use without importing it.
var packages = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "netip": "net/netip",
	"os": "os", "slog": "log/slog", "strings": "strings", "time": "time",
	"uuid":       "github.com/google/uuid",
	"aead":       "github.com/tink-crypto/tink-go/v2/aead",
	"keyset":     "github.com/tink-crypto/tink-go/v2/keyset",
	"vault":      "github.com/seed-72ea4aab/vault",
	"httpserver": "github.com/seed-72ea4aab/vault/httpserver",
	"jsruntime":  "github.com/seed-72ea4aab/vault/jsruntime",
	"vaulttest":  "github.com/seed-72ea4aab/vault/vaulttest",
	"sqlite":     "github.com/seed-72ea4aab/vault/storage/sqlite",
	"postgres":   "github.com/seed-72ea4aab/vault/storage/postgres",
}

// fragment is what a block that is no complete file is put into: statements
// that may use ctx, a vault v, a client c of a tenant, and a master key.
const fragment = `package fragment

import (
%s)

func fragment(ctx context.Context, v *vault.Vault, c *vault.Client, key vault.AEAD) error {
%s
return nil
}
`

// TestGoBlocksBuild vets every Go block of the documents. A block that begins
// with a package clause is a file; any other is a fragment.
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
	if !strings.HasPrefix(text, "package ") {
		text = wrap(t, text)
	}
	name := "block.go"
	if strings.Contains(text, "*testing.T)") {
		name = "block_test.go"
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}

// wrap puts a fragment into a function and imports what it uses.
func wrap(t *testing.T, text string) string {
	t.Helper()
	used := map[string]bool{"context": true, "github.com/seed-72ea4aab/vault": true}
	parsed, err := parser.ParseFile(token.NewFileSet(), "fragment.go", fmt.Sprintf(fragment, "", text), 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
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
	return fmt.Sprintf(fragment, imports.String(), text)
}
