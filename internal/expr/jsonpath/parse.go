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
func Parse(source string) (path *Path, err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case *SyntaxError:
			path, err = nil, failed
		default:
			panic(failed)
		}
	}()
	p := &parser{src: source}
	if len(source) > maxSource {
		panic(p.failAt(0, "it is longer than "+strconv.Itoa(maxSource)+" bytes"))
	}
	if !p.accept("$") {
		panic(p.fail("it must start with $"))
	}
	segments := p.segments()
	if p.pos < len(p.src) {
		panic(p.fail("expected a segment like .name or [0]"))
	}
	return &Path{query: newQuery(false, segments)}, nil
}

// parser reads a path. If the path is not valid, it panics with a [*SyntaxError].
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
func (p *parser) segments() []segment {
	var all []segment
	for {
		before := p.pos
		p.space()
		if c := p.peek(); c != '.' && c != '[' {
			p.pos = before
			return all
		}
		seg := p.segment()
		all = append(all, seg)
	}
}

func (p *parser) segment() segment {
	seg := segment{descend: p.accept("..")}
	if p.peek() == '[' {
		seg.selectors = p.bracket()
		return seg
	}
	if !seg.descend {
		p.accept(".")
	}
	if p.accept("*") {
		seg.selectors = []selector{wildcardSelector{}}
		return seg
	}
	name := p.name()
	if name == "" {
		panic(p.fail("expected a name, * or ["))
	}
	seg.selectors = []selector{oneSelector{nameSelector(name)}}
	return seg
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

func (p *parser) bracket() []selector {
	p.accept("[")
	var all []selector
	for {
		p.space()
		sel := p.selector()
		all = append(all, sel)
		p.space()
		if p.accept("]") {
			return all
		}
		if !p.accept(",") {
			panic(p.fail("expected ',' or ']'"))
		}
	}
}

func (p *parser) selector() selector {
	switch c := p.peek(); {
	case c == '*':
		p.pos++
		return wildcardSelector{}
	case c == '?':
		p.pos++
		p.space()
		return filterSelector{keep: p.or()}
	case c == '\'' || c == '"':
		return oneSelector{nameSelector(p.quoted())}
	default:
		return p.indexOrSlice()
	}
}

func (p *parser) indexOrSlice() selector {
	start := p.optionalInteger()
	p.space()
	if p.peek() != ':' {
		if start == nil {
			panic(p.fail("expected a name in quotes, an index, a slice, * or ?"))
		}
		return oneSelector{indexSelector(*start)}
	}
	sl := sliceSelector{start: start}
	for _, part := range []**int64{&sl.end, &sl.step} {
		if !p.accept(":") {
			break
		}
		p.space()
		*part = p.optionalInteger()
		p.space()
	}
	return sl
}

func (p *parser) optionalInteger() *int64 {
	start := p.pos
	p.accept("-")
	digits := p.pos
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.pos++
	}
	text := p.src[digits:p.pos]
	if text == "" {
		if digits > start {
			panic(p.fail("expected a digit after -"))
		}
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxInteger {
		panic(p.failAt(start, "an integer is out of range"))
	}
	if text[0] == '0' && (len(text) > 1 || digits > start) {
		panic(p.failAt(start, "an integer has a leading zero"))
	}
	if digits > start {
		n = -n
	}
	return &n
}

// quoted reads a string in single or double quotes. It uses the escapes of
// JSON, with \' instead of \" inside single quotes. So the text is converted to
// a JSON string, which jsonx reads.
func (p *parser) quoted() string {
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
				panic(p.fail("unknown escape in a string"))
			}
			if escaped != '\'' {
				asJSON = append(asJSON, '\\')
			}
			asJSON = append(asJSON, escaped)
		default:
			asJSON = append(asJSON, c)
		}
	}
	panic(p.failAt(start, "a string has no closing quote"))
}

func (p *parser) decode(asJSON []byte, start int) string {
	v, err := jsonx.Parse(asJSON, jsonx.Limits{})
	if err != nil {
		panic(p.failAt(start, "a string has an unknown escape or a control character"))
	}
	for text := v.Text(); len(text) > 0; {
		r, width := jsonx.DecodeRune(text)
		if jsonx.IsSurrogate(r) {
			panic(p.failAt(start, "a string has half of a surrogate pair"))
		}
		text = text[width:]
	}
	return v.Text()
}
