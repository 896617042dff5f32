package jsruntime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
		pattern, err := checkedPattern(lit.Pattern, strings.Contains(lit.Flags, "u"))
		if err != nil {
			failed = err
			return
		}
		lit.Pattern = pattern
	})
	return failed
}

// checkedPattern returns a pattern for goja, or says what is wrong with it.
func checkedPattern(pattern string, unicodeFlag bool) (string, error) {
	err := checkGroups(pattern, unicodeFlag)
	if err != nil || !unicodeFlag {
		return pattern, err
	}
	return expandProperties(pattern)
}

// expandProperties replaces every \p{...} and \P{...} of a pattern with the
// flag u by the characters that it stands for.
func expandProperties(pattern string) (string, error) {
	if !strings.Contains(pattern, `\p{`) && !strings.Contains(pattern, `\P{`) {
		return pattern, nil
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c != '\\' || i+1 == len(pattern) {
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
			continue
		}
		end := strings.IndexByte(pattern[i:], '}')
		if next := pattern[i+1]; next != 'p' && next != 'P' || end < 0 || pattern[i+2] != '{' {
			b.WriteString(pattern[i : i+2])
			i++
			continue
		}
		ranges, err := propertyRanges(pattern[i+3 : i+end])
		if err != nil {
			return "", err
		}
		if pattern[i+1] == 'P' {
			ranges = complement(ranges)
		}
		writeClass(&b, ranges, class)
		i += end
		if b.Len() > maxPattern {
			return "", errPattern
		}
	}
	return b.String(), nil
}

// writeClass writes ranges as a class, or as a part of one.
func writeClass(b *strings.Builder, ranges []runeRange, within bool) {
	if !within {
		b.WriteByte('[')
	}
	for _, r := range ranges {
		fmt.Fprintf(b, `\u{%x}`, r.lo)
		if r.hi > r.lo {
			fmt.Fprintf(b, `-\u{%x}`, r.hi)
		}
	}
	if !within {
		b.WriteByte(']')
	}
}

type runeRange struct{ lo, hi rune }

// propertyRanges returns the characters with a property, written as in
// ECMAScript: Name, Name=Value.
func propertyRanges(property string) ([]runeRange, error) {
	name, value, pair := strings.Cut(property, "=")
	if !pair {
		if ranges := binaryProperty(name); ranges != nil {
			return ranges, nil
		}
		name, value = "gc", name
	}
	var table *unicode.RangeTable
	switch name {
	case "gc", "General_Category":
		if short, ok := categoryNames[value]; ok {
			value = short
		}
		if value == "LC" {
			return union(unicode.Lu, unicode.Ll, unicode.Lt), nil
		}
		if value == "Cn" {
			return complement(assigned()), nil
		}
		table = unicode.Categories[value]
	case "sc", "Script", "scx", "Script_Extensions":
		value = cmp.Or(scriptNames[value], value)
		table = unicode.Scripts[value]
	}
	if table == nil {
		return nil, fmt.Errorf("Invalid regular expression: invalid property name %q", property) //nolint:staticcheck // as Node words it
	}
	return union(table), nil
}

func assigned() []runeRange {
	return union(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// binaryProperty returns the characters with a binary property, or nil when
// there is no such property.
func binaryProperty(name string) []runeRange {
	name = cmp.Or(propertyNames[name], name)
	switch name {
	case "Any":
		return complement(nil)
	case "ASCII":
		return []runeRange{{0, 0x7f}}
	case "Assigned":
		return assigned()
	case "Alphabetic":
		return union(unicode.L, unicode.Nl, unicode.Other_Alphabetic)
	case "Lowercase":
		return union(unicode.Ll, unicode.Other_Lowercase)
	case "Uppercase":
		return union(unicode.Lu, unicode.Other_Uppercase)
	case "Math":
		return union(unicode.Sm, unicode.Other_Math)
	case "ID_Start", "XID_Start":
		return union(unicode.L, unicode.Nl, unicode.Other_ID_Start)
	case "ID_Continue", "XID_Continue":
		return union(unicode.L, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Start, unicode.Other_ID_Continue)
	case "Cased":
		return union(unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
	}
	if text, ok := emojiRanges[name]; ok {
		return parseRanges(text)
	}
	if table, ok := unicode.Properties[name]; ok && !strings.HasPrefix(name, "Other_") {
		return union(table)
	}
	return nil
}

// parseRanges reads ranges written in hexadecimal.
func parseRanges(text string) []runeRange {
	var out []runeRange
	for _, field := range strings.Fields(text) {
		from, to, _ := strings.Cut(field, "-")
		lo, _ := strconv.ParseInt(from, 16, 32)
		hi := lo
		if to != "" {
			hi, _ = strconv.ParseInt(to, 16, 32)
		}
		out = append(out, runeRange{rune(lo), rune(hi)})
	}
	return out
}

// union returns the characters of several tables, in order.
func union(tables ...*unicode.RangeTable) []runeRange {
	var all []runeRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			all = append(all, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			all = append(all, runeRange{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	slices.SortFunc(all, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var out []runeRange
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].hi >= r.lo-1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// complement returns all other characters. Halves of surrogate pairs that stand
// alone are among them, as in JavaScript.
func complement(ranges []runeRange) []runeRange {
	var out []runeRange
	next := rune(0)
	for _, r := range append(ranges, runeRange{utf8.MaxRune + 1, utf8.MaxRune + 1}) {
		if next < r.lo {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	return out
}

// regexpNatives serve the RegExp constructor of the prelude.
var regexpNatives = map[string]native{
	// What is checked and needs no change stays as it is: a Go string would lose its
	// lone surrogates.
	"regexp.check": func(c *execution, args []goja.Value) goja.Value {
		given := arg(args, 0).String()
		pattern, err := checkedPattern(given, arg(args, 1).ToBoolean())
		switch {
		case err != nil:
			panic(c.newError("SyntaxError", "", err.Error()))
		case pattern == given:
			return arg(args, 0)
		}
		return c.vm.ToValue(pattern)
	},
}
