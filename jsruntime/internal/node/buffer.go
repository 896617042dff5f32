package node

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// bufferNatives convert between text and bytes, for Buffer, TextEncoder and
// similar classes.
var bufferNatives = map[string]nativeFunc{
	"buffer.encode": func(c *Execution, args []goja.Value) goja.Value {
		return c.Buffer(encodeText(native.Arg(args, 0), native.Arg(args, 1).String()))
	},
	"buffer.decode": func(c *Execution, args []goja.Value) goja.Value {
		return c.decodeText(c.BytesOf(native.Arg(args, 0)), native.Arg(args, 1).String())
	},
	// twin returns another buffer with the same bytes.
	"buffer.twin": func(c *Execution, args []goja.Value) goja.Value { return c.Buffer(c.arrayBuffer(args).Bytes()) },
	"buffer.detach": func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(c.arrayBuffer(args).Detach())
	},
	"buffer.detached": func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(c.arrayBuffer(args).Detached())
	},
	"buffer.compare":     onBytes(bytes.Compare),
	"buffer.indexOf":     onBytes(bytes.Index),
	"buffer.lastIndexOf": onBytes(bytes.LastIndex),
	// Go strings have no lone surrogates, so these become U+FFFD.
	"text.wellFormed": func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(native.Arg(args, 0).String())
	},
	"text.decode":     (*Execution).decodeStandard,
	"text.encodeInto": (*Execution).encodeInto,
	"text.label":      (*Execution).encodingLabel,
}

// onBytes makes a native from a function on two byte slices.
func onBytes(f func(a, b []byte) int) nativeFunc {
	return func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(f(c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1))))
	}
}

// encodeText returns the bytes of a string in one of Node's encodings.
func encodeText(v goja.Value, encoding string) []byte {
	s, ok := v.ToString().(goja.String)
	if !ok {
		return nil
	}
	switch encoding {
	case "hex":
		out, _ := hex.DecodeString(s.String()) // up to the first invalid byte
		return out
	case "base64", "base64url":
		return native.DecodeBase64(s.String())
	case "latin1", "binary", "ascii":
		out := make([]byte, s.Length())
		for i := range out {
			out[i] = byte(s.CharAt(i))
		}
		return out
	case "utf16le", "ucs2", "utf-16le", "ucs-2":
		out := make([]byte, 0, 2*s.Length())
		for i := range s.Length() {
			u := s.CharAt(i)
			out = append(out, byte(u), byte(u>>8))
		}
		return out
	}
	return []byte(s.String())
}

// decodeText returns the string for bytes in one of Node's encodings.
func (c *Execution) decodeText(b []byte, encoding string) goja.Value {
	switch encoding {
	case "hex":
		return c.VM.ToValue(hex.EncodeToString(b))
	case "base64":
		return c.VM.ToValue(base64.StdEncoding.EncodeToString(b))
	case "base64url":
		return c.VM.ToValue(base64.RawURLEncoding.EncodeToString(b))
	case "latin1", "binary", "ascii":
		mask := byte(0xff)
		if encoding == "ascii" {
			mask = 0x7f
		}
		units := make([]uint16, len(b))
		for i, x := range b {
			units[i] = uint16(x & mask)
		}
		return goja.StringFromUTF16(units)
	case "utf16le", "ucs2", "utf-16le", "ucs-2":
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
		}
		return goja.StringFromUTF16(units)
	}
	return c.VM.ToValue(decodeUTF8(b))
}

// decodeUTF8 replaces invalid UTF-8 according to the WHATWG standard: one
// replacement for each maximal part of a character.
func decodeUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size <= 1 {
			size = brokenPrefix(b)
		}
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String()
}

// brokenPrefix returns how many bytes of a broken character belong together.
func brokenPrefix(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}

// encodingLabel returns the standard name for a label of an encoding, or
// undefined.
func (c *Execution) encodingLabel(args []goja.Value) goja.Value {
	label := native.Arg(args, 0).String()
	if strings.TrimSpace(label) != label {
		return goja.Undefined() // the standard knows fewer spaces, and the prelude has removed those
	}
	enc, err := htmlindex.Get(label)
	if err != nil {
		return goja.Undefined()
	}
	name, err := htmlindex.Name(enc)
	if err != nil || name == "replacement" {
		return goja.Undefined()
	}
	return c.VM.ToValue(name)
}

// arrayBuffer returns the first argument, which must be an ArrayBuffer.
func (c *Execution) arrayBuffer(args []goja.Value) goja.ArrayBuffer {
	b, ok := native.Arg(args, 0).Export().(goja.ArrayBuffer)
	if !ok {
		panic(c.VM.NewTypeError("the argument must be an ArrayBuffer"))
	}
	return b
}
