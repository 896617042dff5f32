package jsruntime

import (
	"errors"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
)

// maxPattern bounds a regular expression after its properties were expanded.
const maxPattern = 1 << 20

var errPattern = errors.New("the regular expression is too large")

// rewriteRegexps checks the literals of a program, and expands \p{...} in them.
// goja takes \p for the letter p, and would answer wrongly without a word.
func rewriteRegexps(tree *ast.Program) error {
	var failed error
	walk(tree, func(n any) {
		lit, ok := n.(*ast.RegExpLiteral)
		if !ok {
			return
		}
		pattern, err := checkedPattern(lit.Pattern, lit.Flags)
		if err != nil {
			failed = err
			return
		}
		lit.Pattern = pattern
	})
	return failed
}

// regexpNatives serve the RegExp constructor of the prelude.
var regexpNatives = map[string]native{
	// What is checked and needs no change stays as it is: a Go string would lose its
	// lone surrogates.
	"regexp.check": func(c *execution, args []goja.Value) goja.Value {
		given, flags := arg(args, 0).String(), arg(args, 1).String()
		pattern, err := checkedPattern(given, flags)
		switch {
		case err != nil:
			panic(c.newError("SyntaxError", "", err.Error()))
		case pattern == given:
			return arg(args, 0)
		}
		return c.vm.ToValue(pattern)
	},
}

// checkedPattern returns a pattern for goja, or says what is wrong with it. It
// checks what goja lets pass, and expands what goja does not know: \p{...}, and
// the classes of the flag v.
func checkedPattern(text, flags string) (out string, err error) {
	p := &pattern{src: []rune(text), names: map[string]bool{}, fold: strings.Contains(flags, "i")}
	p.sets = strings.Contains(flags, "v")
	p.unicode = p.sets || strings.Contains(flags, "u")
	defer func() {
		switch bad := recover().(type) {
		case nil:
		case patternError:
			out, err = "", errors.New("Invalid regular expression: "+string(bad))
		default:
			panic(bad)
		}
	}()
	if p.sets && strings.Contains(flags, "u") {
		p.fail("the flags u and v exclude each other")
	}
	p.disjunction(0)
	if p.pos < len(p.src) {
		p.fail("Unmatched ')'")
	}
	p.checkReferences()
	if p.out.Len() > maxPattern {
		return "", errPattern
	}
	if !p.changed {
		return text, nil
	}
	return p.out.String(), nil
}
