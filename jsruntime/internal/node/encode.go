package node

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// encoder writes a value like JSON.stringify. Unlike goja's own, it stops as
// soon as the text is too long or the run is over, so that a small value with a
// huge text costs little.
type encoder struct {
	c     *Execution
	out   []byte
	stack []*goja.Object
	nodes int
	fail  *script.Error
}

// encode returns the JSON text of a result; undefined becomes null. It must run
// within a macrotask, because toJSON and getters are code of the tenant.
func (c *Execution) encode(v goja.Value) (json.RawMessage, *script.Error) {
	e := &encoder{c: c}
	if v == nil {
		v = goja.Undefined()
	}
	var written bool
	ex := c.VM.Try(func() { written = e.value("", v) })
	switch {
	case c.stopped.Load() != nil:
		return nil, StopError(*c.stopped.Load())
	case ex != nil:
		return nil, c.failure(ex)
	case e.fail != nil:
		return nil, e.fail
	case len(e.out) > c.limits.MaxOutput: // escaping made its last text too long
		return nil, StopError(script.Output)
	case !written:
		return json.RawMessage("null"), nil
	}
	return e.out, nil
}

// full reports whether encoding must end.
func (e *encoder) full() bool {
	e.nodes++
	switch {
	case e.fail != nil:
		return true
	case len(e.out) > e.c.limits.MaxOutput:
		e.fail = StopError(script.Output)
	case e.nodes%256 == 0 && e.c.stopped.Load() != nil:
		e.fail = StopError(*e.c.stopped.Load())
	}
	return e.fail != nil
}

// value writes v and reports whether there was anything to write.
func (e *encoder) value(key string, v goja.Value) bool {
	if e.full() {
		return true
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return e.primitive(v)
	}
	if f, ok := goja.AssertFunction(o.Get("toJSON")); ok {
		res, err := f(o, e.c.VM.ToValue(key))
		e.c.Must(err)
		if o, ok = res.(*goja.Object); !ok {
			return e.primitive(res)
		}
	}
	switch o.ClassName() {
	case "Function":
		return false
	case "Number":
		return e.primitive(o.ToNumber())
	case "String":
		return e.primitive(o.ToString())
	case "Boolean":
		return e.primitive(e.c.VM.ToValue(o.Export()))
	}
	if _, ok := goja.AssertFunction(o); ok {
		return false
	}
	e.nested(o)
	return true
}

func (e *encoder) primitive(v goja.Value) bool {
	switch {
	case v == nil || goja.IsUndefined(v):
		return false
	case goja.IsNull(v):
		e.out = append(e.out, "null"...)
		return true
	}
	switch x := v.(type) {
	case goja.String:
		e.text(x)
		return true
	case *goja.Symbol:
		return false
	}
	switch x := v.Export().(type) {
	case bool:
		e.out = strconv.AppendBool(e.out, x)
	case int64:
		e.out = strconv.AppendInt(e.out, x, 10)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			e.out = append(e.out, "null"...)
		} else {
			e.out = append(e.out, v.String()...)
		}
	default:
		panic(e.c.VM.NewTypeError("Do not know how to serialize a BigInt"))
	}
	return true
}

// nested writes an array or an object.
func (e *encoder) nested(o *goja.Object) {
	if slices.Contains(e.stack, o) {
		panic(e.c.VM.NewTypeError("Converting circular structure to JSON"))
	}
	if len(e.stack) > native.MaxDepth {
		e.fail = runtimeError(script.Output, "the result is nested too deeply")
		return
	}
	e.stack = append(e.stack, o)
	if o.ClassName() == "Array" {
		e.array(o)
	} else {
		e.object(o)
	}
	e.stack = e.stack[:len(e.stack)-1]
}

func (e *encoder) array(o *goja.Object) {
	n := o.Get("length").ToInteger()
	e.out = append(e.out, '[')
	for i := int64(0); i < n && e.fail == nil; i++ {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		key := strconv.FormatInt(i, 10)
		if !e.value(key, o.Get(key)) {
			e.out = append(e.out, "null"...)
		}
	}
	e.out = append(e.out, ']')
}

func (e *encoder) object(o *goja.Object) {
	e.out = append(e.out, '{')
	first := true
	for _, key := range o.Keys() {
		before := len(e.out)
		if !first {
			e.out = append(e.out, ',')
		}
		e.out = jsonx.AppendString(e.out, key)
		e.out = append(e.out, ':')
		if !e.value(key, o.Get(key)) {
			e.out = e.out[:before]
			continue
		}
		if e.fail != nil {
			return
		}
		first = false
	}
	e.out = append(e.out, '}')
}

// text writes a string. It writes a lone surrogate as an escape, because it has
// no UTF-8 encoding.
func (e *encoder) text(s goja.String) {
	if s.Length() > e.c.limits.MaxOutput {
		e.fail = StopError(script.Output)
		return
	}
	e.out = jsonx.AppendString(e.out, surrogateText(s))
}
