package jsonx

import "strconv"

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
