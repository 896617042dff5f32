package node

import (
	"errors"
	"math"
	"reflect"
	"strconv"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/regex"
)

// regexps are the regular expressions of a run.
type regexps struct {
	c         *Execution
	class     *goja.Object // the engine's own
	prototype *goja.Object
	exec      goja.Value                  // the function of the prototype
	source    goja.Callable               // the engine's own getter
	flags     map[string]goja.Callable    // the engine's own getters
	known     map[string]*compile.Pattern // by mark, or by text and flags
	made      map[string]*compile.Pattern // at run time, by mark

	object *goja.Object // most recently used, with its pattern
	found  *compile.Pattern
	text   goja.String // most recently matched, with its code units
	units  []uint16
	last   match // for RegExp.$1 and similar properties
}

// match is where a regular expression matched.
type match struct {
	text  goja.String
	spans []int32
}

// engineFlagNames are the properties of the flags that the engine knows.
var engineFlagNames = map[string]string{"g": "global", "i": "ignoreCase", "m": "multiline", "s": "dotAll", "u": "unicode", "y": "sticky"}

// maxKnown limits how many patterns are kept by their text.
const maxKnown = 500

// installRegexps replaces the engine's methods with our own. A run does so
// before it loads a program that might use regular expressions.
func (c *Execution) installRegexps() {
	r := &c.regexps
	if r.c != nil {
		return
	}
	r.c = c
	r.class = c.VM.Get("RegExp").ToObject(c.VM)
	r.prototype = r.class.Get("prototype").ToObject(c.VM)
	c.Must(c.VM.GlobalObject().Delete("RegExp")) // it is one of the lazy globals
	r.known, r.made = map[string]*compile.Pattern{}, map[string]*compile.Pattern{}
	r.exec = c.method("exec", 1, r.execute)
	r.define("exec", r.exec)
	r.define("test", c.method("test", 1, r.test))
	r.lazyConstructor()
	r.complete()
}

// lazyConstructor makes the property constructor a getter that loads the class.
func (r *regexps) lazyConstructor() {
	get := r.c.VM.ToValue(func(goja.FunctionCall) goja.Value { return r.c.loadGlobal("RegExp") })
	set := r.c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		if o, ok := fc.This.(*goja.Object); ok {
			r.c.Must(o.DefineDataProperty("constructor", fc.Argument(0), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
		}
		return goja.Undefined()
	})
	r.c.Must(r.prototype.DefineAccessorProperty("constructor", get, set, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

func (r *regexps) define(name string, v goja.Value) {
	r.c.Must(r.prototype.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// method makes a Go function a method with a name and a length.
func (c *Execution) method(name string, length int, f func(this goja.Value, args []goja.Value) goja.Value) *goja.Object {
	o := c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return f(fc.This, fc.Arguments)
	}).ToObject(c.VM)
	c.Must(o.DefineDataProperty("name", c.VM.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	c.Must(o.DefineDataProperty("length", c.VM.ToValue(length), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	return o
}

// receiver returns a regular expression, or throws.
func (r *regexps) receiver(v goja.Value, method string) *goja.Object {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "RegExp" {
		panic(r.c.NewError("TypeError", "", "Method RegExp.prototype."+method+" called on incompatible receiver "+r.c.shown(v)))
	}
	return o
}

// shown formats a value for a message without running code.
func (c *Execution) shown(v goja.Value) string {
	switch v := v.(type) {
	case *goja.Object:
		return "[object " + v.ClassName() + "]"
	default:
		return textOf(v)
	}
}

// patternOf returns the pattern of a regular expression.
func (r *regexps) patternOf(o *goja.Object) *compile.Pattern {
	if o == r.object {
		return r.found
	}
	v, err := r.source(o)
	r.c.Must(err)
	mark := v.String()
	p := r.known[mark]
	if p == nil {
		if p = compile.PatternOf(mark); p == nil {
			p = r.made[mark]
		}
		switch {
		case p == nil:
			p = r.foreign(o, v.(goja.String))
		case p.Program == nil: // it was dropped
			p = r.compiled(p.Source, p.Flags)
			r.made[mark] = p
			fallthrough
		default:
			r.known[mark] = p
		}
	}
	r.object, r.found = o, p
	return p
}

// foreign returns the pattern of a regular expression that the engine made
// itself, for example in eval.
func (r *regexps) foreign(o *goja.Object, source goja.String) *compile.Pattern {
	flags := ""
	for _, letter := range "gimsuy" {
		v, err := r.flags[string(letter)](o)
		r.c.Must(err)
		if v.ToBoolean() {
			flags += string(letter)
		}
	}
	if source.Length() == 4 && source.String() == "(?:)" {
		return r.compiled(nil, flags)
	}
	return r.compiled(unitsOf(source), flags)
}

// compiled returns the pattern of a text with flags.
func (r *regexps) compiled(source []uint16, flags string) *compile.Pattern {
	key := flags + "/" + string(unitBytes(source))
	if p := r.known[key]; p != nil && p.Program != nil {
		return p
	}
	p, err := compile.NewPattern(source, flags)
	if err != nil {
		panic(r.c.NewError("SyntaxError", "", err.Error()))
	}
	r.remember(key, p)
	return p
}

// remember keeps a pattern by its text. If there are too many, it drops the
// compiled patterns made at run time. They are compiled again if they are used
// again.
func (r *regexps) remember(key string, p *compile.Pattern) {
	if len(r.known) >= maxKnown {
		clear(r.known)
		for mark, p := range r.made { // p may be in use
			r.made[mark] = &compile.Pattern{Source: p.Source, Flags: p.Flags, Mark: mark}
		}
		r.object, r.found = nil, nil
	}
	r.known[key] = p
}

// make compiles a regular expression at run time, and returns the pattern that
// the engine sees.
func (r *regexps) make(args []goja.Value) goja.Value {
	source, flags := native.Arg(args, 0).(goja.String), native.Arg(args, 1).String()
	if !regex.ValidFlags(flags) {
		panic(r.c.NewError("SyntaxError", "", "Invalid flags supplied to RegExp constructor '"+native.Clip(flags)+"'"))
	}
	p := r.compiled(unitsOf(source), flags)
	if p.Mark == "" {
		p.Mark = compile.RegexpMark + "-" + strconv.Itoa(len(r.made))
		r.made[p.Mark] = p
	}
	return r.c.VM.ToValue(p.Mark)
}

func unitBytes(units []uint16) []byte {
	out := make([]byte, 0, 2*len(units))
	for _, u := range units {
		out = append(out, byte(u>>8), byte(u))
	}
	return out
}

// unitsOf returns the code units of a string.
func unitsOf(s goja.String) []uint16 {
	n := s.Length()
	out := make([]uint16, n)
	if text := s.String(); len(text) == n { // ASCII
		for i := range n {
			out[i] = uint16(text[i])
		}
		return out
	}
	for i := range n {
		out[i] = s.CharAt(i)
	}
	return out
}

// subject returns the code units of the text to match, which is often the same
// as for the previous match.
func (r *regexps) subject(text goja.String) []uint16 {
	if r.text == nil || !sameText(r.text, text) {
		r.text, r.units = text, unitsOf(text)
	}
	return r.units
}

// sameText reports whether two strings are the same, without reading long ones.
// The engine keeps strings beyond ASCII as slices.
func sameText(a, b goja.String) bool {
	if a.Length() != b.Length() {
		return false
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Slice && y.Kind() == reflect.Slice {
		return x.Pointer() == y.Pointer()
	}
	return a.SameAs(b)
}

// find matches a pattern against a text from a position on.
func (r *regexps) find(p *compile.Pattern, text goja.String, from int, sticky bool) []int32 {
	spans, err := p.Program.Match(r.subject(text), from, sticky, r.c.isStopped)
	if errors.Is(err, regex.ErrTooComplex) {
		panic(r.c.NewError("RangeError", "", "Maximum call stack size exceeded"))
	}
	if spans != nil {
		r.last = match{text, spans}
	}
	return spans
}

// stringOf converts a value to a string, as the language does.
func (c *Execution) stringOf(v goja.Value) goja.String {
	switch v := v.(type) {
	case goja.String:
		return v
	case *goja.Symbol:
		panic(c.NewError("TypeError", "", "Cannot convert a Symbol value to a string"))
	case *goja.Object:
		return c.stringOf(v.ToString())
	}
	return c.VM.ToValue(v.String()).(goja.String)
}

// isStopped reports whether the run must end.
func (c *Execution) isStopped() bool { return c.stopped.Load() != nil }

// matchAt does what exec does, and returns where the match is, or nil.
func (r *regexps) matchAt(o *goja.Object, text goja.String) (*compile.Pattern, []int32) {
	index := toLength(o.Get("lastIndex"))
	p := r.patternOf(o)
	moves := p.Has("g") || p.Has("y")
	if !moves {
		index = 0
	}
	var spans []int32
	if index <= int64(text.Length()) {
		spans = r.find(p, text, int(index), p.Has("y"))
	}
	if moves {
		end := int32(0)
		if spans != nil {
			end = spans[1]
		}
		r.c.Must(o.Set("lastIndex", end))
	}
	return p, spans
}

// toLength converts a value to a length, as the language does.
func toLength(v goja.Value) int64 {
	if v == nil {
		return 0
	}
	f := v.ToFloat()
	switch {
	case math.IsNaN(f), f <= 0:
		return 0
	case f >= 1<<53-1:
		return 1<<53 - 1
	}
	return int64(f)
}

func (r *regexps) execute(this goja.Value, args []goja.Value) goja.Value {
	o := r.receiver(this, "exec")
	text := r.c.stringOf(native.Arg(args, 0))
	p, spans := r.matchAt(o, text)
	if spans == nil {
		return goja.Null()
	}
	return r.result(p, text, spans)
}

// test calls exec as it finds it, as the specification requires.
func (r *regexps) test(this goja.Value, args []goja.Value) goja.Value {
	o, ok := this.(*goja.Object)
	if !ok {
		panic(r.c.NewError("TypeError", "", "Method RegExp.prototype.test called on incompatible receiver "+r.c.shown(this)))
	}
	text := r.c.stringOf(native.Arg(args, 0))
	exec := o.Get("exec")
	if o.ClassName() == "RegExp" && exec != nil && exec.SameAs(r.exec) {
		_, spans := r.matchAt(o, text)
		return r.c.VM.ToValue(spans != nil)
	}
	return r.c.VM.ToValue(!goja.IsNull(r.callExec(o, exec, text)))
}

// callExec calls the object's method exec, or our own without such a method.
func (r *regexps) callExec(o *goja.Object, exec goja.Value, text goja.String) goja.Value {
	f, ok := goja.AssertFunction(exec)
	if !ok {
		return r.execute(o, []goja.Value{text})
	}
	v, err := f(o, text)
	r.c.Must(err)
	if _, isObject := v.(*goja.Object); !isObject && !goja.IsNull(v) {
		panic(r.c.NewError("TypeError", "", "object null is not a function"))
	}
	return v
}

// span returns a part of a text, or undefined.
func span(text goja.String, spans []int32, group int) goja.Value {
	if spans[2*group] < 0 {
		return goja.Undefined()
	}
	return text.Substring(int(spans[2*group]), int(spans[2*group+1]))
}

// result makes the array that exec returns.
func (r *regexps) result(p *compile.Pattern, text goja.String, spans []int32) goja.Value {
	items := make([]any, len(spans)/2)
	for i := range items {
		items[i] = span(text, spans, i)
	}
	out := r.c.VM.NewArray(items...)
	r.put(out, "index", r.c.VM.ToValue(spans[0]))
	r.put(out, "input", text)
	r.put(out, "groups", r.groups(p, func(i int) goja.Value { return items[i].(goja.Value) }))
	if p.Has("d") {
		r.put(out, "indices", r.indices(p, spans))
	}
	return out
}

func (r *regexps) put(o *goja.Object, name string, v goja.Value) {
	r.c.Must(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
}

// groups makes the object of the named groups, or undefined.
func (r *regexps) groups(p *compile.Pattern, value func(i int) goja.Value) goja.Value {
	var out *goja.Object
	for i, name := range p.Program.Groups() {
		if name == "" {
			continue
		}
		if out == nil {
			out = r.c.VM.CreateObject(nil)
		}
		r.put(out, name, value(i))
	}
	if out == nil {
		return goja.Undefined()
	}
	return out
}

// indices makes the array of the positions of captures.
func (r *regexps) indices(p *compile.Pattern, spans []int32) goja.Value {
	items := make([]any, len(spans)/2)
	for i := range items {
		items[i] = goja.Undefined()
		if spans[2*i] >= 0 {
			items[i] = r.c.VM.NewArray(spans[2*i], spans[2*i+1])
		}
	}
	out := r.c.VM.NewArray(items...)
	r.put(out, "groups", r.groups(p, func(i int) goja.Value { return r.c.VM.ToValue(items[i]) }))
	return out
}
