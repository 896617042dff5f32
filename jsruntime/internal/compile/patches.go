package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
)

// patches repair intrinsics of goja. Each is a file of the prelude, which a run
// loads before a program that might reach the intrinsic. A program reaches an
// intrinsic by its name: as an identifier, as a property, or in a string. If a
// program can create names at run time, it might reach all of them. If it calls
// a method by a name in a variable, it might reach computedNames.
var patches = map[string]string{
	"patch_annexb": "__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ getYear setYear toGMTString trimLeft trimRight " +
		"anchor big blink bold fixed fontcolor fontsize italics link small strike sub sup",
	"patch_array":      "unscopables",
	"patch_error":      "captureStackTrace stackTraceLimit",
	"patch_json":       "JSON",
	"patch_locale":     "toLocaleString toLocaleDateString toLocaleTimeString",
	"patch_prepare":    "prepareStackTrace",
	"patch_proxy":      "Proxy",
	"patch_symbol":     "asyncIterator",
	"patch_typed":      "Uint8Array Int8Array Uint8ClampedArray Uint16Array Int16Array Uint32Array Int32Array Float32Array Float64Array BigInt64Array BigUint64Array",
	"patch_weak":       "WeakMap WeakSet",
	"patch_wellformed": "isWellFormed toWellFormed",
	RegexpPatch:        "RegExp match matchAll search",
}

// RegexpPatch stands for our own regular expressions, which are not a file.
const RegexpPatch = "regexps"

// companions are names that a program must also contain to reach what a patch
// repairs.
var companions = map[string]string{"patch_typed": "from", "patch_weak": "Symbol"}

// makers are names by which a program can create other names, or code.
var makers = Words("eval Function constructor globalThis global Reflect")

// patchesByName maps names to the patches that they require.
var patchesByName = ByWord(patches)

// ByWord maps words to the keys of the lists that contain them.
func ByWord(lists map[string]string) map[string]string {
	out := map[string]string{}
	for key, words := range lists {
		for word := range strings.FieldsSeq(words) {
			out[word] = key
		}
	}
	return out
}

// Words returns the set of the words in a list.
func Words(list string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		out[word] = true
	}
	return out
}

// computedNames are methods that a program might call by a name that is not in
// its text. goja has these methods, but with a different effect.
var computedNames = []string{"match", "toLocaleString"}

// intrinsics are objects that patches add properties to.
var intrinsics = Words("Error Symbol Object Array Date Number BigInt String RegExp JSON Uint8Array")

// reach is what a program can reach.
type reach struct {
	names  map[string]bool
	all    bool
	class  ast.Expression  // the key of a class constructor, which is not a name
	called map[string]bool // variables whose methods are called by computed names; "" for other objects
	tables map[string]bool // variables that hold an object literal
	other  map[string]bool // variables that hold something else
}

// NeededPatches returns the patches that a program might need.
func NeededPatches(tree *ast.Program) []string {
	r := reach{names: map[string]bool{}, called: map[string]bool{}, tables: map[string]bool{}, other: map[string]bool{}}
	walk(tree, r.visit)
	r.callsComputed()
	if r.all {
		return slices.Sorted(maps.Keys(patches))
	}
	needed := map[string]bool{}
	for name := range r.names {
		if patch := patchesByName[name]; patch != "" && (companions[patch] == "" || r.names[companions[patch]]) {
			needed[patch] = true
		}
	}
	return slices.Sorted(maps.Keys(needed))
}

// visit records the names in a node.
func (r *reach) visit(n any) {
	switch n := n.(type) {
	case *ast.MethodDefinition:
		if !n.Computed {
			r.class = n.Key
		}
	case *ast.RegExpLiteral:
		r.names["RegExp"] = true
	case *ast.Identifier:
		r.name(n.Name.String())
	case *ast.PropertyShort:
		r.name(n.Name.Name.String())
	case *ast.DotExpression:
		r.name(n.Identifier.Name.String())
	case *ast.StringLiteral:
		if r.class != ast.Expression(n) {
			r.name(n.Value.String())
		}
	case *ast.BracketExpression:
		r.member(n)
	case *ast.CallExpression:
		if b := computed(n.Callee); b != nil {
			r.called[nameOf(b.Left)] = true
		}
	case *ast.NewExpression:
		r.all = r.all || computed(n.Callee) != nil
	case *ast.ObjectPattern:
		r.pattern(n)
	case *ast.ArrayPattern:
		for _, element := range n.Elements {
			r.assigned(element, nil)
		}
	case *ast.ForDeclaration:
		r.assigned(n.Target, nil)
	case *ast.Binding:
		r.assigned(n.Target, n.Initializer)
	case *ast.AssignExpression:
		r.assigned(n.Left, n.Right)
	}
}

// assigned records what a variable holds. A method of an object literal is
// defined by the program, by whatever name it is called.
func (r *reach) assigned(target any, value ast.Expression) {
	if _, ok := value.(*ast.ObjectLiteral); ok {
		r.tables[nameOf(target)] = true
	} else {
		r.other[nameOf(target)] = true
	}
}

// callsComputed adds what calls by computed names might reach.
func (r *reach) callsComputed() {
	for object := range r.called {
		if !r.tables[object] || r.other[object] {
			for _, name := range computedNames {
				r.names[name] = true
			}
		}
	}
}

// pattern records variables and computed names in a destructuring assignment.
func (r *reach) pattern(n *ast.ObjectPattern) {
	for _, p := range n.Properties {
		switch p := p.(type) {
		case *ast.PropertyShort:
			r.other[p.Name.Name.String()] = true
		case *ast.PropertyKeyed:
			_, literal := p.Key.(*ast.StringLiteral)
			r.all = r.all || p.Computed && !literal
			r.assigned(p.Value, nil)
		}
	}
}

// computed returns an access to a member whose name is in a variable or a
// property.
func computed(n ast.Expression) *ast.BracketExpression {
	switch n := n.(type) {
	case *ast.Optional:
		return computed(n.Expression)
	case *ast.OptionalChain:
		return computed(n.Expression)
	case *ast.BracketExpression:
		switch n.Member.(type) {
		case *ast.Identifier, *ast.DotExpression:
			return n
		}
	}
	return nil
}

func (r *reach) name(name string) {
	r.all = r.all || makers[name]
	if patchesByName[name] != "" || name == "from" || name == "Symbol" {
		r.names[name] = true
	}
}

// member checks a computed name. It treats a variable or a number as an index,
// because a name in a variable also occurs elsewhere in the program, unless it
// was created at run time.
func (r *reach) member(n *ast.BracketExpression) {
	switch key := n.Member.(type) {
	case *ast.Identifier, *ast.DotExpression:
		r.all = r.all || isIntrinsic(n.Left)
	case *ast.StringLiteral, *ast.NumberLiteral, *ast.UnaryExpression:
	case *ast.BinaryExpression:
		r.all = r.all || joinsText(key)
	default:
		r.all = true
	}
}

// isIntrinsic reports whether an expression names an intrinsic or a prototype.
func isIntrinsic(n ast.Expression) bool {
	switch n := n.(type) {
	case *ast.Identifier:
		return intrinsics[n.Name.String()]
	case *ast.DotExpression:
		return n.Identifier.Name == "prototype"
	}
	return false
}

// joinsText reports whether an operand of a sum might be a string.
func joinsText(n *ast.BinaryExpression) bool {
	for _, side := range []ast.Expression{n.Left, n.Right} {
		switch side := side.(type) {
		case *ast.NumberLiteral, *ast.Identifier, *ast.DotExpression:
		case *ast.BinaryExpression:
			if joinsText(side) {
				return true
			}
		default:
			return true
		}
	}
	return false
}
