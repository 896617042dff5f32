package compile

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
)

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
