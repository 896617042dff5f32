package token

import "strings"

// queryValue is the part of a term after the colon: text, or a range.
type queryValue struct {
	at   int    // start position
	key  string // key of metadata
	text string
	star int // position of the first '*' outside of quotes, or -1

	isRange  bool
	from, to *queryValue
	// withoutFrom and withoutTo mean that the end is excluded.
	withoutFrom, withoutTo bool
}

// querySpecial are the characters, besides space, that end unquoted text.
const querySpecial = `()[]{}"`

func (p *queryParser) value(field string) queryValue {
	if !p.next("[{") {
		return p.textValue()
	}
	if field != "created_at" && field != "modified_at" {
		p.failf("only created_at and modified_at take ranges; put brackets in other values in double quotes")
	}
	return p.valueRange()
}

func (p *queryParser) textValue() queryValue {
	quoted := p.next(`"`)
	v := p.plain("")
	p.space()
	if !quoted {
		switch v.text {
		case "", "AND", "OR", "NOT":
			panic(&QueryError{v.at, "expected a value; put special characters and the words AND, OR and NOT in double quotes"})
		}
	}
	return v
}

// plain reads a text, quoted or not. Unquoted text ends at a space, a special
// character, or one of ends.
func (p *queryParser) plain(ends string) queryValue {
	if p.next(`"`) {
		return p.quotedText()
	}
	v := queryValue{at: p.at, star: -1}
	var text strings.Builder
	for !p.done() && !isQuerySpace(p.text[p.at]) && !p.next(querySpecial) && !p.next(ends) {
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

func (p *queryParser) quotedText() queryValue {
	v := queryValue{at: p.at, star: -1}
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
			panic(&QueryError{v.at, "this quote is never closed"})
		}
		text.WriteRune(p.text[p.at])
		p.at++
	}
	p.at++
	v.text = text.String()
	return v
}

// valueRange reads a range, including its brackets.
func (p *queryParser) valueRange() queryValue {
	v := queryValue{at: p.at, isRange: true, withoutFrom: p.next("{")}
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
func (p *queryParser) rangeEnd() *queryValue {
	p.space()
	v := p.plain("")
	if v.text == "" {
		panic(&QueryError{v.at, "expected a date, a date-time, or '*'"})
	}
	p.space()
	if v.text == "*" && v.star >= 0 {
		return nil
	}
	return &v
}
