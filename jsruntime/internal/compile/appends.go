package compile

import (
	"reflect"
	"slices"
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
// there are any. A program that calls eval, or uses with, stays as it is, because
// names in it can mean anything.
func growTexts(tree *ast.Program) bool {
	source := tree.File.Source()
	if !strings.Contains(source, "+=") || strings.Contains(source, "eval") || len(tree.Body) != 1 {
		return false
	}
	wrapper, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok || hasDynamicNames(tree) {
		return false
	}
	g := grower{texts: textNames(tree)}
	g.walk(reflect.ValueOf(tree))
	if g.found {
		at := wrapper.Idx0()
		wrapper.Expression = &ast.ArrowFunctionLiteral{
			Start:         at,
			ParameterList: &ast.ParameterList{List: []*ast.Binding{{Target: &ast.Identifier{Name: appendName, Idx: at}}}},
			Body:          &ast.ExpressionBody{Expression: wrapper.Expression},
		}
	}
	return g.found
}

// hasDynamicNames reports whether a tree has with, or eval behind an escape.
func hasDynamicNames(tree *ast.Program) bool {
	found := false
	walk(tree, func(n any) {
		switch n := n.(type) {
		case *ast.WithStatement:
			found = true
		case *ast.Identifier:
			found = found || n.Name == "eval"
		}
	})
	return found
}

// grower rewrites assignments.
type grower struct {
	texts  map[string]bool
	scopes []map[string]bool // names that the scopes around a node declare, as far as known
	found  bool
}

func (g *grower) walk(v reflect.Value) { walkUnless(v, g.scope, g.visit) }

// visit rewrites an assignment that appends to a text.
func (g *grower) visit(n any) {
	assign, ok := n.(*ast.AssignExpression)
	if !ok || assign.Operator != token.PLUS || !g.isRepeatable(assign.Left) || !g.texts[lastName(assign.Left)] && !isText(assign.Right) {
		return
	}
	g.found = true
	assign.Operator = token.ASSIGN
	assign.Right = &ast.CallExpression{
		Callee:       &ast.Identifier{Name: appendName, Idx: assign.Left.Idx0()},
		ArgumentList: []ast.Expression{assign.Left, assign.Right},
	}
}

// scope visits what is below a node that declares names, and reports whether it did.
func (g *grower) scope(n any) bool {
	switch n := n.(type) {
	case *ast.FunctionLiteral:
		g.function(n.ParameterList, n.Body)
	case *ast.ArrowFunctionLiteral:
		g.function(n.ParameterList, n.Body)
	case *ast.BlockStatement:
		g.within(declared(n.List), reflect.ValueOf(n.List))
	case *ast.ForStatement:
		names := map[string]bool{}
		if head, ok := n.Initializer.(*ast.ForLoopInitializerLexicalDecl); ok {
			addNames(names, head.LexicalDeclaration.List)
		}
		g.within(names, reflect.ValueOf(n).Elem())
	case *ast.ForOfStatement:
		g.within(intoNames(n.Into), reflect.ValueOf(n).Elem())
	case *ast.ForInStatement:
		g.within(intoNames(n.Into), reflect.ValueOf(n).Elem())
	default:
		return false
	}
	return true
}

// function visits a function. Its parameters do not see what its body declares.
func (g *grower) function(params *ast.ParameterList, body ast.Node) {
	names := map[string]bool{}
	addNames(names, params.List)
	g.within(names, reflect.ValueOf(params), reflect.ValueOf(body))
}

// within visits nodes in a scope with names.
func (g *grower) within(names map[string]bool, nodes ...reflect.Value) {
	g.scopes = append(g.scopes, names)
	for _, n := range nodes {
		g.walk(n)
	}
	g.scopes = g.scopes[:len(g.scopes)-1]
}

// declared returns names that statements declare for all of their block.
func declared(list []ast.Statement) map[string]bool {
	names := map[string]bool{}
	for _, st := range list {
		switch st := st.(type) {
		case *ast.LexicalDeclaration:
			addNames(names, st.List)
		case *ast.VariableStatement:
			addNames(names, st.List)
		case *ast.FunctionDeclaration:
			names[nameOf(st.Function.Name)] = true
		case *ast.ClassDeclaration:
			names[nameOf(st.Class.Name)] = true
		}
	}
	return names
}

func addNames(to map[string]bool, bindings []*ast.Binding) {
	for _, b := range bindings {
		to[nameOf(b.Target)] = true
	}
}

// intoNames returns the name that the head of a loop declares.
func intoNames(into ast.ForInto) map[string]bool {
	if d, ok := into.(*ast.ForDeclaration); ok {
		return map[string]bool{nameOf(d.Target): true}
	}
	return nil
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
// noticing: a variable, or a property of this or of a variable that the program
// declares. A getter of the global object would notice.
func (g *grower) isRepeatable(n ast.Expression) bool {
	switch n := n.(type) {
	case *ast.Identifier:
		return true
	case *ast.DotExpression:
		switch base := n.Left.(type) {
		case *ast.Identifier:
			name := nameOf(base)
			return slices.ContainsFunc(g.scopes, func(names map[string]bool) bool { return names[name] })
		case *ast.ThisExpression:
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
