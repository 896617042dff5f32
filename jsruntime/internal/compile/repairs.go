package compile

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"
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

// startsScope reports whether a node has its own new.target. Arrow functions have the
// new.target of the surrounding code.
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

// repairFinally rewrites two kinds of finally that goja gets wrong.
//
// try A catch B finally C becomes try { try A catch B } finally C. Otherwise B
// catches what C throws after A has completed, and C runs again.
//
// finally C with a yield becomes finally { try C catch (e) { throw e } }.
// Otherwise nothing catches an error that is thrown into a generator while it
// returns.
func repairFinally(tree *ast.Program) {
	if !strings.Contains(tree.File.Source(), "finally") {
		return
	}
	walk(tree, func(n any) {
		st, ok := n.(*ast.TryStatement)
		if !ok || st.Finally == nil {
			return
		}
		if st.Catch != nil {
			st.Body = blockOf(st.Body, &ast.TryStatement{Try: st.Try, Body: st.Body, Catch: st.Catch})
			st.Catch = nil
		}
		if yields(st.Finally) {
			st.Finally = blockOf(st.Finally, &ast.TryStatement{Try: st.Finally.LeftBrace, Body: st.Finally, Catch: rethrow(st.Finally)})
		}
	})
}

// blockOf returns a block with one statement, in the place of another block.
func blockOf(old *ast.BlockStatement, st ast.Statement) *ast.BlockStatement {
	return &ast.BlockStatement{LeftBrace: old.LeftBrace, List: []ast.Statement{st}, RightBrace: old.RightBrace}
}

// rethrow returns catch (e) { throw e }.
func rethrow(old *ast.BlockStatement) *ast.CatchStatement {
	name := &ast.Identifier{Name: "e", Idx: old.RightBrace}
	return &ast.CatchStatement{
		Catch:     old.RightBrace,
		Parameter: name,
		Body:      blockOf(old, &ast.ThrowStatement{Throw: old.RightBrace, Argument: name}),
	}
}

// yields reports whether a block yields, other than in functions within it.
func yields(block *ast.BlockStatement) bool {
	found := false
	walkUnless(reflect.ValueOf(block), func(n any) bool {
		_, isFunction := n.(*ast.FunctionLiteral)
		return isFunction || found
	}, func(n any) {
		_, isYield := n.(*ast.YieldExpression)
		found = found || isYield
	})
	return found
}

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
		call, ok := n.(*ast.CallExpression)
		found = found || ok && isIdentifier(call.Callee, "eval")
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
		if args := callArguments(n, "eval"); len(args) > 0 {
			if text, ok := args[0].(*ast.StringLiteral); ok {
				text.Value = unistring.NewFromString(withoutHTML(text.Value.String()))
			}
		}
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
