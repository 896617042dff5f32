package jsonpath

import (
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

const (
	maxSource  = 2000
	maxNesting = 20        // filters and parentheses inside each other
	maxInteger = 1<<53 - 1 // the range of integers in RFC 9535
	blanks     = " \t\n\r"
)

// Parse compiles a JSONPath, which must start with $. The error is a
// [*SyntaxError].
func Parse(source string) (*Path, error) {
	p := &parser{src: source}
	if len(source) > maxSource {
		return nil, p.failAt(0, "it is longer than "+strconv.Itoa(maxSource)+" bytes")
	}
	if !p.accept("$") {
		return nil, p.fail("it must start with $")
	}
	segments, err := p.segments()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.src) {
		return nil, p.fail("expected a segment like .name or [0]")
	}
	return &Path{query: newQuery(false, segments)}, nil
}

type parser struct {
	src     string
	pos     int
	nesting int
}

func (p *parser) fail(msg string) *SyntaxError { return p.failAt(p.pos, msg) }

func (p *parser) failAt(offset int, msg string) *SyntaxError {
	return &SyntaxError{Offset: offset, Msg: msg}
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *parser) accept(token string) bool {
	if strings.HasPrefix(p.src[p.pos:], token) {
		p.pos += len(token)
		return true
	}
	return false
}

func (p *parser) space() {
	for p.pos < len(p.src) && strings.IndexByte(blanks, p.src[p.pos]) >= 0 {
		p.pos++
	}
}

// segments reads all following segments. White space counts only if a segment
// follows it.
func (p *parser) segments() ([]segment, *SyntaxError) {
	var all []segment
	for {
		before := p.pos
		p.space()
		if c := p.peek(); c != '.' && c != '[' {
			p.pos = before
			return all, nil
		}
		seg, err := p.segment()
		if err != nil {
			return nil, err
		}
		all = append(all, seg)
	}
}

func (p *parser) segment() (segment, *SyntaxError) {
	seg := segment{descend: p.accept("..")}
	if p.peek() == '[' {
		selectors, err := p.bracket()
		seg.selectors = selectors
		return seg, err
	}
	if !seg.descend {
		p.accept(".")
	}
	if p.accept("*") {
		seg.selectors = []selector{wildcardSelector{}}
		return seg, nil
	}
	name := p.name()
	if name == "" {
		return seg, p.fail("expected a name, * or [")
	}
	seg.selectors = []selector{nameSelector(name)}
	return seg, nil
}

// name reads a member name in its short form, or returns "".
func (p *parser) name() string {
	start := p.pos
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		letter := c == '_' || c >= 0x80 || (c|0x20 >= 'a' && c|0x20 <= 'z')
		if !letter && (p.pos == start || c < '0' || c > '9') {
			break
		}
		p.pos++
	}
	return p.src[start:p.pos]
}

func (p *parser) bracket() ([]selector, *SyntaxError) {
	p.accept("[")
	var all []selector
	for {
		p.space()
		sel, err := p.selector()
		if err != nil {
			return nil, err
		}
		all = append(all, sel)
		p.space()
		if p.accept("]") {
			return all, nil
		}
		if !p.accept(",") {
			return nil, p.fail("expected ',' or ']'")
		}
	}
}

func (p *parser) selector() (selector, *SyntaxError) {
	switch c := p.peek(); {
	case c == '*':
		p.pos++
		return wildcardSelector{}, nil
	case c == '?':
		p.pos++
		p.space()
		keep, err := p.or()
		return filterSelector{keep: keep}, err
	case c == '\'' || c == '"':
		name, err := p.quoted()
		return nameSelector(name), err
	default:
		return p.indexOrSlice()
	}
}

func (p *parser) indexOrSlice() (selector, *SyntaxError) {
	start, err := p.optionalInteger()
	if err != nil {
		return nil, err
	}
	p.space()
	if p.peek() != ':' {
		if start == nil {
			return nil, p.fail("expected a name in quotes, an index, a slice, * or ?")
		}
		return indexSelector(*start), nil
	}
	sl := sliceSelector{start: start}
	for _, part := range []**int64{&sl.end, &sl.step} {
		if !p.accept(":") {
			break
		}
		p.space()
		if *part, err = p.optionalInteger(); err != nil {
			return nil, err
		}
		p.space()
	}
	return sl, nil
}

func (p *parser) optionalInteger() (*int64, *SyntaxError) {
	start := p.pos
	p.accept("-")
	digits := p.pos
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.pos++
	}
	text := p.src[digits:p.pos]
	if text == "" {
		if digits > start {
			return nil, p.fail("expected a digit after -")
		}
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxInteger {
		return nil, p.failAt(start, "an integer is out of range")
	}
	if text[0] == '0' && (len(text) > 1 || digits > start) {
		return nil, p.failAt(start, "an integer has a leading zero")
	}
	if digits > start {
		n = -n
	}
	return &n, nil
}

// quoted reads a string in single or double quotes. It uses the escapes of
// JSON, with \' instead of \" inside single quotes. So the text is converted to
// a JSON string, which jsonx reads.
func (p *parser) quoted() (string, *SyntaxError) {
	start := p.pos
	quote := p.src[start]
	asJSON := []byte{'"'}
	for p.pos++; p.pos < len(p.src); p.pos++ {
		c := p.src[p.pos]
		switch {
		case c == quote:
			p.pos++
			return p.decode(append(asJSON, '"'), start)
		case c == '"':
			asJSON = append(asJSON, '\\', '"')
		case c == '\\' && p.pos+1 < len(p.src):
			p.pos++
			escaped := p.src[p.pos]
			if escaped == '"' && quote != '"' || escaped == '\'' && quote != '\'' {
				return "", p.fail("unknown escape in a string")
			}
			if escaped != '\'' {
				asJSON = append(asJSON, '\\')
			}
			asJSON = append(asJSON, escaped)
		default:
			asJSON = append(asJSON, c)
		}
	}
	return "", p.failAt(start, "a string has no closing quote")
}

func (p *parser) decode(asJSON []byte, start int) (string, *SyntaxError) {
	v, err := jsonx.Parse(asJSON, jsonx.Limits{})
	if err != nil {
		return "", p.failAt(start, "a string has an unknown escape or a control character")
	}
	for text := v.Text(); len(text) > 0; {
		r, width := jsonx.DecodeRune(text)
		if jsonx.IsSurrogate(r) {
			return "", p.failAt(start, "a string has half of a surrogate pair")
		}
		text = text[width:]
	}
	return v.Text(), nil
}
