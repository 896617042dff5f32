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

func (p *parser) value(field string) (value, error) {
	if !p.next("[{") {
		return p.textValue()
	}
	if field != "created_at" && field != "modified_at" {
		return value{}, p.errorf("only created_at and modified_at take ranges; put brackets in other values in double quotes")
	}
	return p.valueRange()
}

func (p *parser) textValue() (value, error) {
	quoted := p.next(`"`)
	v, err := p.plain("")
	if err != nil {
		return v, err
	}
	p.space()
	if !quoted {
		switch v.text {
		case "", "AND", "OR", "NOT":
			return v, &Error{v.at, "expected a value; put special characters and the words AND, OR and NOT in double quotes"}
		}
	}
	return v, nil
}

// plain reads a text, quoted or not. Unquoted text ends at a space, a special
// character, or one of ends.
func (p *parser) plain(ends string) (value, error) {
	if p.next(`"`) {
		return p.quotedText()
	}
	v := value{at: p.at, star: -1}
	var text strings.Builder
	for !p.done() && !isSpace(p.text[p.at]) && !p.next(special) && !p.next(ends) {
		r := p.text[p.at]
		switch {
		case r < ' ':
			return v, p.errorf("put control characters in double quotes")
		case r == '\\' && p.at+1 == len(p.text):
			return v, p.errorf("expected a character after the backslash")
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
		return v, p.errorf("put a backslash before a quote inside a value")
	}
	v.text = text.String()
	return v, nil
}

func (p *parser) quotedText() (value, error) {
	v := value{at: p.at, star: -1}
	p.at++
	var text strings.Builder
	for !p.next(`"`) {
		if p.next(`\`) {
			p.at++
			if !p.next(`"\`) {
				return v, p.errorf(`inside quotes, a backslash may come only before '"' or '\'`)
			}
		}
		if p.done() {
			return v, &Error{v.at, "this quote is never closed"}
		}
		text.WriteRune(p.text[p.at])
		p.at++
	}
	p.at++
	v.text = text.String()
	return v, nil
}

// valueRange reads a range, including its brackets.
func (p *parser) valueRange() (value, error) {
	v := value{at: p.at, isRange: true, withoutFrom: p.next("{")}
	p.at++
	from, err := p.rangeEnd()
	if err != nil {
		return v, err
	}
	if !p.word("TO") {
		return v, p.errorf("expected TO, as in [2026-01-01 TO *]")
	}
	to, err := p.rangeEnd()
	if err != nil {
		return v, err
	}
	if !p.next("]}") {
		return v, p.errorf("expected ']' or '}' at the end of the range")
	}
	v.from, v.to, v.withoutTo = from, to, p.next("}")
	p.at++
	p.space()
	return v, nil
}

// rangeEnd reads one end of a range. It returns nil for an open end.
func (p *parser) rangeEnd() (*value, error) {
	p.space()
	v, err := p.plain("")
	switch {
	case err != nil:
		return nil, err
	case v.text == "":
		return nil, &Error{v.at, "expected a date, a date-time, or '*'"}
	}
	p.space()
	if v.text == "*" && v.star >= 0 {
		return nil, nil
	}
	return &v, nil
}
