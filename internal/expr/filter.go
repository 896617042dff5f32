package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr/jsonpath"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// filter is an entry of the table of filters. Its arguments are checked and
// converted before apply is called.
type filter struct {
	name   string
	params []param
	apply  func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value // a failure is a panic: see [evaluator.caught]
}

// param describes an argument of a filter. It is required unless it has a
// fallback or is optional.
type param struct {
	name     string
	kind     paramKind
	fallback jsonx.Value
	optional bool
}

type paramKind uint8

const (
	anyParam    paramKind = iota
	textParam             // a string, number or boolean, as text
	charParam             // text of exactly one character
	countParam            // an integer from 0 to maxCount
	offsetParam           // an integer, which may be negative
	flagParam             // a boolean, or 'true' or 'false'
	numberParam           // a decimal number
	pathParam             // a JSONPath, which must be a literal
)

const maxCount = 1 << 20

// arg is an argument, converted according to its kind.
type arg struct {
	given   bool
	value   jsonx.Value
	text    string  // for textParam and charParam
	n       int     // for countParam and offsetParam
	yes     bool    // for flagParam
	decimal decimal // for numberParam
	path    *jsonpath.Path
}

func (f *filter) param(name string) int {
	return slices.IndexFunc(f.params, func(p param) bool { return p.name == name })
}

// usage lists the names of the filter's arguments for messages.
func (f *filter) usage() string {
	if len(f.params) == 0 {
		return "none"
	}
	names := make([]string, len(f.params))
	for i, p := range f.params {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// set sets one argument. A literal is converted at once, so that a wrong one is
// found when the template is compiled.
func (a *application) set(i int, op operand) *Error {
	p := &a.filter.params[i]
	if a.args[i].given {
		return faultf("the argument %s is given twice", p.name)
	}
	if op.ref.ID != "" {
		if p.kind == pathParam {
			return faultf("the argument %s must be text in quotes", p.name)
		}
		a.args[i].given = true
		a.dynamic = append(a.dynamic, dynamicArg{index: i, operand: op})
		return nil
	}
	converted, err := p.convert(op.literal)
	if err != nil {
		return err
	}
	a.args[i] = converted
	return nil
}

// finish fills in the defaults of missing arguments.
func (a *application) finish() *Error {
	for i := range a.filter.params {
		p := &a.filter.params[i]
		switch {
		case a.args[i].given || p.optional:
		case p.fallback.IsZero():
			return faultf("the argument %s is missing", p.name)
		default:
			converted, err := p.convert(p.fallback)
			if err != nil {
				return err
			}
			converted.given = false
			a.args[i] = converted
		}
	}
	return nil
}

// convert checks v against the parameter's kind.
func (p *param) convert(v jsonx.Value) (arg, *Error) {
	a := arg{given: true, value: v}
	ok := true
	switch p.kind {
	case anyParam: // unchanged
	case textParam:
		a.text, ok = scalarText(v)
	case charParam:
		a.text, ok = scalarText(v)
		ok = ok && charCount(a.text) == 1
	case countParam:
		a.n, ok = integer(v)
		ok = ok && a.n >= 0 && a.n <= maxCount
	case offsetParam:
		a.n, ok = integer(v)
		ok = ok && a.n >= -maxCount && a.n <= maxCount
	case flagParam:
		a.yes, ok = boolean(v)
	case numberParam:
		a.decimal, ok = readDecimal(v)
	case pathParam:
		return p.convertPath(v)
	}
	if !ok {
		return arg{}, faultf("the argument %s must be %s", p.name, allowed[p.kind])
	}
	return a, nil
}

func (p *param) convertPath(v jsonx.Value) (arg, *Error) {
	if v.Kind() != jsonx.String {
		return arg{}, faultf("the argument %s must be a JSONPath in quotes", p.name)
	}
	compiled, err := jsonpath.Parse(v.Text())
	if err != nil {
		return arg{}, faultf("the argument %s %v", p.name, err)
	}
	return arg{given: true, value: v, path: compiled}, nil
}

// allowed are the values of each kind, for messages.
var allowed = [...]string{
	textParam:   "text, a number or a boolean",
	charParam:   "exactly one character",
	countParam:  "an integer from 0 to 1048576",
	offsetParam: "an integer from -1048576 to 1048576",
	flagParam:   "true or false",
	numberParam: "a number of at most 1,000 digits",
}

// scalarText returns the text of a string, number or boolean.
func scalarText(v jsonx.Value) (string, bool) {
	switch v.Kind() {
	case jsonx.String, jsonx.Number:
		return v.Text(), true
	case jsonx.Bool:
		return strconv.FormatBool(v.Bool()), true
	default:
		return "", false
	}
}

// integer returns an integer, which may be written as text.
func integer(v jsonx.Value) (int, bool) {
	if v.Kind() == jsonx.String {
		parsed, err := jsonx.NumberValue(v.Text())
		if err != nil {
			return 0, false
		}
		v = parsed
	}
	n, ok := v.Int()
	return int(n), ok
}

// boolean returns a boolean, which may be written as text.
func boolean(v jsonx.Value) (yes, ok bool) {
	s, _ := scalarText(v)
	return s == "true", s == "true" || s == "false"
}

// charCount counts code points.
func charCount(s string) int {
	n := 0
	for i := range len(s) {
		if startsChar(s[i]) {
			n++
		}
	}
	return n
}

// startsChar reports whether a byte of WTF-8 begins a character.
func startsChar(c byte) bool { return c&0xC0 != 0x80 }

// charWidth returns the number of bytes of the first character of s, which must
// not be empty.
func charWidth(s string) int {
	if s[0] < 0x80 {
		return 1
	}
	_, width := jsonx.DecodeRune(s)
	return width
}

// prefix returns the first n characters of s, or all of it.
func prefix(s string, n int) string {
	if n <= 0 {
		return ""
	}
	for i := range len(s) {
		if !startsChar(s[i]) {
			continue
		}
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// filters is the table of all filters by name.
var filters = func() map[string]*filter {
	table := make(map[string]*filter)
	for _, group := range [][]*filter{
		hidingFilters(), aliasFilters(), typeFilters(), textFilters(), encodingFilters(), numberFilters(), arrayFilters(),
	} {
		for _, f := range group {
			table[f.name] = f
		}
	}
	return table
}()

// required makes a required parameter.
func required(name string, kind paramKind) param { return param{name: name, kind: kind} }

// optional makes a parameter without a default.
func optional(name string, kind paramKind) param {
	return param{name: name, kind: kind, optional: true}
}

// or makes a parameter with a default.
func or(name string, kind paramKind, fallback any) param {
	v, err := jsonx.From(fallback)
	if err != nil {
		panic(err)
	}
	return param{name: name, kind: kind, fallback: v}
}

// textFilter makes a filter from a function on text. Null counts as "", as in
// Liquid.
func textFilter(name string, apply func(ev *evaluator, in string, args []arg) string, params ...param) *filter {
	return &filter{name: name, params: params, apply: func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		s, ok := scalarText(in)
		if !ok && !in.IsNull() {
			panic(needs("text", in))
		}
		return jsonx.StringValue(apply(ev, s, args))
	}}
}

// secretFilter makes a filter from a function that hides text. Null stays null,
// because there is nothing to hide.
func secretFilter(name string, apply func(ev *evaluator, in string, args []arg) string, params ...param) *filter {
	f := textFilter(name, apply, params...)
	onText := f.apply
	f.apply = func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		if in.IsNull() {
			return in
		}
		return onText(ev, in, args)
	}
	return f
}

// arrayFilter makes a filter from a function on arrays.
func arrayFilter(name string, apply func(ev *evaluator, in []jsonx.Value, args []arg) jsonx.Value, params ...param) *filter {
	return &filter{name: name, params: params, apply: func(ev *evaluator, in jsonx.Value, args []arg) jsonx.Value {
		if in.Kind() != jsonx.Array {
			panic(needs("an array", in))
		}
		return apply(ev, in.Elems(), args)
	}}
}
