package vault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every method of a client that takes a context is a verb of the same name, and
// every verb is a method, or a part of other work.
func TestVerbsAreMethods(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "verbs.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // the Name of a verb by the name of its variable
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "verb") {
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				if kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Name" {
					named[v.Names[0].Name] = strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
				}
			}
		}
		return true
	})
	client := reflect.TypeFor[*Client]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		if m.Name == "Admit" || m.Type.NumIn() < 2 || m.Type.In(1).String() != "context.Context" {
			continue
		}
		if named["verb"+m.Name] != m.Name {
			t.Errorf("%s has no verb of its name", m.Name)
		}
	}
	inside := []string{"RoundTripper", "Work", "FindProxy"}
	for variable, name := range named {
		if _, ok := client.MethodByName(name); !ok && !slices.Contains(inside, name) {
			t.Errorf("%s names %s, which is no method", variable, name)
		}
	}
}
