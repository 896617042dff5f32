package regex

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// setTree returns the node of a set. Its longest texts come first.
func (p *parser) setTree(s runeSet) node {
	chars := p.closed(s.ranges, false)
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

// setClass reads a class of the flag v, after its opening bracket.
func (p *parser) setClass(depth int) runeSet {
	if depth > maxGroups {
		p.fail("Regular expression too large")
	}
	negated := p.accept("^")
	out := p.setUnion(depth)
	switch {
	case p.looksAt("&&"):
		out = p.setOperation("&&", out, depth)
	case p.looksAt("--"):
		out = p.setOperation("--", out, depth)
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
	return runeSet{ranges: complement(p.flags.folds().close(out.ranges))}
}

// setUnion reads adjacent operands. If an operator follows, there may be only
// one.
func (p *parser) setUnion(depth int) runeSet {
	var out runeSet
	for n := 0; ; n++ {
		if p.looksAt("&&") || p.looksAt("--") {
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
	case c == '[':
		p.pos++
		return p.setClass(depth + 1), -1
	case c == '\\' && next == 'q' && p.peek(2) == '{':
		return p.quotedStrings(), -1
	case c == '\\' && (next == 'p' || next == 'P'):
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
