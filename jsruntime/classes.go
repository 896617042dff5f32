package jsruntime

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
)

// nameClasses gives the class expressions that have no name, and in which code
// calls eval, one of their own. goja needs a variable in the scope of such a
// class: without one it looks for all others in the wrong place, and panics.
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

// nameClass names a class like the variable that it is assigned to, if it is one
// that needs a name.
func nameClass(n ast.Expression, target any) {
	class, ok := n.(*ast.ClassLiteral)
	name, isName := target.(*ast.Identifier)
	if ok && isName && class.Name == nil && callsEval(class) {
		class.Name = name
	}
}

// callsEval tells whether the word eval stands where it is called, anywhere below.
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
