package compile

import (
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// The engine copies a string whenever something is appended to it, so code that
// builds a text with += takes time quadratic in its length. Such an assignment
// becomes text = append(text, value), where append is a function of package node
// that returns the same string without the copy.

// Program is a program of the engine with what it needs to run.
type Program struct {
	*goja.Program
	patterns *Patterns // in its text
	Appends  bool      // it evaluates to a function that takes append and returns the wrapper
}

// appendName is the name of append in a program. No code can use it.
const appendName = "+="

// growTexts rewrites the assignments that append to a text, and reports whether
// there are any. A program that calls eval stays as it is.
func growTexts(tree *ast.Program) bool {
	source := tree.File.Source()
	if !strings.Contains(source, "+=") || strings.Contains(source, "eval") || len(tree.Body) != 1 {
		return false
	}
	wrapper, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return false
	}
	texts, found := textNames(tree), false
	walk(tree, func(n any) {
		assign, ok := n.(*ast.AssignExpression)
		if !ok || assign.Operator != token.PLUS || !isRepeatable(assign.Left) || !texts[lastName(assign.Left)] && !isText(assign.Right) {
			return
		}
		found = true
		assign.Operator = token.ASSIGN
		assign.Right = &ast.CallExpression{
			Callee:       &ast.Identifier{Name: appendName, Idx: assign.Left.Idx0()},
			ArgumentList: []ast.Expression{assign.Left, assign.Right},
		}
	})
	if found {
		at := wrapper.Idx0()
		wrapper.Expression = &ast.ArrowFunctionLiteral{
			Start:         at,
			ParameterList: &ast.ParameterList{List: []*ast.Binding{{Target: &ast.Identifier{Name: appendName, Idx: at}}}},
			Body:          &ast.ExpressionBody{Expression: wrapper.Expression},
		}
	}
	return found
}

// textNames returns the names of variables and properties that get a literal text
// somewhere. Sums of numbers are not worth a call.
func textNames(tree *ast.Program) map[string]bool {
	texts := map[string]bool{}
	add := func(target any, value ast.Expression) {
		if isText(value) {
			texts[lastName(target)] = true
		}
	}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.Binding:
			add(n.Target, n.Initializer)
		case *ast.AssignExpression:
			add(n.Left, n.Right)
		case *ast.PropertyKeyed:
			add(n.Key, n.Value)
		case *ast.FieldDefinition:
			add(n.Key, n.Initializer)
		}
	})
	delete(texts, "")
	return texts
}

// isRepeatable reports whether a target can be evaluated twice without anyone
// noticing: a variable, or a property of a variable or of this.
func isRepeatable(n ast.Expression) bool {
	switch n := n.(type) {
	case *ast.Identifier:
		return true
	case *ast.DotExpression:
		switch n.Left.(type) {
		case *ast.Identifier, *ast.ThisExpression:
			return true
		}
	}
	return false
}

// lastName returns the name of a variable or property.
func lastName(n any) string {
	if dot, ok := n.(*ast.DotExpression); ok {
		return dot.Identifier.Name.String()
	}
	return nameOf(n)
}

// isText reports whether an expression is a string in any case.
func isText(n ast.Expression) bool {
	switch n := n.(type) {
	case *ast.StringLiteral:
		return true
	case *ast.TemplateLiteral:
		return n.Tag == nil
	case *ast.BinaryExpression:
		return n.Operator == token.PLUS && (isText(n.Left) || isText(n.Right))
	}
	return false
}
