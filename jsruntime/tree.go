package jsruntime

import (
	"reflect"

	"github.com/dop251/goja/ast"
)

// needsLowering tells whether a tree holds a function declared within a
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

// walk calls visit for every node below root. The bodies of functions are
// visited statement by statement, so that a *ast.BlockStatement is always a
// block.
func walk(root any, visit func(node any)) {
	walkValue(reflect.ValueOf(root), visit)
}

var (
	declarations = reflect.TypeFor[[]*ast.VariableDeclaration]()
	nodeType     = reflect.TypeFor[ast.Node]()
)

func walkValue(v reflect.Value, visit func(any)) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walkValue(v.Elem(), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walkPointer(v, visit)
		}
	case reflect.Slice:
		if v.Type() == declarations || v.Type().Elem().Kind() == reflect.Uint8 {
			return // these are in the tree a second time, where they are declared
		}
		for i := range v.Len() {
			walkValue(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walkValue(v.Field(i), visit)
			}
		}
	default: // a leaf
	}
}

func walkPointer(v reflect.Value, visit func(any)) {
	if !v.Type().Implements(nodeType) && v.Elem().Kind() != reflect.Struct {
		return
	}
	switch n := v.Interface().(type) {
	case *ast.FunctionLiteral:
		visit(n)
		walkValue(reflect.ValueOf(n.ParameterList), visit)
		walkStatements(n.Body, visit)
	case *ast.ArrowFunctionLiteral:
		visit(n)
		walkValue(reflect.ValueOf(n.ParameterList), visit)
		if body, ok := n.Body.(*ast.BlockStatement); ok {
			walkStatements(body, visit)
			return
		}
		walkValue(reflect.ValueOf(n.Body), visit)
	case *ast.ClassStaticBlock:
		walkStatements(n.Block, visit)
	case *ast.Program:
		walkValue(reflect.ValueOf(n.Body), visit)
	default:
		if v.Type().Implements(nodeType) {
			visit(n)
		}
		walkValue(v.Elem(), visit)
	}
}

// walkStatements visits the statements of a body, but not the body as a block.
func walkStatements(body *ast.BlockStatement, visit func(any)) {
	if body != nil {
		walkValue(reflect.ValueOf(body.List), visit)
	}
}
