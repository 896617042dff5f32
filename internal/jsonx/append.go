package jsonx

// Append appends v to dst as compact JSON, with members in order, numbers as
// they were written, and only the escapes that JSON requires. An absent value
// is written as null.
func (v Value) Append(dst []byte) []byte {
	switch v.Kind() {
	case Bool:
		if v.Bool() {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case Number:
		return append(dst, v.text()...)
	case String:
		return AppendString(dst, v.text())
	case Array:
		return appendArray(dst, v.elems())
	case Object:
		return appendObject(dst, v.members())
	default:
		return append(dst, "null"...)
	}
}

// JSON returns v as compact JSON text.
func (v Value) JSON() []byte { return v.Append(make([]byte, 0, v.Size())) }

// Size returns the length of v as JSON, without escapes in strings.
func (v Value) Size() int {
	switch v.Kind() {
	case Number:
		return len(v.text())
	case String:
		return len(v.text()) + len(`""`)
	case Array, Object:
		size := len("[]") + v.Len() // one comma too many
		for _, e := range v.Elems() {
			size += e.Size()
		}
		for _, m := range v.Members() {
			size += len(m.Name) + len(`"":`) + m.Value.Size()
		}
		return size
	default:
		return len("false")
	}
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) { return v.JSON(), nil }

// UnmarshalJSON implements json.Unmarshaler, with the default [Limits].
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data, Limits{})
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

func appendArray(dst []byte, elems []Value) []byte {
	dst = append(dst, '[')
	for i, e := range elems {
		breathe(i)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.Append(dst)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, members []Member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, m.Name)
		dst = append(dst, ':')
		dst = m.Value.Append(dst)
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// escapeClass tells AppendString what to do with a byte: 0 copies it, 'u'
// writes a \u00XX escape, 's' checks for an encoded surrogate, and anything
// else is the letter of a short escape.
var escapeClass = func() (class [256]byte) {
	for c := range ' ' {
		class[c] = 'u'
	}
	class['\b'], class['\f'], class['\n'], class['\r'], class['\t'] = 'b', 'f', 'n', 'r', 't'
	class['"'], class['\\'] = '"', '\\'
	class[0xED] = 's' // the first byte of every encoded surrogate
	return class
}()

// AppendString appends s, encoded in WTF-8, to dst as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		class := escapeClass[s[i]]
		if class == 0 || (class == 's' && !isEncodedSurrogate(s[i:])) {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch class {
		case 'u':
			dst = appendHexEscape(dst, rune(s[i]))
		case 's':
			r, width := DecodeRune(s[i:])
			dst = appendHexEscape(dst, r)
			i += width - 1
		default:
			dst = append(dst, '\\', class)
		}
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendHexEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u',
		hexDigits[r>>12&0xF], hexDigits[r>>8&0xF], hexDigits[r>>4&0xF], hexDigits[r&0xF])
}
