package node

import (
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// complete installs the other methods of regular expressions.
func (r *regexps) complete() {
	r.flags = map[string]goja.Callable{}
	for letter, name := range engineFlagNames {
		r.flags[letter] = r.getter(name)
	}
	r.source = r.getter("source")
	r.accessor("source", r.sourceText)
	r.accessor("flags", r.flagText)
	r.accessor("hasIndices", func(this goja.Value) goja.Value { return r.ownFlag(this, "hasIndices", "d") })
	r.accessor("unicodeSets", func(this goja.Value) goja.Value { return r.ownFlag(this, "unicodeSets", "v") })
	r.wrap(goja.SymReplace, "[Symbol.replace]", 2, r.replace)
	r.wrap(goja.SymMatch, "[Symbol.match]", 1, r.matchAllOnce)
	r.wrap(goja.SymSplit, "[Symbol.split]", 2, r.split)
	r.wrap(goja.SymSearch, "[Symbol.search]", 1, r.search)
}

// getter returns a getter of the engine's own prototype.
func (r *regexps) getter(name string) goja.Callable {
	descriptor := r.c.VM.Get("Object").ToObject(r.c.VM).Get("getOwnPropertyDescriptor")
	f, _ := goja.AssertFunction(descriptor)
	d, err := f(goja.Undefined(), r.prototype, r.c.VM.ToValue(name))
	r.c.Must(err)
	get, _ := goja.AssertFunction(d.ToObject(r.c.VM).Get("get"))
	return get
}

func (r *regexps) accessor(name string, get func(this goja.Value) goja.Value) {
	f := r.c.method("get "+name, 0, func(this goja.Value, _ []goja.Value) goja.Value { return get(this) })
	r.c.Must(r.prototype.DefineAccessorProperty(name, f, nil, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// wrap puts a fast method in front of the engine's, which serves objects that
// code has changed.
func (r *regexps) wrap(symbol *goja.Symbol, name string, length int, fast func(o *goja.Object, p *compile.Pattern, args []goja.Value) goja.Value) {
	general, _ := goja.AssertFunction(r.prototype.GetSymbol(symbol))
	f := r.c.method(name, length, func(this goja.Value, args []goja.Value) goja.Value {
		if o, ok := this.(*goja.Object); ok && r.pristine(o) {
			return fast(o, r.patternOf(o), args)
		}
		v, err := general(this, args...)
		r.c.Must(err)
		return v
	})
	r.c.Must(r.prototype.DefineDataPropertySymbol(symbol, f, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// pristine reports whether code has not changed anything that the methods of a
// regular expression read.
func (r *regexps) pristine(o *goja.Object) bool {
	if o.ClassName() != "RegExp" || o.Prototype() != r.prototype || len(o.GetOwnPropertyNames()) != 1 {
		return false
	}
	exec := r.prototype.Get("exec")
	return exec != nil && exec.SameAs(r.exec) && len(o.Symbols()) == 0
}

// sourceText returns the text of a pattern, in a form that could be written
// between slashes.
func (r *regexps) sourceText(this goja.Value) goja.Value {
	if o, ok := this.(*goja.Object); !ok || !o.SameAs(r.prototype) {
		if source := r.patternOf(r.receiver(this, "source")).Source; len(source) > 0 {
			return escapeSource(source)
		}
	}
	return r.c.VM.ToValue("(?:)")
}

// escapeSource escapes slashes and line terminators.
func escapeSource(source []uint16) goja.Value {
	var out []uint16
	inClass, escaped := false, false
	for _, u := range source {
		name, ends := lineEnds[u]
		if !escaped && (ends || u == '/' && !inClass) {
			out = append(out, '\\')
		}
		if ends {
			out = append(out, utf16.Encode([]rune(name))...)
		} else {
			out = append(out, u)
		}
		if !escaped && (u == '[' || u == ']') {
			inClass = u == '['
		}
		escaped = !escaped && u == '\\'
	}
	return goja.StringFromUTF16(out)
}

// lineEnds are written as escapes in the source of a regular expression.
var lineEnds = map[uint16]string{'\n': "n", '\r': "r", 0x2028: "u2028", 0x2029: "u2029"}

// flagText joins the letters of the flags, as code sees them.
func (r *regexps) flagText(this goja.Value) goja.Value {
	o, ok := this.(*goja.Object)
	if !ok {
		panic(r.c.NewError("TypeError", "", "RegExp.prototype.flags getter called on non-object "+r.c.shown(this)))
	}
	var b strings.Builder
	for _, f := range [...][2]string{
		{"hasIndices", "d"}, {"global", "g"}, {"ignoreCase", "i"}, {"multiline", "m"},
		{"dotAll", "s"}, {"unicode", "u"}, {"unicodeSets", "v"}, {"sticky", "y"},
	} {
		if v := o.Get(f[0]); v != nil && v.ToBoolean() {
			b.WriteString(f[1])
		}
	}
	return r.c.VM.ToValue(b.String())
}

// ownFlag returns a flag that the engine does not know.
func (r *regexps) ownFlag(this goja.Value, name, letter string) goja.Value {
	o, ok := this.(*goja.Object)
	switch {
	case ok && o.SameAs(r.prototype):
		return goja.Undefined()
	case !ok || o.ClassName() != "RegExp":
		panic(r.c.NewError("TypeError", "", "RegExp.prototype."+name+" getter called on non-RegExp object"))
	}
	return r.c.VM.ToValue(r.patternOf(o).Has(letter))
}

// each calls visit for every match of a global pattern, from the beginning.
func (r *regexps) each(o *goja.Object, p *compile.Pattern, text goja.String, visit func(spans []int32)) {
	r.c.Must(o.Set("lastIndex", 0))
	sticky := p.Has("y")
	for at := 0; at <= text.Length() && !r.c.isStopped(); {
		spans := r.find(p, text, at, sticky)
		if spans == nil {
			break
		}
		visit(spans)
		at = int(spans[1])
		if spans[0] == spans[1] {
			at = r.advance(p, text, at)
		}
	}
}

// advance returns the position after a character.
func (r *regexps) advance(p *compile.Pattern, text goja.String, at int) int {
	units := r.subject(text)
	if p.Program.Unicode() && at+1 < len(units) && utf16.DecodeRune(rune(units[at]), rune(units[at+1])) != '\ufffd' {
		return at + 2
	}
	return at + 1
}

// matchAllOnce is the method Symbol.match.
func (r *regexps) matchAllOnce(o *goja.Object, p *compile.Pattern, args []goja.Value) goja.Value {
	text := r.c.stringOf(native.Arg(args, 0))
	if !p.Has("g") {
		return r.execute(o, []goja.Value{text})
	}
	var items []any
	r.each(o, p, text, func(spans []int32) { items = append(items, span(text, spans, 0)) })
	if items == nil {
		return goja.Null()
	}
	return r.c.VM.NewArray(items...)
}

// search is the method Symbol.search.
func (r *regexps) search(_ *goja.Object, p *compile.Pattern, args []goja.Value) goja.Value {
	text := r.c.stringOf(native.Arg(args, 0))
	spans := r.find(p, text, 0, p.Has("y"))
	if spans == nil {
		return r.c.VM.ToValue(-1)
	}
	return r.c.VM.ToValue(spans[0])
}

// replace is the method Symbol.replace.
func (r *regexps) replace(o *goja.Object, p *compile.Pattern, args []goja.Value) goja.Value {
	text := r.c.stringOf(native.Arg(args, 0))
	var template goja.String
	call, isFunction := goja.AssertFunction(native.Arg(args, 1))
	if !isFunction {
		template = r.c.stringOf(native.Arg(args, 1))
	}
	var found [][]int32
	if p.Has("g") {
		r.each(o, p, text, func(spans []int32) { found = append(found, spans) })
	} else if _, spans := r.matchAt(o, text); spans != nil {
		found = append(found, spans)
	}
	if found == nil {
		return text
	}
	var b goja.StringBuilder
	done := 0
	for _, spans := range found {
		if r.c.isStopped() {
			break
		}
		b.WriteSubstring(text, done, int(spans[0]))
		done = int(spans[1])
		if isFunction {
			b.WriteString(r.replacement(p, call, text, spans))
		} else {
			r.substitute(&b, p, template, text, spans)
		}
	}
	b.WriteSubstring(text, done, text.Length())
	return b.String()
}

// replacement calls a function for the text that replaces a match.
func (r *regexps) replacement(p *compile.Pattern, call goja.Callable, text goja.String, spans []int32) goja.String {
	args := make([]goja.Value, 0, len(spans)/2+3)
	for i := range len(spans) / 2 {
		args = append(args, span(text, spans, i))
	}
	groups := r.groups(p, func(i int) goja.Value { return args[i] })
	args = append(args, r.c.VM.ToValue(spans[0]), text)
	if !goja.IsUndefined(groups) {
		args = append(args, groups)
	}
	v, err := call(goja.Undefined(), args...)
	r.c.Must(err)
	return r.c.stringOf(v)
}

// substitute writes a template with its references filled in.
func (r *regexps) substitute(b *goja.StringBuilder, p *compile.Pattern, template, text goja.String, spans []int32) {
	n := template.Length()
	done := 0
	for i := 0; i+1 < n; i++ {
		if template.CharAt(i) != '$' {
			continue
		}
		width, from, start, end := r.substitution(p, template, i, text, spans)
		if width == 0 {
			continue
		}
		b.WriteSubstring(template, done, i)
		b.WriteSubstring(from, start, end)
		i += width - 1
		done = i + 1
	}
	b.WriteSubstring(template, done, n)
}

// substitution returns the length of a reference in a template, 0 for none, and
// the part of a string to write for it.
func (r *regexps) substitution(p *compile.Pattern, template goja.String, at int, text goja.String, spans []int32) (width int, from goja.String, start, end int) {
	switch c := template.CharAt(at + 1); {
	case c == '$':
		return 2, template, at, at + 1
	case c == '&':
		return 2, text, int(spans[0]), int(spans[1])
	case c == '`':
		return 2, text, 0, int(spans[0])
	case c == '\'':
		return 2, text, int(spans[1]), text.Length()
	case c >= '0' && c <= '9':
		if group, width := groupNumber(template, at+1, len(spans)/2); group > 0 {
			return 1 + width, text, max(0, int(spans[2*group])), max(0, int(spans[2*group+1]))
		}
	case c == '<':
		return r.namedSubstitution(p, template, at, text, spans)
	}
	return 0, nil, 0, 0
}

// groupNumber reads one or two digits that are the number of a group.
func groupNumber(template goja.String, at, groups int) (number, width int) {
	digit := func(i int) int {
		if i >= template.Length() || template.CharAt(i) < '0' || template.CharAt(i) > '9' {
			return -1
		}
		return int(template.CharAt(i) - '0')
	}
	one, two := digit(at), digit(at+1)
	if two >= 0 && 10*one+two > 0 && 10*one+two < groups {
		return 10*one + two, 2
	}
	if one > 0 && one < groups {
		return one, 1
	}
	return 0, 0
}

// namedSubstitution reads $<name>. A name that no group has is replaced with
// nothing.
func (r *regexps) namedSubstitution(p *compile.Pattern, template goja.String, at int, text goja.String, spans []int32) (width int, from goja.String, start, end int) {
	names := p.Program.Groups()
	last := at + 2
	for last < template.Length() && template.CharAt(last) != '>' {
		last++
	}
	if last == template.Length() || strings.Join(names, "") == "" {
		return 0, nil, 0, 0
	}
	i := slices.Index(names, template.Substring(at+2, last).String())
	if i <= 0 || spans[2*i] < 0 { // the whole match has no name
		return last + 1 - at, text, 0, 0
	}
	return last + 1 - at, text, int(spans[2*i]), int(spans[2*i+1])
}

// split is the method Symbol.split.
func (r *regexps) split(_ *goja.Object, p *compile.Pattern, args []goja.Value) goja.Value {
	text := r.c.stringOf(native.Arg(args, 0))
	limit := uint32(1<<32 - 1)
	if v := native.Arg(args, 1); !goja.IsUndefined(v) {
		limit = uint32(v.ToInteger())
	}
	var items []any
	full := func(v goja.Value) bool {
		items = append(items, v)
		return uint32(len(items)) >= limit
	}
	n := text.Length()
	switch {
	case limit == 0:
		return r.c.VM.NewArray()
	case n == 0:
		if r.find(p, text, 0, true) == nil {
			items = append(items, text)
		}
		return r.c.VM.NewArray(items...)
	}
	begin := 0
	for at := 0; at < n && !r.c.isStopped(); {
		spans := r.find(p, text, at, p.Has("y"))
		if spans == nil && !p.Has("y") {
			break
		}
		if spans == nil || int(spans[0]) >= n {
			at = r.advance(p, text, at)
			continue
		}
		if int(spans[1]) == begin || spans[1] == spans[0] && int(spans[0]) == begin {
			at = r.advance(p, text, max(at, int(spans[0])))
			continue
		}
		if full(text.Substring(begin, int(spans[0]))) {
			return r.c.VM.NewArray(items...)
		}
		for i := 1; i < len(spans)/2; i++ {
			if full(span(text, spans, i)) {
				return r.c.VM.NewArray(items...)
			}
		}
		begin = int(spans[1])
		at = begin
	}
	items = append(items, text.Substring(begin, n))
	return r.c.VM.NewArray(items...)
}

// regexpNatives serve the class RegExp of the prelude.
var regexpNatives = map[string]nativeFunc{
	"regexp.make": func(c *Execution, args []goja.Value) goja.Value { return c.regexps.make(args) },
	"regexp.source": func(c *Execution, args []goja.Value) goja.Value {
		r := &c.regexps
		p := r.patternOf(r.receiver(native.Arg(args, 0), "source"))
		return c.VM.NewArray(goja.StringFromUTF16(p.Source), p.Flags)
	},
	"regexp.native": func(c *Execution, _ []goja.Value) goja.Value { return c.regexps.class },
	"regexp.forget": func(c *Execution, _ []goja.Value) goja.Value {
		c.regexps.object, c.regexps.found = nil, nil
		return goja.Undefined()
	},
	"regexp.last": func(c *Execution, args []goja.Value) goja.Value {
		return c.regexps.lastPart(native.Arg(args, 0).String())
	},
}

// lastPart returns a part of the last match, for RegExp.$1 and similar
// properties.
func (r *regexps) lastPart(name string) goja.Value {
	empty := r.c.VM.ToValue("")
	text, spans := r.last.text, r.last.spans
	if spans == nil {
		return empty
	}
	part := func(group int) goja.Value {
		if group >= len(spans)/2 || spans[2*group] < 0 {
			return empty
		}
		return span(text, spans, group)
	}
	switch name {
	case "input":
		return text
	case "lastMatch":
		return part(0)
	case "lastParen":
		if len(spans) == 2 {
			return empty
		}
		return part(len(spans)/2 - 1)
	case "leftContext":
		return text.Substring(0, int(spans[0]))
	case "rightContext":
		return text.Substring(int(spans[1]), text.Length())
	}
	return part(int(name[0] - '0'))
}
