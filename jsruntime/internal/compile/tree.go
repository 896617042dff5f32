package compile

import (
	"reflect"

	"github.com/dop251/goja/ast"
)

// needsLowering reports whether a tree contains a function declared within a
// block. Sloppy code may call such a function from outside of the block, which
// goja does not support.
func needsLowering(tree *ast.Program) bool {
	found := false
	walk(tree, func(n any) {
		var list []ast.Statement
		switch n := n.(type) {
		case *ast.BlockStatement:
			list = n.List
		case *ast.CaseStatement:
			list = n.Consequent
		case *ast.IfStatement:
			list = []ast.Statement{n.Consequent, n.Alternate}
		case *ast.LabelledStatement:
			list = []ast.Statement{n.Statement}
		}
		for _, st := range list {
			if _, ok := st.(*ast.FunctionDeclaration); ok {
				found = true
			}
		}
	})
	return found
}

// walk calls visit for every node below root. It visits the bodies of functions
// statement by statement, so that a *ast.BlockStatement is always a block.
func walk(root any, visit func(node any)) {
	walkUnless(reflect.ValueOf(root), func(any) bool { return false }, visit)
}

// walkUnless is like walk, but skips nodes for which skip returns true, and
// everything below them.
func walkUnless(root reflect.Value, skip func(node any) bool, visit func(node any)) {
	walkValue(root, walker{skip, visit, func(reflect.Value) bool { return false }})
}

type walker struct {
	skip  func(node any) bool
	visit func(node any)
	slot  func(slot reflect.Value) bool // may replace a node, and is called before it is visited
}

var (
	declarations = reflect.TypeFor[[]*ast.VariableDeclaration]()
	nodeType     = reflect.TypeFor[ast.Node]()
)

func walkValue(v reflect.Value, w walker) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() && !w.slot(v) {
			walkValue(v.Elem(), w)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walkPointer(v, w)
		}
	case reflect.Slice:
		if v.Type() == declarations || v.Type().Elem().Kind() == reflect.Uint8 {
			return // these occur in the tree a second time, where they are declared
		}
		for i := range v.Len() {
			walkValue(v.Index(i), w)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walkValue(v.Field(i), w)
			}
		}
	default: // a leaf
	}
}

func walkPointer(v reflect.Value, w walker) {
	if !v.Type().Implements(nodeType) && v.Elem().Kind() != reflect.Struct {
		return
	}
	if w.skip(v.Interface()) {
		return
	}
	switch n := v.Interface().(type) {
	case *ast.FunctionLiteral:
		w.visit(n)
		walkValue(reflect.ValueOf(n.ParameterList), w)
		walkStatements(n.Body, w)
	case *ast.ArrowFunctionLiteral:
		w.visit(n)
		walkValue(reflect.ValueOf(n.ParameterList), w)
		if body, ok := n.Body.(*ast.BlockStatement); ok {
			walkStatements(body, w)
			return
		}
		walkValue(reflect.ValueOf(n.Body), w)
	case *ast.ClassStaticBlock:
		walkStatements(n.Block, w)
	case *ast.Program:
		walkValue(reflect.ValueOf(n.Body), w)
	default:
		if v.Type().Implements(nodeType) {
			w.visit(n)
		}
		walkValue(v.Elem(), w)
	}
}

// walkStatements visits the statements of a body, but not the body as a block.
func walkStatements(body *ast.BlockStatement, w walker) {
	if body != nil {
		walkValue(reflect.ValueOf(body.List), w)
	}
}
