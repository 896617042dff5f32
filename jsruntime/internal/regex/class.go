package jsruntime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// class reads a class in brackets.
func (p *pattern) class() {
	if p.sets {
		p.changed = true
		p.pos++
		p.writeSet(p.setClass(0), false)
		return
	}
	p.keep(1)
	p.accept("^")
	for p.peek(0) != ']' {
		from := p.classAtom()
		if p.peek(0) != '-' || p.peek(1) == ']' || p.peek(1) < 0 {
			continue
		}
		p.keep(1)
		to := p.classAtom()
		switch {
		case p.unicode && (from < 0 || to < 0):
			p.fail("Invalid character class")
		case from >= 0 && to >= 0 && from > to && (p.unicode || from < utf8.RuneSelf):
			p.fail("Range out of order in character class")
		}
	}
	p.keep(1)
}

// classAtom reads one part of a class and returns it, or -1 if it is not a single
// character, or one that only the engine can tell.
func (p *pattern) classAtom() rune {
	c := p.peek(0)
	switch {
	case c < 0:
		p.fail("Unterminated character class")
	case c != '\\':
		p.keep(1)
		return c
	case p.peek(1) < 0:
		p.fail(`\ at end of pattern`)
	case slices.Contains([]rune("dDsSwW"), p.peek(1)):
		p.keep(2)
		return -1
	case p.unicode && (p.peek(1) == 'p' || p.peek(1) == 'P'):
		p.writeSet(p.property(), true)
		return -1
	case p.unicode:
		return p.keepCharacter(true)
	default:
		p.keep(2)
	}
	return -1
}

// runeSet is what a class stands for: characters, and with the flag v also texts
// of several, or of none.
type runeSet struct {
	ranges  []runeRange
	strings []string
}

// property reads \p{...} or \P{...}.
func (p *pattern) property() runeSet {
	negated := p.peek(1) == 'P'
	p.pos += 2
	end := slices.Index(p.src[p.pos:], '}')
	if p.peek(0) != '{' || end < 0 {
		p.fail("Invalid property name")
	}
	name := string(p.src[p.pos+1 : p.pos+end])
	if texts, ok := tableLine("s", name); ok && p.sets && !negated {
		p.pos += end + 1
		return textSet(texts)
	}
	ranges, ok := propertyRanges(name)
	if !ok {
		p.fail(fmt.Sprintf("Invalid property name %q", name))
	}
	p.pos += end + 1
	if negated {
		ranges = complement(ranges)
	}
	return runeSet{ranges: ranges}
}

// textSet is the set of texts that spaces separate.
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

// writeSet writes what a set stands for.
func (p *pattern) writeSet(s runeSet, within bool) {
	p.changed = true
	if p.out.Len() > maxPattern {
		return
	}
	if len(s.strings) == 0 {
		writeClass(&p.out, s.ranges, within)
		return
	}
	p.out.WriteString("(?:")
	slices.SortFunc(s.strings, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, text := range slices.Compact(s.strings) {
		for _, c := range text {
			fmt.Fprintf(&p.out, `\u{%x}`, c)
		}
		if text != "" {
			p.out.WriteByte('|')
		}
	}
	writeClass(&p.out, s.ranges, false)
	if slices.Contains(s.strings, "") {
		p.out.WriteByte('|')
	}
	p.out.WriteByte(')')
}

// setClass reads a class of the flag v, after its opening bracket.
func (p *pattern) setClass(depth int) runeSet {
	if depth > maxGroups {
		p.fail("Regular expression too large")
	}
	negated := p.peek(0) == '^'
	if negated {
		p.pos++
	}
	out := p.setUnion(depth)
	switch {
	case p.looksAt("&&"):
		out = p.setOperation("&&", out, depth)
	case p.looksAt("--"):
		out = p.setOperation("--", out, depth)
	}
	if p.peek(0) != ']' {
		p.fail("Invalid character in character class")
	}
	p.pos++
	if !negated {
		return out
	}
	if len(out.strings) > 0 {
		p.fail("Negated character class may contain strings")
	}
	if p.fold {
		out.ranges = folded(out.ranges)
	}
	return runeSet{ranges: complement(out.ranges)}
}

// setUnion reads operands that stand one after the other. Where an operator
// follows, there may be only one.
func (p *pattern) setUnion(depth int) runeSet {
	var out runeSet
	for n := 0; ; n++ {
		if p.looksAt("&&") || p.looksAt("--") {
			if n != 1 {
				p.fail("Invalid set operation in character class")
			}
			break
		}
		if c := p.peek(0); c == ']' || c < 0 {
			break
		}
		operand, from := p.setOperand(depth)
		if p.peek(0) == '-' && p.peek(1) != '-' {
			p.pos++
			_, to := p.setOperand(depth)
			switch {
			case from < 0 || to < 0:
				p.fail("Invalid character class")
			case from > to:
				p.fail("Range out of order in character class")
			}
			operand = runeSet{ranges: []runeRange{{from, to}}}
			n++ // a range is no operand of an operator
		}
		out.ranges = append(out.ranges, operand.ranges...)
		out.strings = append(out.strings, operand.strings...)
	}
	out.ranges = normal(out.ranges)
	return out
}

// setOperation reads the rest of an intersection or a difference.
func (p *pattern) setOperation(operator string, out runeSet, depth int) runeSet {
	for p.looksAt(operator) {
		p.pos += 2
		if p.peek(0) == '&' && operator == "&&" {
			p.fail("Invalid character in character class")
		}
		operand, _ := p.setOperand(depth)
		a, b := out.ranges, normal(operand.ranges)
		if p.fold {
			a, b = folded(a), folded(b)
		}
		subtract := operator == "--"
		if subtract {
			b = complement(b)
		}
		out.ranges = intersect(a, b)
		out.strings = slices.DeleteFunc(out.strings, func(s string) bool { return slices.Contains(operand.strings, s) == subtract })
	}
	return out
}

// reservedDoubles may not stand twice in a class of the flag v.
const reservedDoubles = "&!#$%*+,.:;<=>?@^`~"

// setOperand reads a class, an escape or a character. The character is -1 for what
// is not a single one.
func (p *pattern) setOperand(depth int) (runeSet, rune) {
	c, next := p.peek(0), p.peek(1)
	switch {
	case c == '[':
		p.pos++
		return p.setClass(depth + 1), -1
	case c == '\\' && next == 'q' && p.peek(2) == '{':
		return p.quotedStrings(), -1
	case c == '\\' && (next == 'p' || next == 'P'):
		return p.property(), -1
	case c == '\\' && classEscapes[next] != nil:
		p.pos += 2
		return runeSet{ranges: classEscapes[next]}, -1
	}
	one := p.setCharacter()
	return runeSet{ranges: []runeRange{{one, one}}}, one
}

// setCharacter reads one character of a class.
func (p *pattern) setCharacter() rune {
	c := p.peek(0)
	switch {
	case c == '\\':
		return p.character(true)
	case c < 0:
		p.fail("Unterminated character class")
	case strings.ContainsRune("()[]{}/-|", c), strings.ContainsRune(reservedDoubles, c) && p.peek(1) == c:
		p.fail("Invalid character in character class")
	}
	p.pos++
	return c
}

// quotedStrings reads \q{...|...}.
func (p *pattern) quotedStrings() runeSet {
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

// classEscapes are the characters of \d, \s and \w, and all others.
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
