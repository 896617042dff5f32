package regex

import (
	"slices"
	"strings"
)

// class reads a class in brackets.
func (p *parser) class() node {
	p.pos++
	if p.flags.sets {
		return p.setTree(p.setClass(0))
	}
	negated := p.accept("^")
	var ranges []runeRange
	for p.peek(0) != ']' {
		from, c := p.classAtom()
		if p.peek(0) != '-' || p.peek(1) == ']' || p.peek(1) < 0 {
			ranges = append(ranges, from...)
			continue
		}
		p.pos++
		to, d := p.classAtom()
		ranges = append(ranges, p.span(from, to, c, d)...)
	}
	p.pos++
	return p.closed(ranges, negated)
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

// closed returns a class that includes the characters that differ only in case,
// if the flags ignore case.
func (p *parser) closed(ranges []runeRange, negated bool) node {
	ranges = p.flags.folds().close(ranges)
	if negated {
		ranges = complement(ranges)
	}
	return setNode{ranges}
}

// classAtom reads one part of a class. It returns the part and its character,
// or -1 if it is not a single character.
func (p *parser) classAtom() ([]runeRange, rune) {
	c := p.peek(0)
	next := p.peek(1)
	switch {
	case c < 0:
		p.fail("Unterminated character class")
	case c != '\\':
		p.pos++
		return []runeRange{{c, c}}, c
	case classEscapes[next] != nil:
		p.pos += 2
		return p.escapedClass(next), -1
	case p.flags.full() && (next == 'p' || next == 'P'):
		return p.property(inClass).ranges, -1
	}
	c = p.character(true)
	return []runeRange{{c, c}}, c
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
	return runeSet{ranges: ranges}
}

// runeSet is the content of a class: characters and, with the flag v, also
// texts of several characters or none.
type runeSet struct {
	ranges  []runeRange
	strings []string
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
