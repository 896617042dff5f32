package compile

import (
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
)

// esbuild renames functions and classes if names collide. To preserve the
// visible names, it adds a call for each function, which most functions do not
// need.

// nameCall is the helper of esbuild that sets the name of a function.
const nameCall = "__name"

// dropNames removes the helper where a function has its name without it.
func dropNames(tree *ast.Program) {
	if !strings.Contains(tree.File.Source(), nameCall+"(") {
		return
	}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.Binding:
			n.Initializer = unnamed(n.Initializer, nameOf(n.Target))
		case *ast.AssignExpression:
			n.Right = unnamed(n.Right, nameOf(n.Left))
		case *ast.PropertyKeyed:
			n.Value = unnamed(n.Value, nameOf(n.Key))
		case *ast.ReturnStatement:
			n.Argument = unnamed(n.Argument, "")
		case *ast.CallExpression:
			for i := range n.ArgumentList {
				n.ArgumentList[i] = unnamed(n.ArgumentList[i], "")
			}
		case *ast.ExpressionStatement:
			dropStatement(n)
		case *ast.ClassLiteral:
			dropStatic(n)
		}
	})
}

// nameOf returns the name that a function gets from its assignment target.
func nameOf(n any) string {
	switch n := n.(type) {
	case *ast.Identifier:
		return n.Name.String()
	case *ast.StringLiteral:
		return n.Value.String()
	}
	return ""
}

// unnamed returns the function in a call of the helper, if the call does not
// change its name.
func unnamed(n ast.Expression, inferred string) ast.Expression {
	args := callArguments(n, nameCall)
	if len(args) != 2 {
		return n
	}
	own := inferred
	switch f := args[0].(type) {
	case *ast.FunctionLiteral:
		if f.Name != nil {
			own = f.Name.Name.String()
		}
	case *ast.ArrowFunctionLiteral:
	case *ast.ClassLiteral:
		if f.Name != nil {
			own = f.Name.Name.String()
		}
	default:
		return n
	}
	if own == "" || nameOf(args[1]) != own {
		return n
	}
	return args[0]
}

// dropStatement empties a call that gives a declared function the name it
// already has.
func dropStatement(n *ast.ExpressionStatement) {
	args := callArguments(n.Expression, nameCall)
	if len(args) == 2 && nameOf(args[1]) != "" && isIdentifier(args[0], nameOf(args[1])) {
		n.Expression = nothing(n.Idx0())
	}
}

// dropStatic empties the block that gives a class the name it already has.
func dropStatic(n *ast.ClassLiteral) {
	if n.Name == nil {
		return
	}
	for _, element := range n.Body {
		block, ok := element.(*ast.ClassStaticBlock)
		if !ok || len(block.Block.List) != 1 {
			continue
		}
		statement, ok := block.Block.List[0].(*ast.ExpressionStatement)
		if !ok {
			continue
		}
		args := callArguments(statement.Expression, nameCall)
		if len(args) != 2 || nameOf(args[1]) != n.Name.Name.String() {
			continue
		}
		if _, ok := args[0].(*ast.ThisExpression); ok {
			statement.Expression = nothing(statement.Idx0())
		}
	}
}

func isIdentifier(n ast.Expression, name string) bool {
	id, ok := n.(*ast.Identifier)
	return ok && id.Name.String() == name
}

// nothing returns an expression without effect.
func nothing(at file.Idx) ast.Expression { return &ast.NullLiteral{Idx: at, Literal: "null"} }
