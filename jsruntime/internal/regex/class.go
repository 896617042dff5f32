package regex

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// class reads a class in brackets.
func (p *parser) class() node {
	p.pos++
	return p.setTree(p.setClass(0))
}

// span returns a range. In old code, a class at one of its ends makes the
// hyphen a literal character.
func (p *parser) span(from, to []runeRange, c, d rune) []runeRange {
	switch {
	case c >= 0 && d >= 0 && c > d:
		p.fail("Range out of order in character class")
	case c >= 0 && d >= 0:
		return []runeRange{{c, d}}
	case p.flags.full():
		p.fail("Invalid character class")
	}
	return slices.Concat(from, []runeRange{{'-', '-'}}, to)
}

// classEscapes are the characters of \d, \s and \w, and their complements.
var classEscapes = func() map[rune][]runeRange {
	out := map[rune][]runeRange{
		'd': {{'0', '9'}},
		'w': {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
		's': {{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}},
	}
	for _, c := range "dws" {
		out[c-32] = complement(out[c])
	}
	return out
}()

// inClass is the text that V8 adds to a message about a class.
const inClass = " in character class"

// property reads \p{...} or \P{...}. where is added to messages.
func (p *parser) property(where string) runeSet {
	negated := p.peek(1) == 'P'
	p.pos += 2
	end := slices.Index(p.src[p.pos:], '}')
	if p.peek(0) != '{' || end < 0 {
		p.fail("Invalid property name" + where)
	}
	name := string(p.src[p.pos+1 : p.pos+end])
	if texts, ok := tableLine("s", name); ok && p.flags.sets && !negated {
		p.pos += end + 1
		return textSet(texts)
	}
	ranges, ok := propertyRanges(name)
	if !ok {
		p.fail("Invalid property name" + where)
	}
	p.pos += end + 1
	if p.flags.sets {
		ranges = p.flags.folds().close(ranges)
	}
	if negated {
		ranges = complement(ranges)
	}
	return runeSet{ranges: ranges, closed: p.flags.sets}
}

// runeSet is the content of a class: characters and, with the flag v, also
// texts of several characters or none.
type runeSet struct {
	ranges  []runeRange
	strings []string
	closed  bool // has the other case of each character, if the flags ignore case
}

// textSet returns the set of texts that are separated by spaces.
func textSet(texts string) runeSet {
	var out runeSet
	for text := range strings.FieldsSeq(texts) {
		out.add([]rune(text))
	}
	out.ranges = normal(out.ranges)
	return out
}

// add adds a text, which may be one character.
func (s *runeSet) add(text []rune) {
	if len(text) == 1 {
		s.ranges = append(s.ranges, runeRange{text[0], text[0]})
	} else {
		s.strings = append(s.strings, string(text))
	}
}

// setTree returns the node of a set. It includes the characters that differ only in
// case, if the flags ignore case. Its longest texts come first.
func (p *parser) setTree(s runeSet) node {
	chars := setNode{s.ranges}
	if !s.closed {
		chars.ranges = p.flags.folds().close(s.ranges)
	}
	if len(s.strings) == 0 {
		return chars
	}
	texts := slices.Clone(s.strings)
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(utf8.RuneCountInString(b), utf8.RuneCountInString(a)) })
	var out choice
	for _, text := range slices.Compact(texts) {
		if text == "" {
			continue
		}
		var terms []node
		for _, c := range text {
			terms = append(terms, p.literal(c))
		}
		out.list = append(out.list, sequence{terms})
	}
	out.list = append(out.list, chars)
	if slices.Contains(s.strings, "") {
		out.list = append(out.list, sequence{})
	}
	return out
}

// setClass reads a class after its opening bracket. Only the flag v has operators
// and classes within classes.
func (p *parser) setClass(depth int) runeSet {
	if depth > maxGroups {
		p.fail("Regular expression too large")
	}
	negated := p.accept("^")
	out := p.setUnion(depth)
	if operator := p.operator(); operator != "" {
		out = p.setOperation(operator, out, depth)
	}
	switch c := p.peek(0); {
	case c < 0:
		p.fail("Unterminated character class")
	case c != ']':
		p.fail("Invalid set operation in character class")
	}
	p.pos++
	if !negated {
		return out
	}
	if len(out.strings) > 0 {
		p.fail("Negated character class may contain strings")
	}
	return runeSet{ranges: complement(p.flags.folds().close(out.ranges)), closed: true}
}

// operator returns the operator of the flag v that follows, or "".
func (p *parser) operator() string {
	for _, operator := range []string{"&&", "--"} {
		if p.flags.sets && p.looksAt(operator) {
			return operator
		}
	}
	return ""
}

// setUnion reads adjacent operands. If an operator follows, there may be only
// one.
func (p *parser) setUnion(depth int) runeSet {
	var out runeSet
	for n := 0; ; n++ {
		if p.operator() != "" {
			switch {
			case n == 0:
				p.fail("Invalid character in character class")
			case n > 1:
				p.fail("Invalid set operation in character class")
			}
			break
		}
		if c := p.peek(0); c == ']' || c < 0 {
			break
		}
		operand, from := p.setOperand(depth)
		if next := p.peek(1); p.peek(0) == '-' && (p.flags.sets && next != '-' || !p.flags.sets && next != ']' && next >= 0) {
			p.pos++
			other, to := p.setOperand(depth)
			operand.ranges = p.span(operand.ranges, other.ranges, from, to)
			n++ // a range is not an operand of an operator
		}
		out.ranges = append(out.ranges, operand.ranges...)
		out.strings = append(out.strings, operand.strings...)
	}
	out.ranges = normal(out.ranges)
	return out
}

// setOperation reads the rest of an intersection or a difference.
func (p *parser) setOperation(operator string, out runeSet, depth int) runeSet {
	for p.accept(operator) {
		if p.peek(0) == '&' && operator == "&&" {
			p.fail("Invalid character in character class")
		}
		operand, _ := p.setOperand(depth)
		t := p.flags.folds()
		a, b := t.close(out.ranges), t.close(operand.ranges)
		subtract := operator == "--"
		if subtract {
			b = complement(b)
		}
		out.ranges = intersect(a, b)
		out.strings = slices.DeleteFunc(out.strings, func(s string) bool { return p.hasText(operand.strings, s) == subtract })
	}
	return out
}

// hasText reports whether a list contains a text, ignoring case if the flags
// say so.
func (p *parser) hasText(list []string, text string) bool {
	t := p.flags.folds()
	if t == nil {
		return slices.Contains(list, text)
	}
	fold := func(s string) string { return strings.Map(t.of, s) }
	return slices.ContainsFunc(list, func(s string) bool { return fold(s) == fold(text) })
}

// reservedDoubles may not occur twice in a row in a class of the flag v.
const reservedDoubles = "&!#$%*+,.:;<=>?@^`~"

// setOperand reads a class, an escape or a character. The character is -1 if
// the operand is not a single one.
func (p *parser) setOperand(depth int) (runeSet, rune) {
	c, next := p.peek(0), p.peek(1)
	switch {
	case c == '[' && p.flags.sets:
		p.pos++
		return p.setClass(depth + 1), -1
	case c == '\\' && next == 'q' && p.peek(2) == '{' && p.flags.sets:
		return p.quotedStrings(), -1
	case c == '\\' && (next == 'p' || next == 'P') && p.flags.full():
		return p.property(inClass), -1
	case c == '\\' && classEscapes[next] != nil:
		p.pos += 2
		return runeSet{ranges: p.escapedClass(next)}, -1
	}
	one := p.setCharacter()
	return runeSet{ranges: []runeRange{{one, one}}}, one
}

// setCharacter reads one character of a class.
func (p *parser) setCharacter() rune {
	c := p.peek(0)
	switch {
	case c == '\\':
		return p.character(true)
	case c < 0:
		p.fail("Unterminated character class")
	case !p.flags.sets:
	case strings.ContainsRune("()[]{}/-|", c):
		p.fail("Invalid character in character class")
	case strings.ContainsRune(reservedDoubles, c) && p.peek(1) == c:
		p.fail("Invalid set operation in character class")
	}
	p.pos++
	return c
}

// quotedStrings reads \q{...|...}.
func (p *parser) quotedStrings() runeSet {
	p.pos += 3
	var out runeSet
	for {
		var text []rune
		for p.peek(0) != '|' && p.peek(0) != '}' {
			text = append(text, p.setCharacter())
		}
		out.add(text)
		p.pos++
		if p.src[p.pos-1] == '}' {
			out.ranges = normal(out.ranges)
			return out
		}
	}
}
