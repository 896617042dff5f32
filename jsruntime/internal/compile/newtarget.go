package compile

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// In goja a function that a constructor calls sees the new.target of the
// constructor. So new.target in a function becomes undefined unless the
// function was called with new, which its this shows.

// repairNewTarget repairs new.target in the functions of a tree. Class
// constructors cannot be called without new and need no repair.
func repairNewTarget(tree *ast.Program) {
	if !strings.Contains(tree.File.Source(), "new.target") {
		return
	}
	members := map[*ast.FunctionLiteral]bool{}
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.MethodDefinition:
			members[n.Body] = true
		case *ast.FunctionLiteral:
			if !members[n] {
				w := walker{startsScope, func(any) {}, guardTarget}
				walkValue(reflect.ValueOf(n.ParameterList), w)
				walkValue(reflect.ValueOf(n.Body), w)
			}
		}
	})
}

// startsScope reports whether a node has a new.target of its own. Arrow functions
// have the new.target of the surrounding code.
func startsScope(n any) bool {
	switch n.(type) {
	case *ast.FunctionLiteral, *ast.ClassLiteral, *ast.FunctionDeclaration, *ast.ClassDeclaration:
		return true
	}
	return false
}

// guardTarget replaces new.target in a slot for an expression. It reports whether
// the slot holds it.
func guardTarget(slot reflect.Value) bool {
	n, ok := slot.Interface().(*ast.MetaProperty)
	if ok = ok && n.Meta.Name == "new"; ok && slot.CanSet() {
		slot.Set(reflect.ValueOf(guardedTarget(n)))
	}
	return ok
}

// guardedTarget returns new.target !== undefined && this instanceof new.target
// ? new.target : undefined.
func guardedTarget(n *ast.MetaProperty) ast.Expression {
	undefined := &ast.UnaryExpression{Operator: token.VOID, Idx: n.Idx, Operand: &ast.NumberLiteral{Idx: n.Idx, Literal: "0", Value: int64(0)}}
	return &ast.ConditionalExpression{
		Test: &ast.BinaryExpression{
			Operator: token.LOGICAL_AND,
			Left:     &ast.BinaryExpression{Operator: token.STRICT_NOT_EQUAL, Left: n, Right: undefined},
			Right:    &ast.BinaryExpression{Operator: token.INSTANCEOF, Left: &ast.ThisExpression{Idx: n.Idx}, Right: n},
		},
		Consequent: n,
		Alternate:  undefined,
	}
}
