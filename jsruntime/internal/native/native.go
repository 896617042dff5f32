// Package native has the values that pass between Go and JavaScript: arguments,
// bytes, errors and JSON. The packages whose functions the prelude calls build
// on it.
package native

import (
	"encoding/base64"
	"runtime"
	"strings"

	"github.com/dop251/goja"
)

// Context has what natives need of a run: its runtime, and methods for values
// that pass between Go and JavaScript.
type Context struct {
	VM *goja.Runtime
}

// Arg returns an argument, or undefined.
func Arg(args []goja.Value, i int) goja.Value {
	if i < len(args) {
		return args[i]
	}
	return goja.Undefined()
}

// BytesOf returns the bytes of a Uint8Array, including a Buffer, or of an
// ArrayBuffer. They are shared with the code. The prelude checks the type. A
// view of a detached buffer has none.
func (c Context) BytesOf(v goja.Value) []byte {
	switch b := export(v).(type) {
	case []byte:
		return b
	case goja.ArrayBuffer:
		return b.Bytes()
	}
	panic(c.NewError("TypeError", "ERR_INVALID_ARG_TYPE", "The argument must be an instance of Buffer, TypedArray or ArrayBuffer"))
}

// export returns v.Export(), which panics for a view of a detached buffer.
func export(v goja.Value) (out any) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(runtime.Error); !ok {
				panic(r)
			}
			out = []byte(nil)
		}
	}()
	return v.Export()
}

// Buffer passes bytes to the code, as an ArrayBuffer.
func (c Context) Buffer(b []byte) goja.Value {
	return c.VM.ToValue(c.VM.NewArrayBuffer(b))
}

// NewError makes an error of one of the standard classes, with a code like
// Node's.
func (c Context) NewError(class, code, text string) *goja.Object {
	ctor := c.VM.GlobalObject().Get(class)
	if _, ok := goja.AssertConstructor(ctor); !ok {
		return c.VM.NewTypeError(text)
	}
	o, err := c.VM.New(ctor, c.VM.ToValue(text))
	c.Must(err)
	if code != "" {
		c.Set(o, "code", code)
	}
	return o
}

// Check throws an error like NewError's unless ok.
func (c Context) Check(ok bool, class, code, text string) {
	if !ok {
		panic(c.NewError(class, code, text))
	}
}

// Must panics with an error of the engine, which is then thrown.
func (c Context) Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Set sets a property of an internal object, which cannot fail.
func (c Context) Set(o *goja.Object, name string, v any) { c.Must(o.Set(name, v)) }

// maxMessage limits a message, or a name that is part of one, in bytes.
const maxMessage = 4 << 10

// Clip limits a text that goes into a message.
func Clip(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

// DecodeBase64 reads both alphabets, with or without padding, and skips other
// characters, as Node does.
func DecodeBase64(s string) []byte {
	if end := strings.IndexByte(s, '='); end >= 0 {
		s = s[:end]
	}
	clean := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c == '-':
			clean = append(clean, '+')
		case c == '_':
			clean = append(clean, '/')
		case c == '+' || c == '/' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			clean = append(clean, c)
		}
	}
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1]
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}
