package expr

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// parser reads one template. If tokens is set, roots are token ids.
type parser struct {
	src    string
	pos    int
	tokens bool
}

func parse(source string, tokens bool) (*Template, *Error) {
	p := &parser{src: source, tokens: tokens}
	t := &Template{}
	for p.pos < len(p.src) {
		length := strings.Index(p.src[p.pos:], "{{")
		if length < 0 {
			length = len(p.src) - p.pos
		}
		if length > 0 {
			t.parts = append(t.parts, part{text: p.src[p.pos : p.pos+length]})
			t.size += length
			p.pos += length
			continue
		}
		if t.count++; t.count > maxExpressions {
			return nil, p.fail("a string may have at most %d expressions", maxExpressions)
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{expr: e})
	}
	t.whole = t.count == 1 && t.size == 0
	t.cost = t.count*expressionCost + len(source) - t.size
	return t, nil
}

func (p *parser) fail(format string, args ...any) *Error { return p.failAt(p.pos, format, args...) }

func (p *parser) failAt(offset int, format string, args ...any) *Error {
	e := faultf(format, args...)
	e.Offset = offset
	return e
}

// expression reads {{ ... }}. The {{ must be at pos.
func (p *parser) expression() (*expression, *Error) {
	e := &expression{offset: p.pos}
	p.pos += len("{{")
	p.space()
	var err *Error
	if p.tokens {
		e.operand, err = p.token()
	} else {
		e.operand, err = p.operand()
	}
	for err == nil {
		p.space()
		switch {
		case p.pos-e.offset > maxExpression:
			err = p.failAt(e.offset, "an expression may have at most %d bytes", maxExpression)
		case p.accept("}}"):
			return e, nil
		case len(e.filters) == maxFilters:
			err = p.fail("an expression may have at most %d filters", maxFilters)
		case p.accept("|"):
			var f application
			if f, err = p.application(); err == nil {
				e.filters = append(e.filters, f)
			}
		case p.pos == len(p.src):
			err = p.failAt(e.offset, "an expression has no closing }}")
		default:
			err = p.fail("expected a filter (after |) or the closing }}")
		}
	}
	return nil, err
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		r, width := utf8.DecodeRuneInString(p.src[p.pos:])
		if !unicode.IsSpace(r) {
			return
		}
		p.pos += width
	}
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

// name reads a run of letters, digits, _ and -, which does not start with a
// digit or -. It returns "" if there is none.
func (p *parser) name() string {
	start := p.pos
	for p.pos < len(p.src) {
		r, width := utf8.DecodeRuneInString(p.src[p.pos:])
		inner := p.pos > start && (r == '-' || unicode.IsDigit(r))
		if r != '_' && !unicode.IsLetter(r) && !inner {
			break
		}
		p.pos += width
	}
	return p.src[start:p.pos]
}

// operand reads a literal, or a path from data or metadata.
func (p *parser) operand() (operand, *Error) {
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		text, err := p.quoted()
		return operand{literal: jsonx.StringValue(text)}, err
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number()
	}
	start := p.pos
	switch name := p.name(); name {
	case "true", "false":
		return operand{literal: jsonx.BoolValue(name == "true")}, nil
	case "nil", "null":
		return operand{literal: jsonx.NullValue()}, nil
	case "data", "metadata":
		if !p.tokens {
			path, err := p.path()
			return operand{ref: Ref{ID: name}, path: path}, err
		}
	}
	if p.tokens {
		return operand{}, p.failAt(start, "an argument must be text in quotes, a number, true, false or null")
	}
	return operand{}, p.failAt(start, "expected data, metadata, text in quotes, a number, true, false or null")
}

func (p *parser) quoted() (string, *Error) {
	quote, start := p.src[p.pos], p.pos+1
	end := strings.IndexByte(p.src[start:], quote)
	if end < 0 {
		return "", p.fail("a string has no closing quote")
	}
	p.pos = start + end + 1
	return p.src[start : start+end], nil
}

func (p *parser) number() (operand, *Error) {
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte("+-.eE0123456789", p.src[p.pos]) >= 0 {
		p.pos++
	}
	v, err := jsonx.NumberValue(p.src[start:p.pos])
	if err != nil {
		return operand{}, p.failAt(start, "a number must be written as in JSON")
	}
	return operand{literal: v}, nil
}

func (p *parser) path() ([]step, *Error) {
	var steps []step
	for {
		switch {
		case p.accept("."):
			name := p.name()
			if name == "" {
				return nil, p.fail("expected a name after the dot; write other keys as ['key']")
			}
			steps = append(steps, step{name: name})
		case p.accept("["):
			s, err := p.subscript()
			if err != nil {
				return nil, err
			}
			steps = append(steps, s)
		default:
			return steps, nil
		}
	}
}

// subscript reads the rest of [0] or ['key'].
func (p *parser) subscript() (step, *Error) {
	p.space()
	start := p.pos
	var s step
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		name, err := p.quoted()
		if err != nil {
			return s, err
		}
		s.name = name
	case c == '-' || (c >= '0' && c <= '9'):
		op, err := p.number()
		if err != nil {
			return s, err
		}
		n, ok := op.literal.Int()
		if !ok || n > math.MaxInt32 || n < math.MinInt32 {
			return s, p.failAt(start, "an index must be an integer")
		}
		s.index, s.byIndex = int(n), true
	default:
		return s, p.fail("expected a key in quotes or an index in [ ]")
	}
	p.space()
	if !p.accept("]") {
		return s, p.fail("expected the closing ]")
	}
	return s, nil
}

// Limits on token ids. An expression must be able to name each of them.
const (
	MinTokenID = 3 // characters
	MaxTokenID = 400
	// NotInTokenID lists characters that an id must not contain, because they
	// have a meaning in URLs, expressions and queries.
	NotInTokenID = "#/\\+?[]|&=%<>{}^:'\"`"
)

// token reads a token id, or token: and an id.
func (p *parser) token() (operand, *Error) {
	start := p.pos
	end := strings.IndexAny(p.src[start:], "|{}")
	if end < 0 {
		return operand{}, p.fail("an expression has no closing }}")
	}
	p.pos = start + end
	text := strings.TrimSpace(p.src[start:p.pos])
	ref := Ref{ID: text}
	if prefix, id, found := strings.Cut(text, ":"); found && strings.TrimSpace(prefix) == "token" {
		ref = Ref{ID: strings.TrimSpace(id), Whole: true}
	}
	if !isTokenID(ref.ID) {
		return operand{}, p.failAt(start, "expected a token id: %d to %d characters, without quotes and without any of %s",
			MinTokenID, MaxTokenID, "# / \\ + ? [ ] | & = % < > { } ^ :")
	}
	return operand{ref: ref}, nil
}

func isTokenID(id string) bool {
	if len(id) > MaxTokenID*utf8.UTFMax {
		return false
	}
	n := utf8.RuneCountInString(id)
	return n >= MinTokenID && n <= MaxTokenID &&
		!strings.ContainsAny(id, NotInTokenID) && !strings.ContainsFunc(id, unicode.IsControl)
}

// application reads a filter and its arguments, after the |.
func (p *parser) application() (application, *Error) {
	p.space()
	a := application{offset: p.pos}
	name := p.name()
	if name == "" {
		return a, p.fail("expected the name of a filter after |")
	}
	a.filter = filters[name]
	if a.filter == nil {
		return a, p.failAt(a.offset, "there is no filter %s", prefix(name, 40))
	}
	err := p.arguments(&a)
	if err == nil {
		err = a.finish()
	}
	if err != nil {
		if err.Offset == 0 {
			err.Offset = a.offset
		}
		err.Msg = "filter " + name + ": " + err.Msg
	}
	return a, err
}

func (p *parser) arguments(a *application) *Error {
	a.args = make([]arg, len(a.filter.params))
	p.space()
	if !p.accept(":") {
		return nil
	}
	for place := 0; ; place++ {
		p.space()
		at := place
		if name := p.argumentName(); name != "" {
			if at = a.filter.param(name); at < 0 {
				return p.fail("has no such argument; it takes %s", a.filter.usage())
			}
		}
		if at >= len(a.args) {
			return p.fail("has too many arguments; it takes %s", a.filter.usage())
		}
		op, err := p.operand()
		if err != nil {
			return err
		}
		if err := a.set(at, op); err != nil {
			err.Offset = p.pos
			return err
		}
		p.space()
		if !p.accept(",") {
			return nil
		}
	}
}

// argumentName reads "name:" or "name=", or nothing.
func (p *parser) argumentName() string {
	start := p.pos
	name := p.name()
	p.space()
	if name != "" && (p.accept(":") || p.accept("=")) {
		p.space()
		return name
	}
	p.pos = start
	return ""
}
