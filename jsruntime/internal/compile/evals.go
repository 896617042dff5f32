package compile

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/unistring"
)

// nameClasses gives a name to anonymous class expressions in which code calls
// eval. goja needs a variable in the scope of such a class. Without one, it
// looks for all other variables in the wrong place and panics.
func nameClasses(tree *ast.Program) {
	if !strings.Contains(tree.File.Source(), "eval") {
		return
	}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.Binding:
			nameClass(n.Initializer, n.Target)
		case *ast.AssignExpression:
			nameClass(n.Right, n.Left)
		}
	})
	walk(tree, func(n any) {
		if class, ok := n.(*ast.ClassLiteral); ok {
			nameClass(class, &ast.Identifier{Idx: class.Idx0()})
		}
	})
}

// nameClass names a class after the variable that it is assigned to, if it
// needs a name.
func nameClass(n ast.Expression, target any) {
	class, ok := n.(*ast.ClassLiteral)
	name, isName := target.(*ast.Identifier)
	if ok && isName && class.Name == nil && callsEval(class) {
		class.Name = name
	}
}

// callsEval reports whether eval is called anywhere below.
func callsEval(class *ast.ClassLiteral) bool {
	found := false
	walkUnless(reflect.ValueOf(class.Body), func(any) bool { return found }, func(n any) {
		if call, ok := n.(*ast.CallExpression); ok {
			callee, ok := call.Callee.(*ast.Identifier)
			found = found || ok && callee.Name == "eval"
		}
	})
	return found
}

// htmlComments converts HTML comments in the literal arguments of eval to
// JavaScript comments, because goja does not support them.
func htmlComments(tree *ast.Program) {
	if !strings.Contains(tree.File.Source(), "<!--") {
		return
	}
	walk(tree, func(n any) {
		call, ok := n.(*ast.CallExpression)
		if !ok || len(call.ArgumentList) == 0 {
			return
		}
		callee, ok := call.Callee.(*ast.Identifier)
		text, isText := call.ArgumentList[0].(*ast.StringLiteral)
		if !ok || !isText || callee.Name != "eval" {
			return
		}
		text.Value = unistring.NewFromString(withoutHTML(text.Value.String()))
	})
}

// withoutHTML replaces the beginnings of such comments.
func withoutHTML(text string) string {
	out := []byte(text)
	tokens(text, func(start, _, _ int) {
		if strings.HasPrefix(text[start:], "<!--") {
			copy(out[start:], "//")
		}
	})
	return string(out)
}
