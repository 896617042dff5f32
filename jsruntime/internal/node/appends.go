package node

import (
	"reflect"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// texts are the strings that a run built last by appending. Each is the content of a
// builder, which only grows. So a string that is still the whole content of its
// builder can be appended to in place, and every string that the builder gave before
// stays as it is. Appending 100,000 characters one by one takes .15 s instead of 3.8 s,
// and .13 s instead of 19 s outside ASCII.
type texts struct {
	recent [4]text
	oldest int
	add    goja.Callable // what the engine does
}

type text struct {
	builder *goja.StringBuilder
	whole   goja.String // its content
}

// shortText is the length from which a string is worth a builder.
const shortText = 512

// appended returns left + right, as JavaScript defines it.
func (c *Execution) appended(args []goja.Value) goja.Value {
	left, isString := native.Arg(args, 0).(goja.String)
	right, isPrimitive := primitiveText(native.Arg(args, 1))
	if !isString || !isPrimitive {
		return c.sum(args)
	}
	if left.Length() < shortText {
		return left.Concat(right)
	}
	return c.texts.of(left).append(right)
}

// primitiveText converts a value to a string, if that runs no code of the tenant.
func primitiveText(v goja.Value) (goja.String, bool) {
	switch v := v.(type) {
	case goja.String:
		return v, true
	case *goja.Object, *goja.Symbol:
		return nil, false
	default:
		text, ok := v.ToString().(goja.String)
		return text, ok
	}
}

// sum leaves an addition to the engine.
func (c *Execution) sum(args []goja.Value) goja.Value {
	if c.texts.add == nil {
		f, err := c.VM.RunProgram(addition)
		c.Must(err)
		c.texts.add, _ = goja.AssertFunction(f)
	}
	v, err := c.texts.add(goja.Undefined(), args...)
	if err != nil {
		panic(err)
	}
	return v
}

var addition = goja.MustCompile("vault:add", "(a, b) => a + b", true)

// of returns the builder whose content is s.
func (t *texts) of(s goja.String) *text {
	for i := range t.recent {
		if r := &t.recent[i]; r.whole != nil && sameString(r.whole, s) {
			return r
		}
	}
	r := &t.recent[t.oldest]
	t.oldest = (t.oldest + 1) % len(t.recent)
	*r = text{&goja.StringBuilder{}, s}
	r.builder.Grow(2 * s.Length())
	r.builder.WriteString(s)
	return r
}

func (t *text) append(s goja.String) goja.Value {
	t.builder.WriteString(s)
	t.whole = t.builder.String()
	return t.whole
}

// sameString reports whether two strings share their memory, or have the same
// characters of ASCII.
func sameString(a, b goja.String) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Type() != y.Type() || a.Length() != b.Length() {
		return false
	}
	switch x.Kind() {
	case reflect.String:
		return x.String() == y.String() // compares the addresses first
	case reflect.Slice:
		return x.UnsafePointer() == y.UnsafePointer()
	default: // goja has no other strings
		return false
	}
}

// wrapper runs a program, and returns the function around the code in it.
func (c *Execution) wrapper(p *compile.Program) (goja.Callable, error) {
	v, err := c.VM.RunProgram(p.Program)
	if err != nil {
		return nil, err
	}
	f, _ := goja.AssertFunction(v)
	if !p.Appends {
		return f, nil
	}
	if v, err = f(goja.Undefined(), c.native("append")); err != nil {
		return nil, err
	}
	f, _ = goja.AssertFunction(v)
	return f, nil
}
