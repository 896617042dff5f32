package jsruntime

import (
	"maps"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
)

// patches repair intrinsics of goja. Each is a file of the prelude, which a run
// loads before a program that might reach what it repairs. A program reaches an
// intrinsic by its name: as an identifier, as a property, or in a string. Where names
// can be made at run time, a program might reach all of them.
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
	regexpPatch:        "RegExp match matchAll search",
}

// regexpPatch stands for our own regular expressions, which are not a file.
const regexpPatch = "regexps"

// companions are names that a program must have, too, to reach what a patch repairs.
var companions = map[string]string{"patch_typed": "from", "patch_weak": "Symbol"}

// makers are names by which a program can make other names, or code.
var makers = wordSet("eval Function constructor globalThis global Reflect")

// patchesByName are the patches that a name calls for.
var patchesByName = func() map[string]string {
	out := map[string]string{}
	for patch, names := range patches {
		for name := range strings.FieldsSeq(names) {
			out[name] = patch
		}
	}
	return out
}()

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
}

// reach is what a program can reach.
type reach struct {
	names map[string]bool
	all   bool
	class ast.Expression // the key of the constructor of a class, which is no name
}

// neededPatches returns the patches that a program might need.
func neededPatches(tree *ast.Program) []string {
	r := reach{names: map[string]bool{}}
	walk(tree, r.visit)
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

// visit takes note of the names in a node.
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
	}
}

func (r *reach) name(name string) {
	r.all = r.all || makers[name]
	if patchesByName[name] != "" || name == "from" || name == "Symbol" {
		r.names[name] = true
	}
}

// member looks at a computed name. A variable or a number is taken for an index: a
// name that a variable holds is somewhere in the program, unless it was made.
func (r *reach) member(n *ast.BracketExpression) {
	switch key := n.Member.(type) {
	case *ast.StringLiteral, *ast.NumberLiteral, *ast.Identifier, *ast.UnaryExpression, *ast.DotExpression:
	case *ast.BinaryExpression:
		r.all = r.all || joinsText(key)
	default:
		r.all = true
	}
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
