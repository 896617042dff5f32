package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestLookupsCompareKeys lists every call that finds a record by a key. All calls
// but one use Lookup, which compares the record's keys with the key that was
// looked up, because the index of keys is not sealed.
func TestLookupsCompareKeys(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	got := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() {
			if name == "storage" || name == "examples" || name == "internal/test" || strings.HasPrefix(d.Name(), ".git") || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		n, err := lookupsIn(path)
		if n > 0 {
			got[name] += n
		}
		return err
	})
	must.Do(t, err)
	want := map[string]int{
		"internal/core/revision.go":     1, // Lookup itself, on the storage
		"internal/core/authenticate.go": 1, // API keys and session keys
		"internal/core/workload.go":     1, // applications of JWTs
		"internal/records/records.go":   1, // names of applications, reactors and proxies
		"internal/sessions/sessions.go": 1, // nonces
		"internal/tenants/tenants.go":   1, // names of tenants
		"internal/relay/call.go":        1, // proxy keys
	}
	must.Same(t, "lookups of records by a key", want, got)
}

// lookupsIn counts the calls of core.Lookup, and the calls of the storage's
// Lookup, which have a context and a key.
func lookupsIn(path string) (n int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		if first, ok := call.Args[0].(*ast.Ident); !ok || first.Name != "ctx" {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			if f.Sel.Name == "Lookup" {
				n++
			}
		case *ast.Ident:
			if f.Name == "Lookup" {
				n++
			}
		}
		return true
	})
	return n, nil
}
