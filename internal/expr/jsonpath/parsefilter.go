package jsonpath

import (
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// or reads a whole logical expression: ands joined by ||.
func (p *parser) or() condition {
	p.nesting++
	defer func() { p.nesting-- }()
	if p.nesting > maxNesting {
		panic(p.fail("filters and parentheses are nested too deep"))
	}
	return p.joined("||", p.and, func(all []condition) condition { return anyOf(all) })
}

func (p *parser) and() condition {
	return p.joined("&&", p.basic, func(all []condition) condition { return allOf(all) })
}

func (p *parser) joined(op string, part func() condition, join func([]condition) condition) condition {
	var all []condition
	for {
		c := part()
		all = append(all, c)
		before := p.pos
		p.space()
		if !p.accept(op) {
			p.pos = before
			break
		}
		p.space()
	}
	if len(all) == 1 {
		return all[0]
	}
	return join(all)
}

// basic reads a parenthesis, a comparison or a test. A parenthesis and a test
// may be negated.
func (p *parser) basic() condition {
	negated := p.accept("!")
	if negated {
		p.space()
	}
	c := p.positive(negated)
	if !negated {
		return c
	}
	return negate{c}
}

func (p *parser) positive(negated bool) condition {
	if p.accept("(") {
		p.space()
		c := p.or()
		p.space()
		if !p.accept(")") {
			panic(p.fail("expected ')'"))
		}
		return c
	}
	start := p.pos
	left := p.term()
	before := p.pos
	p.space()
	if op := p.comparisonOperator(); op != "" && !negated {
		return p.compare(start, left, op)
	}
	p.pos = before
	switch t := left.(type) {
	case *query:
		return exists{query: *t}
	case condition:
		return t
	default:
		panic(p.failAt(start, "a value must be compared with another value"))
	}
}

func (p *parser) comparisonOperator() string {
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.accept(op) {
			return op
		}
	}
	return ""
}

func (p *parser) compare(start int, left any, op string) condition {
	a := p.comparable(start, left)
	p.space()
	start = p.pos
	right := p.term()
	b := p.comparable(start, right)
	return comparison{op: op, left: a, right: b}
}

// comparable checks that a term yields at most one value.
func (p *parser) comparable(start int, term any) operand {
	if q, ok := term.(*query); ok && !q.singular() {
		panic(p.failAt(start, "only a path to a single value can be compared or passed as this argument"))
	}
	if op, ok := term.(operand); ok {
		return op
	}
	panic(p.failAt(start, "the results of match and search cannot be compared"))
}

// term reads a literal, a query or a function call. It returns an operand, a
// condition, or a *query.
func (p *parser) term() any {
	switch c := p.peek(); {
	case c == '@' || c == '$':
		p.pos++
		q := newQuery(c == '@', p.segments())
		return &q
	case c == '\'' || c == '"':
		return literal{jsonx.StringValue(p.quoted())}
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number()
	default:
		return p.word()
	}
}

func (p *parser) number() any {
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte("+-.eE0123456789", p.src[p.pos]) >= 0 {
		p.pos++
	}
	v, err := jsonx.NumberValue(p.src[start:p.pos])
	if err != nil {
		panic(p.failAt(start, "a number must be written as in JSON"))
	}
	return literal{v}
}

// word reads true, false, null or a function call.
func (p *parser) word() any {
	start := p.pos
	for c := p.peek(); c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); c = p.peek() {
		p.pos++
	}
	switch word := p.src[start:p.pos]; {
	case p.peek() == '(':
		return p.functionCall(start, word)
	case word == "true" || word == "false":
		return literal{jsonx.BoolValue(word == "true")}
	case word == "null":
		return literal{jsonx.NullValue()}
	default:
		panic(p.failAt(start, "expected a value, @, $ or a function call"))
	}
}

// functionCall reads the arguments of a function and checks their types.
func (p *parser) functionCall(start int, name string) any {
	args := p.arguments()
	want := map[string]int{"length": 1, "count": 1, "value": 1, "match": 2, "search": 2}[name]
	if want == 0 {
		panic(p.failAt(start, "unknown function; the functions are length, count, match, search and value"))
	}
	if len(args) != want {
		panic(p.failAt(start, "a function has the wrong number of arguments"))
	}
	if name == "count" || name == "value" {
		q, ok := args[0].(*query)
		if !ok {
			panic(p.failAt(start, "the argument of count and value must be a path"))
		}
		if name == "count" {
			return countOf{query: *q}
		}
		return valueOf{q}
	}
	operands := make([]operand, len(args))
	for i, arg := range args {
		operands[i] = p.comparable(start, arg)
	}
	if name == "length" {
		return lengthOf{arg: operands[0]}
	}
	return matches{text: operands[0], pattern: operands[1], whole: name == "match"}
}

func (p *parser) arguments() []any {
	p.nesting++
	defer func() { p.nesting-- }()
	if p.nesting > maxNesting {
		panic(p.fail("function calls are nested too deep"))
	}
	p.accept("(")
	p.space()
	var args []any
	for !p.accept(")") {
		if len(args) > 0 {
			if !p.accept(",") {
				panic(p.fail("expected ',' or ')'"))
			}
			p.space()
		}
		arg := p.term()
		args = append(args, arg)
		p.space()
	}
	return args
}
