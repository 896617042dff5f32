package vault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/tokens"
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

// A token of a room has the fields and the JSON of a token of this package.
func TestTokensAreTheSame(t *testing.T) {
	t.Parallel()
	ours, theirs := reflect.TypeFor[Token](), reflect.TypeFor[tokens.Token]()
	if ours.NumField() != theirs.NumField() {
		t.Fatalf("%d fields, and %d in package tokens", ours.NumField(), theirs.NumField())
	}
	for i := range ours.NumField() {
		if o, th := ours.Field(i), theirs.Field(i); o.Name != th.Name || o.Tag != th.Tag {
			t.Errorf("field %s `%s`, and %s `%s` in package tokens", o.Name, o.Tag, th.Name, th.Tag)
		}
	}
	params, read := reflect.TypeFor[TokenParams](), reflect.TypeFor[tokens.Params]()
	for i := range params.NumField() {
		if _, ok := read.FieldByName(params.Field(i).Name); !ok || params.NumField() != read.NumField() {
			t.Errorf("package tokens lacks the parameter %s, or has others", params.Field(i).Name)
		}
	}
}
