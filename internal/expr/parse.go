package expr

import (
	"cmp"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// parser reads one template. If tokens is set, roots are token ids. If the
// template is not valid, its methods panic with an [*Error].
type parser struct {
	src    string
	pos    int
	tokens bool
	filter *application // being read; nil outside of filters
}

func parse(source string, tokens bool) (t *Template, err *Error) {
	p := &parser{src: source, tokens: tokens}
	defer p.caught(&err)
	t = &Template{}
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
			panic(p.fail("a string may have at most %d expressions", maxExpressions))
		}
		t.parts = append(t.parts, part{expr: p.expression()})
	}
	t.whole = t.count == 1 && t.size == 0
	t.cost = t.count*expressionCost + len(source) - t.size
	return t, nil
}

// caught turns the panic of a parser into its error, and names the filter that it
// was about. It must be deferred.
func (p *parser) caught(to **Error) {
	failed := recover()
	if failed == nil {
		return
	}
	err, ok := failed.(*Error)
	if !ok {
		panic(failed)
	}
	if f := p.filter; f != nil {
		err.Offset = cmp.Or(err.Offset, f.offset)
		err.Msg = "filter " + f.filter.name + ": " + err.Msg
	}
	*to = err
}

func (p *parser) fail(format string, args ...any) *Error { return p.failAt(p.pos, format, args...) }

func (p *parser) failAt(offset int, format string, args ...any) *Error {
	e := faultf(format, args...)
	e.Offset = offset
	return e
}

// expression reads {{ ... }}. The {{ must be at pos.
func (p *parser) expression() *expression {
	e := &expression{offset: p.pos}
	p.pos += len("{{")
	p.space()
	if p.tokens {
		e.operand = p.token()
	} else {
		e.operand = p.operand()
	}
	for {
		p.space()
		switch {
		case p.pos-e.offset > maxExpression:
			panic(p.failAt(e.offset, "an expression may have at most %d bytes", maxExpression))
		case p.accept("}}"):
			return e
		case len(e.filters) == maxFilters:
			panic(p.fail("an expression may have at most %d filters", maxFilters))
		case p.accept("|"):
			e.filters = append(e.filters, p.application())
		case p.pos == len(p.src):
			panic(p.failAt(e.offset, "an expression has no closing }}"))
		default:
			panic(p.fail("expected a filter (after |) or the closing }}"))
		}
	}
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
func (p *parser) operand() operand {
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		return operand{literal: jsonx.StringValue(p.quoted())}
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number()
	}
	start := p.pos
	switch name := p.name(); name {
	case "true", "false":
		return operand{literal: jsonx.BoolValue(name == "true")}
	case "nil", "null":
		return operand{literal: jsonx.NullValue()}
	case "data", "metadata":
		if !p.tokens {
			return operand{ref: Ref{ID: name}, path: p.path()}
		}
	}
	if p.tokens {
		panic(p.failAt(start, "an argument must be text in quotes, a number, true, false or null"))
	}
	panic(p.failAt(start, "expected data, metadata, text in quotes, a number, true, false or null"))
}

func (p *parser) quoted() string {
	quote, start := p.src[p.pos], p.pos+1
	end := strings.IndexByte(p.src[start:], quote)
	if end < 0 {
		panic(p.fail("a string has no closing quote"))
	}
	p.pos = start + end + 1
	return p.src[start : start+end]
}

func (p *parser) number() operand {
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte("+-.eE0123456789", p.src[p.pos]) >= 0 {
		p.pos++
	}
	v, err := jsonx.NumberValue(p.src[start:p.pos])
	if err != nil {
		panic(p.failAt(start, "a number must be written as in JSON"))
	}
	return operand{literal: v}
}

func (p *parser) path() []step {
	var steps []step
	for {
		switch {
		case p.accept("."):
			name := p.name()
			if name == "" {
				panic(p.fail("expected a name after the dot; write other keys as ['key']"))
			}
			steps = append(steps, step{name: name})
		case p.accept("["):
			steps = append(steps, p.subscript())
		default:
			return steps
		}
	}
}

// subscript reads the rest of [0] or ['key'].
func (p *parser) subscript() step {
	p.space()
	start := p.pos
	var s step
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		s.name = p.quoted()
	case c == '-' || (c >= '0' && c <= '9'):
		n, ok := p.number().literal.Int()
		if !ok || n > math.MaxInt32 || n < math.MinInt32 {
			panic(p.failAt(start, "an index must be an integer"))
		}
		s.index, s.byIndex = int(n), true
	default:
		panic(p.fail("expected a key in quotes or an index in [ ]"))
	}
	p.space()
	if !p.accept("]") {
		panic(p.fail("expected the closing ]"))
	}
	return s
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
func (p *parser) token() operand {
	start := p.pos
	end := strings.IndexAny(p.src[start:], "|{}")
	if end < 0 {
		panic(p.fail("an expression has no closing }}"))
	}
	p.pos = start + end
	text := strings.TrimSpace(p.src[start:p.pos])
	ref := Ref{ID: text}
	if prefix, id, found := strings.Cut(text, ":"); found && strings.TrimSpace(prefix) == "token" {
		ref = Ref{ID: strings.TrimSpace(id), Whole: true}
	}
	if !isTokenID(ref.ID) {
		panic(p.failAt(start, "expected a token id: %d to %d characters, without quotes and without any of %s",
			MinTokenID, MaxTokenID, "# / \\ + ? [ ] | & = % < > { } ^ :"))
	}
	return operand{ref: ref}
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
func (p *parser) application() application {
	p.space()
	a := application{offset: p.pos}
	name := p.name()
	if name == "" {
		panic(p.fail("expected the name of a filter after |"))
	}
	a.filter = filters[name]
	if a.filter == nil {
		panic(p.failAt(a.offset, "there is no filter %s", prefix(name, 40)))
	}
	p.filter = &a
	p.arguments(&a)
	if err := a.finish(); err != nil {
		panic(err)
	}
	p.filter = nil
	return a
}

func (p *parser) arguments(a *application) {
	a.args = make([]arg, len(a.filter.params))
	p.space()
	if !p.accept(":") {
		return
	}
	for number := 0; ; number++ {
		p.space()
		at := number
		if name := p.argumentName(); name != "" {
			if at = a.filter.param(name); at < 0 {
				panic(p.fail("has no such argument; it takes %s", a.filter.usage()))
			}
		}
		if at >= len(a.args) {
			panic(p.fail("has too many arguments; it takes %s", a.filter.usage()))
		}
		if err := a.set(at, p.operand()); err != nil {
			err.Offset = p.pos
			panic(err)
		}
		p.space()
		if !p.accept(",") {
			return
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
