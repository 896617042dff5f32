package sentences

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../../.."

// openAPI is the document whose descriptions are listed too.
const openAPI = "httpserver/openapi.json"

// skipped are the folders whose text no user sees. storagetest is a test
// suite; its texts are test names and failures.
var skipped = []string{"storage/storagetest", "internal/test"}

// table has the sentences of each folder.
type table map[string]map[string]bool

func (t table) add(folder, text string) {
	if !prose(text) {
		return
	}
	if t[folder] == nil {
		t[folder] = map[string]bool{}
	}
	t[folder][oneLine(text)] = true
}

// oneLine returns a text as one line of the list.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.TrimSpace(text))
}

// collect reads the sentences of the module.
func collect(t *testing.T) table {
	t.Helper()
	all := table{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		name := strings.TrimPrefix(path, root+"/")
		switch {
		case d.IsDir() && path != root && leftOut(name):
			return filepath.SkipDir
		case name == openAPI:
			return describe(all, path)
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			return read(all, path, filepath.ToSlash(filepath.Dir(name)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leftOut reports whether a folder is skipped.
func leftOut(folder string) bool {
	base := filepath.Base(folder)
	return base == "testdata" || strings.HasPrefix(base, ".") || slices.Contains(skipped, folder)
}

// read adds the literals of a Go file.
func read(all table, path, folder string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // its tag is not prose, and its type has no text
			return false
		case ast.Expr:
			if text, ok := literal(n); ok {
				all.add(folder, text)
				return false
			}
		}
		return true
	})
	return nil
}

// literal returns the text of a string literal, or of a concatenation of
// literals. "…" replaces other operands.
func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, ok1 := literal(e.X)
		right, ok2 := literal(e.Y)
		if !ok1 {
			left = "…"
		}
		if !ok2 {
			right = "…"
		}
		return left + right, ok1 || ok2
	}
	return "", false
}

// describe adds the summaries and descriptions of the OpenAPI document.
func describe(all table, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	walk(doc, func(text string) { all.add(openAPI, text) })
	return nil
}

func walk(v any, found func(string)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, found)
		}
	case map[string]any:
		for name, e := range v {
			if text, ok := e.(string); ok && (name == "description" || name == "summary") {
				found(text)
			}
			walk(e, found)
		}
	}
}
