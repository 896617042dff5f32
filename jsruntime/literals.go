package jsruntime

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"

	"github.com/seed-72ea4aab/vault/script"
)

// literal is a name that code requires in so many words, and the line where.
type literal struct {
	name string
	line int
}

// requiredNames returns the names that the code in a wrapper is certain to ask
// for when it comes there: literals outside of try. Where the code declares a
// require of its own, as bundlers do, that one is meant.
func requiredNames(tree *ast.Program) []literal {
	statement, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	wrapper, ok := statement.Expression.(*ast.FunctionLiteral)
	if !ok || declaresRequire(wrapper.DeclarationList, wrapper.Body) {
		return nil
	}
	var out []literal
	walkUnless(reflect.ValueOf(wrapper.Body.List), hidesRequire, func(n any) {
		call, ok := n.(*ast.CallExpression)
		if !ok || len(call.ArgumentList) == 0 {
			return
		}
		callee, ok := call.Callee.(*ast.Identifier)
		name, isString := call.ArgumentList[0].(*ast.StringLiteral)
		if ok && isString && (callee.Name == "require" && len(call.ArgumentList) == 1 || callee.Name == lowImport) {
			out = append(out, literal{name.Value.String(), tree.File.Position(int(call.Idx0()) - tree.File.Base()).Line})
		}
	})
	return out
}

// hidesRequire tells whether a missing module is no certain error below a node:
// in try, and where require is another function.
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
	if list == nil {
		return false
	}
	for _, b := range list.List {
		if isRequire(b.Target) {
			return true
		}
	}
	return isRequire(list.Rest)
}

func isRequire(n any) bool {
	id, ok := n.(*ast.Identifier)
	return ok && id != nil && id.Name == "require"
}

// declaresRequire tells whether variables or the statements of a block declare
// a require.
func declaresRequire(variables []*ast.VariableDeclaration, body *ast.BlockStatement) bool {
	for _, v := range variables {
		for _, b := range v.List {
			if isRequire(b.Target) {
				return true
			}
		}
	}
	if body == nil {
		return false
	}
	for _, st := range body.List {
		switch st := st.(type) {
		case *ast.LexicalDeclaration:
			for _, b := range st.List {
				if isRequire(b.Target) {
					return true
				}
			}
		case *ast.FunctionDeclaration:
			if isRequire(st.Function.Name) {
				return true
			}
		}
	}
	return false
}

// checkNames refuses code that names a package that is not there.
func (c *execution) checkNames() *script.Error {
	for _, l := range c.code.names {
		plain := strings.TrimPrefix(l.name, "node:")
		if _, ok := publicModules[plain]; ok || c.find("", l.name) != "" {
			continue
		}
		return invalidCode(l.line, fmt.Sprintf("there is no package %q; there are %s", clip(l.name), strings.Join(c.packageNames(), ", ")))
	}
	return nil
}

// packageNames lists what code may require beyond the modules of Node.
func (c *execution) packageNames() []string {
	names := slices.Concat(slices.Collect(maps.Keys(standIns)), slices.Collect(maps.Keys(ownModules)))
	if c.units != nil {
		answer, _ := c.port.ask(c.done, askNames)
		names = append(names, answer...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
