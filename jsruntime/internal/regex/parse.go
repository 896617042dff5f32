package jsruntime

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// patternError says what is wrong with a regular expression, in Node's words.
type patternError string

// pattern reads a regular expression by the grammar of the language, that of old
// code (Annex B) unless it has the flag u or v, and writes it for the engine.
type pattern struct {
	src           []rune
	pos           int
	unicode, sets bool
	fold          bool
	names         map[string]bool
	groups        int
	highest       int      // group that is referred to by number
	references    []string // names that are referred to; empty for \k without one
	out           strings.Builder
	changed       bool // the engine needs another text
}

// maxGroups bounds groups within groups.
const maxGroups = 500

func (p *pattern) fail(text string) { panic(patternError(text)) }

// peek returns the character n places ahead, or -1 at the end.
func (p *pattern) peek(n int) rune {
	if p.pos+n < len(p.src) {
		return p.src[p.pos+n]
	}
	return -1
}

// looksAt tells whether a text follows.
func (p *pattern) looksAt(text string) bool {
	for i, c := range []rune(text) {
		if p.peek(i) != c {
			return false
		}
	}
	return true
}

// keep copies characters as they are.
func (p *pattern) keep(n int) {
	for range n {
		p.out.WriteRune(p.src[p.pos])
		p.pos++
	}
}

// accept copies a text if it follows.
func (p *pattern) accept(text string) bool {
	ok := p.looksAt(text)
	if ok {
		p.keep(len(text))
	}
	return ok
}

// disjunction reads up to the end, or to a parenthesis that it did not open.
func (p *pattern) disjunction(depth int) {
	if depth > maxGroups {
		p.fail("Regular expression too large")
	}
	for p.pos < len(p.src) && p.peek(0) != ')' {
		if !p.accept("|") {
			p.term(depth)
		}
	}
}

// term reads an assertion, or an atom with its quantifier.
func (p *pattern) term(depth int) {
	switch c := p.peek(0); {
	case c == '^', c == '$', p.looksAt(`\b`), p.looksAt(`\B`):
		p.keep(1)
		if c == '\\' {
			p.keep(1)
		}
		return
	case c == '(':
		if !p.group(depth) {
			return
		}
	case c == '[':
		p.class()
	case c == '\\':
		p.escape()
	case strings.ContainsRune("*+?", c), p.unicode && c == '{', c == '{' && p.quantifierLength() > 0:
		p.fail("Nothing to repeat")
	case p.unicode && (c == '}' || c == ']'):
		p.fail("Lone quantifier brackets")
	default:
		p.keep(1)
	}
	p.quantifier()
}

// group reads a group, and tells whether a quantifier may follow it.
func (p *pattern) group(depth int) (quantifiable bool) {
	quantifiable = true
	switch {
	case p.accept("(?<="), p.accept("(?<!"):
		quantifiable = false
	case p.accept("(?="), p.accept("(?!"):
		quantifiable = !p.unicode
	case p.accept("(?:"):
	case p.looksAt("(?<"):
		p.groups++
		p.keep(3)
		name := p.groupName()
		if p.names[name] {
			p.fail("Duplicate capture group name")
		}
		p.names[name] = true
		p.out.WriteString(name + ">")
	case p.looksAt("(?"):
		p.fail("Invalid group")
	default:
		p.groups++
		p.keep(1)
	}
	p.disjunction(depth + 1)
	if !p.accept(")") {
		p.fail("Unterminated group")
	}
	return quantifiable
}

// groupName reads an identifier and the bracket after it.
func (p *pattern) groupName() string {
	var units []uint16
	for p.peek(0) != '>' {
		switch {
		case p.peek(0) < 0:
			p.fail("Invalid capture group name")
		case p.looksAt(`\u`):
			c := p.hexEscape(true)
			if c < 0 {
				p.fail("Invalid Unicode escape")
			}
			if c < 0x10000 {
				units = append(units, uint16(c))
			} else {
				units = utf16.AppendRune(units, c)
			}
			p.changed = true
		default:
			units = utf16.AppendRune(units, p.peek(0))
			p.pos++
		}
	}
	p.pos++
	name := string(utf16.Decode(units))
	if !isGroupName(name) {
		p.fail("Invalid capture group name")
	}
	return name
}

// isGroupName tells whether a name is an identifier.
func isGroupName(name string) bool {
	for i, r := range name {
		start := r == '$' || r == '_' || unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if !start && (i == 0 || r != '\u200c' && r != '\u200d' && !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) {
			return false
		}
	}
	return name != ""
}

// quantifier reads a quantifier, if one follows.
func (p *pattern) quantifier() {
	switch c := p.peek(0); {
	case c == '*', c == '+', c == '?':
		p.keep(1)
	case c == '{' && p.quantifierLength() > 0:
		n := p.quantifierLength()
		from, to, pair := strings.Cut(string(p.src[p.pos+1:p.pos+n-1]), ",")
		if pair && to != "" && lessNumber(to, from) {
			p.fail("numbers out of order in {} quantifier")
		}
		p.keep(n)
	case c == '{' && p.unicode:
		p.fail("Incomplete quantifier")
	default:
		return
	}
	p.accept("?")
}

// quantifierLength returns how long the quantifier in braces is that follows, or 0.
func (p *pattern) quantifierLength() int {
	digits := func(n int) int {
		for p.peek(n) >= '0' && p.peek(n) <= '9' {
			n++
		}
		return n
	}
	n := digits(1)
	if n == 1 {
		return 0
	}
	if p.peek(n) == ',' {
		n = digits(n + 1)
	}
	if p.peek(n) != '}' {
		return 0
	}
	return n + 1
}

// lessNumber compares numbers of any length.
func lessNumber(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// checkReferences looks for the groups that are referred to.
func (p *pattern) checkReferences() {
	if p.unicode && p.highest > p.groups {
		p.fail("Invalid escape")
	}
	if len(p.names) == 0 && !p.unicode {
		return // \k is the letter k
	}
	for _, name := range p.references {
		switch {
		case name == "":
			p.fail("Invalid named reference")
		case !p.names[name]:
			p.fail("Invalid named capture referenced")
		}
	}
}

// syntaxCharacters may always be escaped.
var syntaxCharacters = []rune(`^$\.*+?()[]{}|/`)

// escape reads a backslash and what it escapes, outside of classes.
func (p *pattern) escape() {
	c := p.peek(1)
	switch {
	case c < 0:
		p.fail(`\ at end of pattern`)
	case c == 'k':
		p.namedReference()
	case c >= '1' && c <= '9':
		p.keep(1)
		n := 0
		for p.peek(0) >= '0' && p.peek(0) <= '9' {
			n = min(10*n+int(p.peek(0)-'0'), 1<<20)
			p.keep(1)
		}
		p.highest = max(p.highest, n)
	case p.unicode && (c == 'p' || c == 'P'):
		p.writeSet(p.property(), false)
	case slices.Contains([]rune("dDsSwW"), c), !p.unicode:
		p.keep(2)
	default:
		p.keepCharacter(false)
	}
}

// namedReference reads \k. Without a name it is an error only where names are.
func (p *pattern) namedReference() {
	p.keep(2)
	end := slices.Index(p.src[p.pos:], '>')
	if p.peek(0) != '<' || end < 0 {
		p.references = append(p.references, "")
		return
	}
	if len(p.names) == 0 && !p.unicode && !strings.Contains(string(p.src), "(?<") {
		return
	}
	p.keep(1)
	name := p.groupName()
	p.references = append(p.references, name)
	p.out.WriteString(name + ">")
}

// keepCharacter copies the escape of one character, as the flags u and v allow
// it, and returns the character.
func (p *pattern) keepCharacter(class bool) rune {
	start := p.pos
	c := p.character(class)
	end := p.pos
	p.pos = start
	p.keep(end - start)
	return c
}

// controlEscapes are the letters that stand for one control character.
var controlEscapes = map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// character reads an escape that stands for one character.
func (p *pattern) character(class bool) rune {
	c := p.peek(1)
	switch {
	case controlEscapes[c] != 0:
		p.pos += 2
		return controlEscapes[c]
	case c == 'b' && class:
		p.pos += 2
		return '\b'
	case c == 'c' && (p.peek(2)|0x20) >= 'a' && (p.peek(2)|0x20) <= 'z':
		p.pos += 3
		return p.src[p.pos-1] % 32
	case c == '0' && (p.peek(2) < '0' || p.peek(2) > '9'):
		p.pos += 2
		return 0
	case c == 'x', c == 'u':
		if r := p.hexEscape(true); r >= 0 {
			return r
		}
		p.fail("Invalid escape")
	case slices.Contains(syntaxCharacters, c), class && c == '-', class && p.sets && strings.ContainsRune("&!#%,:;<=>@`~", c):
		p.pos += 2
		return c
	}
	p.fail("Invalid escape")
	return -1
}

// hexEscape reads \xhh, \uhhhh, a pair of those, and \u{h...}. It returns -1 for
// anything else.
func (p *pattern) hexEscape(pairs bool) rune {
	start := p.pos
	n := 4
	if p.peek(1) == 'x' {
		n = 2
	}
	p.pos += 2
	if n == 4 && p.peek(0) == '{' {
		end := slices.Index(p.src[p.pos:], '}')
		if v := hexValue(p.src[p.pos+1 : max(p.pos+1, p.pos+end)]); end > 1 && v >= 0 {
			p.pos += end + 1
			return v
		}
		p.pos = start
		return -1
	}
	v := hexValue(p.src[p.pos:min(p.pos+n, len(p.src))])
	if v < 0 || p.pos+n > len(p.src) {
		p.pos = start
		return -1
	}
	p.pos += n
	if pairs && utf16.IsSurrogate(v) && p.looksAt(`\u`) && p.peek(2) != '{' {
		here := p.pos
		if both := utf16.DecodeRune(v, p.hexEscape(false)); both != unicode.ReplacementChar {
			return both
		}
		p.pos = here
	}
	return v
}

// hexValue reads a number, or returns -1 when it is none or too large.
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
