package regex

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// syntaxCharacters may always be escaped.
var syntaxCharacters = []rune(`^$\.*+?()[]{}|/`)

// controlEscapes are the letters that stand for one control character.
var controlEscapes = map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape reads a backslash and what it escapes, outside of classes.
func (p *parser) escape() node {
	c := p.peek(1)
	switch {
	case c < 0:
		p.fail(`\ at end of pattern`)
	case c == 'k' && (p.named || p.flags.full()):
		return p.namedReference()
	case c >= '1' && c <= '9':
		if n, ok := p.backReference(); ok {
			return reference{number: n}
		}
	case classEscapes[c] != nil:
		p.pos += 2
		return setNode{p.escapedClass(c)}
	case p.flags.full() && (c == 'p' || c == 'P'):
		return p.setTree(p.property(""))
	}
	return p.literal(p.character(false))
}

// backReference reads a number, if there are that many groups.
func (p *parser) backReference() (int, bool) {
	end := p.pos + 1
	n := 0
	for p.at(end) >= '0' && p.at(end) <= '9' {
		n = min(10*n+int(p.at(end)-'0'), 1<<20)
		end++
	}
	if n > p.total {
		if p.flags.full() {
			p.fail("Invalid escape")
		}
		return 0, false
	}
	p.pos = end
	return n, true
}

// namedReference reads \k and a name.
func (p *parser) namedReference() node {
	p.pos += 2
	if !p.accept("<") || !slices.Contains(p.src[p.pos:], '>') {
		p.fail("Invalid named reference")
	}
	name := p.groupName()
	p.asked = append(p.asked, name)
	return reference{name: name}
}

// escapedClass returns the characters of \d, \s, \w and their complements.
// According to Unicode, two letters beyond ASCII are equal to a letter of \w if
// case is ignored.
func (p *parser) escapedClass(c rune) []runeRange {
	if p.flags.ignoreCase && p.flags.full() && (c == 'w' || c == 'W') {
		words := unicodeFolds().close(classEscapes['w'])
		if c == 'W' {
			return complement(words)
		}
		return words
	}
	return classEscapes[c]
}

// character reads an escape that stands for one character.
func (p *parser) character(class bool) rune {
	c := p.peek(1)
	switch {
	case c < 0:
		p.fail(`\ at end of pattern`)
	case controlEscapes[c] != 0:
		p.pos += 2
		return controlEscapes[c]
	case c == 'b' && class:
		p.pos += 2
		return '\b'
	case c == 'c':
		return p.controlLetter(class)
	case c >= '0' && c <= '9':
		return p.octal(c)
	case c == 'x', c == 'u':
		return p.hexCharacter(c)
	case !p.flags.full(), slices.Contains(syntaxCharacters, c), class && c == '-', class && p.flags.sets && strings.ContainsRune("&!#%,:;<=>@`~", c):
		p.pos += 2
		return c
	}
	p.fail("Invalid escape")
	return -1
}

// controlLetter reads \c and a letter. Without the flags u and v, a backslash
// before anything else stands for itself, and in a class digits count as
// letters.
func (p *parser) controlLetter(class bool) rune {
	c := p.peek(2)
	letter := (c|0x20) >= 'a' && (c|0x20) <= 'z' && c > 0
	if letter || class && !p.flags.full() && (c >= '0' && c <= '9' || c == '_') {
		p.pos += 3
		return c % 32
	}
	if p.flags.full() {
		p.fail("Invalid Unicode escape")
	}
	p.pos++
	return '\\'
}

// octal reads \0 and the octal numbers of old code.
func (p *parser) octal(c rune) rune {
	next := p.peek(2)
	switch {
	case p.flags.full():
		if c != '0' || next >= '0' && next <= '9' {
			p.fail("Invalid decimal escape")
		}
		p.pos += 2
		return 0
	case c >= '8':
		p.pos += 2
		return c
	}
	p.pos++
	v := rune(0)
	for n := 0; n < 3 && p.peek(0) >= '0' && p.peek(0) <= '7' && 8*v+p.peek(0)-'0' <= 0o377; n++ {
		v = 8*v + p.peek(0) - '0'
		p.pos++
	}
	return v
}

// hexCharacter reads \x and \u with their digits, or only the letter if the
// digits are missing.
func (p *parser) hexCharacter(letter rune) rune {
	if r := p.hexEscape(p.flags.full()); r >= 0 {
		return r
	}
	if p.flags.full() {
		if letter == 'u' {
			p.fail("Invalid Unicode escape")
		}
		p.fail("Invalid escape")
	}
	p.pos += 2
	return letter
}

// hexEscape reads \xhh and \uhhhh and, with the flags u and v, a pair of those
// and \u{h...}. For anything else it returns -1 and reads nothing.
func (p *parser) hexEscape(full bool) rune {
	start := p.pos
	n := 4
	if p.peek(1) == 'x' {
		n = 2
	}
	p.pos += 2
	if full && n == 4 && p.peek(0) == '{' {
		end := slices.Index(p.src[p.pos:], '}')
		if end > 1 {
			if v := hexValue(p.src[p.pos+1 : p.pos+end]); v >= 0 {
				p.pos += end + 1
				return v
			}
		}
		p.pos = start
		return -1
	}
	v := rune(-1)
	if p.pos+n <= len(p.src) {
		v = hexValue(p.src[p.pos : p.pos+n])
	}
	if v < 0 {
		p.pos = start
		return -1
	}
	p.pos += n
	if full && n == 4 && utf16.IsSurrogate(v) && p.looksAt(`\u`) && p.peek(2) != '{' {
		here := p.pos
		if both := utf16.DecodeRune(v, p.hexEscape(false)); both != unicode.ReplacementChar {
			return both
		}
		p.pos = here
	}
	return v
}

// hexValue reads a hexadecimal number, or returns -1 if it is malformed or too
// large.
func hexValue(digits []rune) rune {
	v := rune(0)
	for _, c := range digits {
		d := strings.IndexRune("0123456789abcdef", unicode.ToLower(c))
		if v = v<<4 + rune(d); d < 0 || v > unicode.MaxRune {
			return -1
		}
	}
	if len(digits) == 0 {
		return -1
	}
	return v
}
