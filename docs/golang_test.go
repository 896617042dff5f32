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
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// packages maps the package names that a fragment may use to their import paths.
var packages = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log",
	"json": "encoding/json",
	"os":   "os", "slog": "log/slog", "strings": "strings", "time": "time",
	"uuid":        "github.com/google/uuid",
	"aead":        "github.com/tink-crypto/tink-go/v2/aead",
	"keyset":      "github.com/tink-crypto/tink-go/v2/keyset",
	"sql":         "database/sql",
	"vault":       "github.com/seed-72ea4aab/vault",
	"console":     "github.com/seed-72ea4aab/vault/console",
	"elements":    "github.com/seed-72ea4aab/vault/elements",
	"httpserver":  "github.com/seed-72ea4aab/vault/httpserver",
	"jsruntime":   "github.com/seed-72ea4aab/vault/jsruntime",
	"vaultclient": "github.com/seed-72ea4aab/vault/vaultclient",
	"vaultlog":    "github.com/seed-72ea4aab/vault/vaultlog",
	"vaultsql":    "github.com/seed-72ea4aab/vault/vaultsql",
	"vaultprom":   "github.com/seed-72ea4aab/vault/vaultprom",
	"prometheus":  "github.com/prometheus/client_golang/prometheus",
	"vaulttest":   "github.com/seed-72ea4aab/vault/vaulttest",
	"sqlite":      "github.com/seed-72ea4aab/vault/storage/sqlite",
	"postgres":    "github.com/seed-72ea4aab/vault/storage/postgres",
}

// fragment is the frame around a block that is not a complete file. Its statements
// may use ctx, a vault v, a client c of a tenant, a master key, a pool db of the
// application, and must, which the first block of the README declares.
const fragment = `package fragment

import (
%s)

func fragment(ctx context.Context, v *vault.Vault, c *vault.Owner, key vault.AEAD, db *sql.DB) error {
%s
return nil
}
`

// mustFile declares must for fragments and examples.
const mustFile = `package fragment

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
`

// example is the frame around a fragment that ends in an Output comment. It runs
// on a vault in memory.
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
	run := func(c *vault.Owner) error {
%s
		return nil
	}
	if err := run(v.Tenant(acme.ID)); err != nil {
		fmt.Println(err)
	}
	// Output:%s}
`

// TestGoBlocksBuild vets every Go block of the documents. A block that begins
// with a package clause is a file; any other block is a fragment. A fragment that
// ends in an Output comment also runs.
//
// All blocks are built together in a temporary module. Fragments are functions of
// one package, because vetting a package costs more than vetting a function.
func TestGoBlocksBuild(t *testing.T) {
	t.Parallel()
	dir, all, examples := newModule(t), 0, 0
	for _, file := range documents(t) {
		for _, b := range blocksOf(t, file) {
			if b.lang != "go" {
				continue
			}
			all++
			block := fmt.Sprintf("%s_line_%d", strings.TrimSuffix(filepath.Base(file), ".md"), b.line)
			name, text, isExample := source(t, b.text)
			switch {
			case isExample: // one program runs all examples
				examples++
				text = strings.Replace(text, "func Example()", "func Example_"+strings.ToLower(block)+"()", 1)
				writeFile(t, filepath.Join(dir, "examples", block+"_test.go"), text)
			case strings.HasPrefix(b.text, "package "):
				writeFile(t, filepath.Join(dir, block, name), text)
			default:
				text = strings.Replace(text, "func fragment(", "func "+block+"(", 1)
				writeFile(t, filepath.Join(dir, "fragments", block+".go"), text)
			}
		}
	}
	if all < 5 || examples == 0 {
		t.Fatalf("only %d Go blocks were found", all)
	}
	for _, folder := range []string{"fragments", "examples"} {
		writeFile(t, filepath.Join(dir, folder, "must.go"), mustFile)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-vet=off", "./examples"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestReadmeGetsItsImports compares the go get command of the README with the
// imports of its first program. Without go get, a package has no entry in the
// go.sum of a reader's module, and the program does not build.
func TestReadmeGetsItsImports(t *testing.T) {
	t.Parallel()
	text := readText(t, "../README.md")
	_, rest, ok := strings.Cut(text, "`go get ")
	command, _, closed := strings.Cut(rest, "`")
	if !ok || !closed {
		t.Fatal("the README has no go get command")
	}
	for _, b := range blocksOf(t, "../README.md") {
		if b.lang != "go" {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), "", b.text, parser.ImportsOnly))(t)
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if strings.Contains(path, ".") && !slices.Contains(strings.Fields(command), path) {
				t.Errorf("go get %s leaves out %s", command, path)
			}
		}
		return
	}
}

// newModule returns the folder of a module that requires this one and all of its
// dependencies.
func newModule(t *testing.T) string {
	t.Helper()
	const path = "github.com/seed-72ea4aab/vault"
	dir, own := t.TempDir(), readText(t, "../go.mod")
	if !strings.HasPrefix(own, "module "+path+"\n") {
		t.Fatal("go.mod does not begin with the name of the module")
	}
	writeFile(t, filepath.Join(dir, "go.mod"), strings.Replace(own, path, "example.com/blocks", 1)+
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", path, path, absolute(t, "..")))
	writeFile(t, filepath.Join(dir, "go.sum"), readText(t, "../go.sum"))
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// source turns a block into a file. It returns the file's name and text, and
// whether the block has an output to check.
func source(t *testing.T, text string) (name, file string, run bool) {
	t.Helper()
	statements, output, isExample := strings.Cut(text, "// Output:")
	switch {
	case isExample:
		return "block_test.go", importing(t, example, statements, output), true
	case !strings.HasPrefix(text, "package "):
		return "block.go", importing(t, fragment, text), false
	case strings.Contains(text, "*testing.T)"):
		return "block_test.go", text, false
	}
	return "block.go", text, false
}

// importing fills in a frame and adds the imports that the result needs.
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
	must.Match(t, "an unknown filter", must.Err(expr.Compile("{{ data | nope }}")), must.Text("no filter"))
	if len(names) < 40 {
		t.Errorf("only %d filters were found", len(names))
	}
}
