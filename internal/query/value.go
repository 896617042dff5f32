package query

import "strings"

// value is the part of a term after the colon: text, or a range.
type value struct {
	at   int    // start position
	key  string // key of metadata
	text string
	star int // position of the first '*' outside of quotes, or -1

	isRange  bool
	from, to *value
	// withoutFrom and withoutTo mean that the end is excluded.
	withoutFrom, withoutTo bool
}

// special are the characters, besides space, that end unquoted text.
const special = `()[]{}"`

func (p *parser) value(field string) value {
	if !p.next("[{") {
		return p.textValue()
	}
	if field != "created_at" && field != "modified_at" {
		p.failf("only created_at and modified_at take ranges; put brackets in other values in double quotes")
	}
	return p.valueRange()
}

func (p *parser) textValue() value {
	quoted := p.next(`"`)
	v := p.plain("")
	p.space()
	if !quoted {
		switch v.text {
		case "", "AND", "OR", "NOT":
			panic(&Error{v.at, "expected a value; put special characters and the words AND, OR and NOT in double quotes"})
		}
	}
	return v
}

// plain reads a text, quoted or not. Unquoted text ends at a space, a special
// character, or one of ends.
func (p *parser) plain(ends string) value {
	if p.next(`"`) {
		return p.quotedText()
	}
	v := value{at: p.at, star: -1}
	var text strings.Builder
	for !p.done() && !isSpace(p.text[p.at]) && !p.next(special) && !p.next(ends) {
		r := p.text[p.at]
		switch {
		case r < ' ':
			p.failf("put control characters in double quotes")
		case r == '\\' && p.at+1 == len(p.text):
			p.failf("expected a character after the backslash")
		case r == '\\':
			p.at++
			r = p.text[p.at]
		case r == '*' && v.star < 0:
			v.star = p.at
		}
		text.WriteRune(r)
		p.at++
	}
	if p.next(`"`) && text.Len() > 0 {
		p.failf("put a backslash before a quote inside a value")
	}
	v.text = text.String()
	return v
}

func (p *parser) quotedText() value {
	v := value{at: p.at, star: -1}
	p.at++
	var text strings.Builder
	for !p.next(`"`) {
		if p.next(`\`) {
			p.at++
			if !p.next(`"\`) {
				p.failf(`inside quotes, a backslash may come only before '"' or '\'`)
			}
		}
		if p.done() {
			panic(&Error{v.at, "this quote is never closed"})
		}
		text.WriteRune(p.text[p.at])
		p.at++
	}
	p.at++
	v.text = text.String()
	return v
}

// valueRange reads a range, including its brackets.
func (p *parser) valueRange() value {
	v := value{at: p.at, isRange: true, withoutFrom: p.next("{")}
	p.at++
	v.from = p.rangeEnd()
	if !p.word("TO") {
		p.failf("expected TO, as in [2026-01-01 TO *]")
	}
	v.to = p.rangeEnd()
	if !p.next("]}") {
		p.failf("expected ']' or '}' at the end of the range")
	}
	v.withoutTo = p.next("}")
	p.at++
	p.space()
	return v
}

// rangeEnd reads one end of a range. It returns nil for an open end.
func (p *parser) rangeEnd() *value {
	p.space()
	v := p.plain("")
	if v.text == "" {
		panic(&Error{v.at, "expected a date, a date-time, or '*'"})
	}
	p.space()
	if v.text == "*" && v.star >= 0 {
		return nil
	}
	return &v
}
