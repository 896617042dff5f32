package compile

import (
	"reflect"
	"slices"

	"github.com/dop251/goja/ast"
)

// Literal is a name that code requires literally, and its line.
type Literal struct {
	Name string
	Line int
}

// requiredNames returns the names that the code in a wrapper certainly requires
// when it gets there: literals outside of try. If the code declares its own
// require, as bundlers do, the call means that one.
func requiredNames(tree *ast.Program) []Literal {
	statement, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	wrapper, ok := statement.Expression.(*ast.FunctionLiteral)
	if !ok || declaresRequire(wrapper.DeclarationList, wrapper.Body) {
		return nil
	}
	var out []Literal
	walkUnless(reflect.ValueOf(wrapper.Body.List), hidesRequire, func(n any) {
		args := callArguments(n, "require")
		if len(args) != 1 {
			args = callArguments(n, lowImport)
		}
		if len(args) > 0 {
			if name, ok := args[0].(*ast.StringLiteral); ok {
				out = append(out, Literal{name.Value.String(), tree.File.Position(int(n.(ast.Node).Idx0()) - tree.File.Base()).Line})
			}
		}
	})
	return out
}

// hidesRequire reports whether a missing module below a node is not certainly
// an error: in try, and where require is another function.
func hidesRequire(n any) bool {
	switch n := n.(type) {
	case *ast.TryStatement:
		return true
	case *ast.FunctionLiteral:
		return bindsRequire(n.ParameterList) || declaresRequire(n.DeclarationList, n.Body)
	case *ast.ArrowFunctionLiteral:
		body, _ := n.Body.(*ast.BlockStatement)
		return bindsRequire(n.ParameterList) || declaresRequire(n.DeclarationList, body)
	case *ast.BlockStatement:
		return declaresRequire(nil, n)
	}
	return false
}

func bindsRequire(list *ast.ParameterList) bool {
	return list != nil && (anyRequire(list.List) || isRequire(list.Rest))
}

func anyRequire(list []*ast.Binding) bool {
	return slices.ContainsFunc(list, func(b *ast.Binding) bool { return isRequire(b.Target) })
}

func isRequire(n any) bool {
	id, ok := n.(*ast.Identifier)
	return ok && id != nil && id.Name == "require"
}

// declaresRequire reports whether variables or the statements of a block
// declare a require.
func declaresRequire(variables []*ast.VariableDeclaration, body *ast.BlockStatement) bool {
	if slices.ContainsFunc(variables, func(v *ast.VariableDeclaration) bool { return anyRequire(v.List) }) {
		return true
	}
	return body != nil && slices.ContainsFunc(body.List, func(st ast.Statement) bool {
		switch st := st.(type) {
		case *ast.LexicalDeclaration:
			return anyRequire(st.List)
		case *ast.FunctionDeclaration:
			return isRequire(st.Function.Name)
		}
		return false
	})
}
