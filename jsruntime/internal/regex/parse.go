package regex

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// patternError describes a mistake in a regular expression, with V8's message.
type patternError string

// parser reads a regular expression according to the grammar of the language.
// Without the flags u and v, that includes Annex B.
type parser struct {
	src   []rune // code points with the flags u and v, otherwise code units
	pos   int
	flags flags

	groups int      // groups so far
	total  int      // groups in the whole pattern
	named  bool     // some group of the pattern has a name
	names  []string // by group
	asked  []string // names of references
}

// maxGroups limits the nesting of groups.
const maxGroups = 500

func newParser(text []uint16, f flags) *parser {
	p := &parser{flags: f, names: []string{""}}
	if f.full() {
		p.src = decode(text)
	} else {
		p.src = make([]rune, len(text))
		for i, u := range text {
			p.src[i] = rune(u)
		}
	}
	p.countGroups()
	return p
}

// decode joins surrogate pairs and keeps lone surrogates.
func decode(text []uint16) []rune {
	out := make([]rune, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := rune(text[i])
		if i+1 < len(text) {
			if both := utf16.DecodeRune(c, rune(text[i+1])); both != utf8.RuneError {
				out = append(out, both)
				i++
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// countGroups counts the groups ahead, because references may come before them.
func (p *parser) countGroups() {
	inClass := false
	for i := 0; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '\\':
			i++
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		case c != '(' || inClass:
		case p.at(i+1) != '?':
			p.total++
		case p.at(i+2) == '<' && p.at(i+3) != '=' && p.at(i+3) != '!':
			p.total++
			p.named = true
		}
	}
}

func (p *parser) fail(text string) { panic(patternError(text)) }

func (p *parser) at(i int) rune {
	if i < len(p.src) {
		return p.src[i]
	}
	return -1
}

// peek returns the character n places ahead, or -1 at the end.
func (p *parser) peek(n int) rune { return p.at(p.pos + n) }

// looksAt reports whether a text follows.
func (p *parser) looksAt(text string) bool {
	for i := range len(text) {
		if p.peek(i) != rune(text[i]) {
			return false
		}
	}
	return true
}

// accept skips a text if it follows.
func (p *parser) accept(text string) bool {
	ok := p.looksAt(text)
	if ok {
		p.pos += len(text)
	}
	return ok
}

// pattern reads the whole pattern.
func (p *parser) pattern() node {
	tree := p.disjunction(0)
	if p.pos < len(p.src) {
		p.fail("Unmatched ')'")
	}
	for _, name := range p.asked {
		if !slices.Contains(p.names, name) {
			p.fail("Invalid named capture referenced")
		}
	}
	return tree
}

// disjunction reads up to the end, or to a parenthesis that it did not open.
func (p *parser) disjunction(depth int) node {
	if depth > maxGroups {
		p.fail("Regular expression too large")
	}
	var options []node
	var terms []node
	for p.pos < len(p.src) && p.peek(0) != ')' {
		if p.accept("|") {
			options = append(options, sequence{terms})
			terms = nil
			continue
		}
		terms = append(terms, p.term(depth))
	}
	if options == nil {
		return sequence{terms}
	}
	return choice{append(options, sequence{terms})}
}

// term reads an assertion, or an atom with its quantifier.
func (p *parser) term(depth int) node {
	from := p.groups
	switch c := p.peek(0); {
	case c == '^' || c == '$':
		p.pos++
		return assertion{byte(c)}
	case p.looksAt(`\b`), p.looksAt(`\B`):
		p.pos += 2
		return assertion{byte(p.src[p.pos-1])}
	case c == '(':
		body, quantifiable := p.group(depth)
		if !quantifiable {
			p.refuseQuantifier()
			return body
		}
		return p.quantifier(body, from)
	case c == '[':
		return p.quantifier(p.class(), from)
	case c == '\\':
		return p.quantifier(p.escape(), from)
	case c == '.':
		p.pos++
		return p.quantifier(p.dot(), from)
	case strings.ContainsRune("*+?", c), c == '{' && p.quantifierLength() > 0:
		p.fail("Nothing to repeat")
	case p.flags.full() && strings.ContainsRune("{}]", c):
		p.fail("Lone quantifier brackets")
	}
	p.pos++
	return p.quantifier(p.literal(p.src[p.pos-1]), from)
}

// literal returns the node of a character, ignoring case if the flags say so.
func (p *parser) literal(c rune) node {
	if t := p.flags.folds(); t != nil {
		if same := t.close([]runeRange{{c, c}}); len(same) > 1 || same[0].hi > same[0].lo {
			return setNode{same}
		}
	}
	return charNode{c}
}

// dot matches any character, but line terminators only with the flag s.
func (p *parser) dot() node {
	if p.flags.dotAll {
		return setNode{complement(nil)}
	}
	return setNode{complement([]runeRange{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})}
}

// refuseQuantifier fails if a quantifier follows.
func (p *parser) refuseQuantifier() {
	if c := p.peek(0); c == '*' || c == '+' || c == '?' || c == '{' && p.quantifierLength() > 0 {
		p.fail("Invalid quantifier")
	}
}

// group reads a group, and reports whether a quantifier may follow it.
func (p *parser) group(depth int) (body node, quantifiable bool) {
	look := lookaround{}
	quantifiable, number := true, 0
	switch {
	case p.accept("(?<="):
		look.behind, quantifiable = true, false
	case p.accept("(?<!"):
		look.behind, look.negate, quantifiable = true, true, false
	case p.accept("(?="):
		quantifiable = !p.flags.full()
	case p.accept("(?!"):
		look.negate, quantifiable = true, !p.flags.full()
	case p.accept("(?:"):
		number = -1
	case p.accept("(?<"):
		number = p.open(p.groupName())
	case p.looksAt("(?"):
		p.fail("Invalid group")
	default:
		p.pos++
		number = p.open("")
	}
	body = p.disjunction(depth + 1)
	if !p.accept(")") {
		p.fail("Unterminated group")
	}
	switch {
	case number > 0:
		return capture{number, body}, true
	case number < 0:
		return body, true
	}
	look.body = body
	return look, quantifiable
}

// open begins a capturing group and returns its number.
func (p *parser) open(name string) int {
	if name != "" && slices.Contains(p.names, name) {
		p.fail("Duplicate capture group name")
	}
	p.groups++
	p.names = append(p.names, name)
	return p.groups
}

// groupName reads an identifier and the bracket after it.
func (p *parser) groupName() string {
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
			units = appendUnits(units, c)
		default:
			units = appendUnits(units, p.peek(0))
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

// appendUnits appends a character, which may be half of a surrogate pair.
func appendUnits(units []uint16, c rune) []uint16 {
	if c < 0x10000 {
		return append(units, uint16(c))
	}
	return utf16.AppendRune(units, c)
}

// isGroupName reports whether a name is an identifier.
func isGroupName(name string) bool {
	for i, r := range name {
		start := r == '$' || r == '_' || unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if !start && (i == 0 || r != '\u200c' && r != '\u200d' && !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) {
			return false
		}
	}
	return name != ""
}

// quantifier reads a quantifier, if one follows. from is the number of groups
// before the body.
func (p *parser) quantifier(body node, from int) node {
	r := repetition{body: body, max: unlimited, from: from + 1, to: p.groups}
	switch c := p.peek(0); {
	case c == '*':
		p.pos++
	case c == '+':
		r.min = 1
		p.pos++
	case c == '?':
		r.max = 1
		p.pos++
	case c == '{' && p.quantifierLength() > 0:
		n := p.quantifierLength()
		least, most, pair := strings.Cut(string(p.src[p.pos+1:p.pos+n-1]), ",")
		r.min = number(least)
		switch {
		case !pair:
			r.max = r.min
		case most != "":
			r.max = number(most)
		}
		if pair && most != "" && lessNumber(most, least) {
			p.fail("numbers out of order in {} quantifier")
		}
		p.pos += n
	case c == '{' && p.flags.full():
		p.fail("Incomplete quantifier")
	default:
		return body
	}
	r.lazy = p.accept("?")
	return r
}

// number reads digits. All very large numbers become the same number.
func number(digits string) int {
	n := 0
	for _, d := range digits {
		n = min(10*n+int(d-'0'), unlimited)
	}
	return n
}

// quantifierLength returns the length of the quantifier in braces that follows,
// or 0.
func (p *parser) quantifierLength() int {
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
