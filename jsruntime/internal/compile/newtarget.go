package compile

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
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
				guardNewTarget(reflect.ValueOf(n.ParameterList))
				guardNewTarget(reflect.ValueOf(n.Body))
			}
		}
	})
}

// guardNewTarget replaces new.target below a value, but not in other functions
// and classes. Arrow functions have the new.target of the surrounding code.
func guardNewTarget(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		guardSlot(v)
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct && v.Type() != reflect.TypeFor[*file.File]() {
			guardNewTarget(v.Elem())
		}
	case reflect.Slice:
		if v.Type() == declarations {
			return // these occur in the tree a second time, where they are declared
		}
		for i := range v.Len() {
			guardNewTarget(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				guardNewTarget(v.Field(i))
			}
		}
	default: // a leaf
	}
}

// guardSlot replaces the content of a slot for an expression, or looks below
// it.
func guardSlot(slot reflect.Value) {
	if slot.IsNil() {
		return
	}
	switch n := slot.Interface().(type) {
	case *ast.FunctionLiteral, *ast.ClassLiteral, *ast.FunctionDeclaration, *ast.ClassDeclaration:
	case *ast.MetaProperty:
		if n.Meta.Name == "new" && slot.CanSet() {
			slot.Set(reflect.ValueOf(guardedTarget(n)))
		}
	default:
		guardNewTarget(slot.Elem())
	}
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
