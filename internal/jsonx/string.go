package jsonx

import (
	"strconv"
	"unicode/utf8"
)

// str reads the string at pos, which must be its opening quote.
func (p *parser) str() (string, *Error) {
	start := p.pos + 1
	for i := start; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '"':
			p.pos = i + 1
			return p.src[start:i], nil
		case c == '\\':
			p.pos = i
			return p.escaped(start)
		case c < ' ':
			p.pos = i
			return "", p.fail("is not valid JSON: a control character in a string must be escaped")
		}
	}
	p.pos = len(p.src)
	return "", p.fail("is not valid JSON: a string has no closing quote")
}

// escaped reads the rest of a string whose first escape is at pos.
func (p *parser) escaped(start int) (string, *Error) {
	dst := append(make([]byte, 0, p.pos-start+16), p.src[start:p.pos]...)
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return string(dst), nil
		case c == '\\':
			r, ok := p.escape()
			if !ok {
				return "", p.fail("is not valid JSON: unknown escape in a string")
			}
			dst = AppendRune(dst, r)
		case c < ' ':
			return "", p.fail("is not valid JSON: a control character in a string must be escaped")
		default:
			dst = append(dst, c)
			p.pos++
		}
	}
	return "", p.fail("is not valid JSON: a string has no closing quote")
}

var shortEscapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape reads the escape at pos, joining a surrogate pair.
func (p *parser) escape() (rune, bool) {
	if p.pos+1 >= len(p.src) {
		return 0, false
	}
	c := p.src[p.pos+1]
	if short := shortEscapes[c]; short != 0 {
		p.pos += 2
		return rune(short), true
	}
	r, ok := hexEscape(p.src[p.pos:])
	if !ok {
		return 0, false
	}
	p.pos += 6
	if r >= surrogateMin && r < surrogateLow {
		low, ok := hexEscape(p.src[p.pos:])
		if ok && low >= surrogateLow && low <= surrogateMax {
			p.pos += 6
			return joinSurrogates(r, low), true
		}
	}
	return r, true
}

// hexEscape reads the \uXXXX at the start of s.
func hexEscape(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// A JSON string may contain half of a surrogate pair, which UTF-8 cannot
// encode. Strings are therefore kept in WTF-8: UTF-8, plus lone surrogates in
// the three bytes that the same scheme would give them. Pairs of surrogates are
// always joined into one character.

const (
	surrogateMin = 0xD800
	surrogateLow = 0xDC00
	surrogateMax = 0xDFFF
)

// IsSurrogate reports whether r is half of a surrogate pair.
func IsSurrogate(r rune) bool { return r >= surrogateMin && r <= surrogateMax }

// DecodeRune returns the first character of s and its width in bytes, like
// [utf8.DecodeRuneInString], but also decodes lone surrogates.
func DecodeRune(s string) (r rune, width int) {
	r, width = utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && width == 1 && isEncodedSurrogate(s) {
		return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, width
}

func isEncodedSurrogate(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2]&0xC0 == 0x80
}

// AppendRune appends the encoding of r, like [utf8.AppendRune], but also
// encodes lone surrogates.
func AppendRune(dst []byte, r rune) []byte {
	if IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
	}
	return utf8.AppendRune(dst, r)
}

// validWTF8 returns s with adjacent surrogates joined and every other invalid
// byte replaced by U+FFFD.
func validWTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	dst := make([]byte, 0, len(s)+8)
	for len(s) > 0 {
		r, width := DecodeRune(s)
		s = s[width:]
		if r >= surrogateMin && r < surrogateLow {
			if low, w := DecodeRune(s); low >= surrogateLow && low <= surrogateMax {
				r = joinSurrogates(r, low)
				s = s[w:]
			}
		}
		dst = AppendRune(dst, r)
	}
	return string(dst)
}

func joinSurrogates(high, low rune) rune {
	return 0x10000 + (high-surrogateMin)<<10 + (low - surrogateLow)
}
