package node

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dop251/goja"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// decodeStandard decodes bytes in an encoding of the WHATWG standard. It takes
// bytes, encoding, whether more will follow, whether invalid bytes are an
// error, and the state of an encoding that has states. It returns the text, how
// many bytes it used and the next state, or undefined.
func (c *Execution) decodeStandard(args []goja.Value) goja.Value {
	b, label := c.BytesOf(native.Arg(args, 0)), native.Arg(args, 1).String()
	more, fatal := native.Arg(args, 2).ToBoolean(), native.Arg(args, 3).ToBoolean()
	used := len(b)
	switch label {
	case "utf-8":
		if more {
			used -= incompleteUTF8(b)
		}
		if fatal && !utf8.Valid(b[:used]) {
			return goja.Undefined()
		}
		return c.VM.NewArray(decodeUTF8(b[:used]), used)
	case "utf-16le", "utf-16be":
		return c.decodeUTF16(b, label == "utf-16be", more, fatal)
	}
	return c.decodeLegacy(b, label, more, fatal, int(native.Arg(args, 4).ToInteger()))
}

// incompleteUTF8 returns how many bytes at the end are the start of a
// character.
func incompleteUTF8(b []byte) int {
	for back := 1; back <= min(3, len(b)); back++ {
		tail := b[len(b)-back:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) && brokenPrefix(tail) == back {
				return back
			}
			return 0
		}
	}
	return 0
}

// decodeUTF16 replaces lone surrogates with U+FFFD.
func (c *Execution) decodeUTF16(b []byte, big, more, fatal bool) goja.Value {
	units := make([]uint16, len(b)/2)
	for i := range units {
		lo, hi := b[2*i], b[2*i+1]
		if big {
			lo, hi = hi, lo
		}
		units[i] = uint16(lo) | uint16(hi)<<8
	}
	used := 2 * len(units)
	if n := len(units); more && n > 0 && units[n-1]&0xfc00 == 0xd800 {
		units, used = units[:n-1], used-2
	}
	odd := !more && len(b)%2 == 1
	runes := utf16.Decode(units)
	if fatal && (odd || !slices.Equal(utf16.Encode(runes), units)) {
		return goja.Undefined()
	}
	text := string(runes)
	if odd && (len(units) == 0 || units[len(units)-1]&0xfc00 != 0xd800) { // half a pair and half a unit count as one error
		text += "\ufffd"
	}
	if !more {
		used = len(b)
	}
	return c.VM.NewArray(text, used)
}

// decodeLegacy decodes encodings other than Unicode.
func (c *Execution) decodeLegacy(b []byte, label string, more, fatal bool, state int) goja.Value {
	enc, err := htmlindex.Get(label)
	if err != nil {
		return goja.Undefined()
	}
	if table := singleByte(enc, label); table != nil {
		text, ok := decodeBytes(b, table, fatal)
		if !ok {
			return goja.Undefined()
		}
		return c.VM.NewArray(text, len(b))
	}
	if label == "iso-2022-jp" {
		text, used, next, errs := decodeJP(b, state, more)
		if fatal && errs > 0 {
			return goja.Undefined()
		}
		return c.VM.NewArray(text, used, next)
	}
	if m, ok := multibytes[label]; ok {
		if text, used, ok := m.decode(b, more, fatal); ok {
			return c.VM.NewArray(text, used)
		}
	}
	return goja.Undefined()
}

// singleByte returns the table of a single-byte encoding, or nil.
func singleByte(enc encoding.Encoding, label string) *charmap.Charmap {
	switch label {
	case "iso-8859-6-e", "iso-8859-6-i":
		return charmap.ISO8859_6
	case "iso-8859-8-e", "iso-8859-8-i":
		return charmap.ISO8859_8
	}
	table, _ := enc.(*charmap.Charmap)
	return table
}

// decodeBytes decodes bytes with a table. According to the standard, bytes from
// 0x80 to 0x9F that an encoding leaves out are control characters.
func decodeBytes(b []byte, table *charmap.Charmap, fatal bool) (string, bool) {
	out := make([]rune, len(b))
	for i, c := range b {
		r := table.DecodeByte(c)
		if r == utf8.RuneError && c >= 0x80 && c <= 0x9f {
			r = rune(c)
		}
		if r == utf8.RuneError && fatal {
			return "", false
		}
		out[i] = r
	}
	return string(out), true
}

// encodeInto takes text and the room for it in bytes. It returns the bytes of
// the characters that fit, and their number of UTF-16 code units.
func (c *Execution) encodeInto(args []goja.Value) goja.Value {
	text, room := native.Arg(args, 0).String(), int(native.Arg(args, 1).ToInteger())
	read, n := 0, 0
	for i, r := range text {
		size := utf8.RuneLen(r)
		if i+size > room {
			break
		}
		n = i + size
		read += utf16.RuneLen(r)
	}
	return c.VM.NewArray(c.Buffer([]byte(text[:n])), read)
}
