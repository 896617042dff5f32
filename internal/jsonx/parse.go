package jsonx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits are limits of [Parse] beyond the length of its input, which callers
// limit. A zero field means its default.
type Limits struct {
	Depth int // nesting depth of arrays and objects, 200 by default
	Nodes int // number of values in the tree, 4,000,000 by default
}

const (
	defaultDepth = 200
	defaultNodes = 4_000_000
)

// Parse reads exactly one JSON value. It accepts RFC 8259 and nothing more, and
// rejects duplicate keys in any object. The error is an [*Error]. The Value
// keeps one copy of data; data itself may be reused.
func Parse(data []byte, lim Limits) (Value, error) {
	p := parsers.Get().(*parser)
	defer parsers.Put(p)
	defer p.wipe()
	p.src, p.lim = string(data), Limits{cmp.Or(lim.Depth, defaultDepth), cmp.Or(lim.Nodes, defaultNodes)}
	if !utf8.ValidString(p.src) {
		return Value{}, &Error{Offset: firstInvalid(p.src), Msg: "is not valid UTF-8"}
	}
	p.space()
	v, err := p.value(0)
	if err == nil {
		p.space()
		if p.pos < len(p.src) {
			err = p.fail("has text after the JSON value")
		}
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, width := utf8.DecodeRuneInString(s[i:]); width == 1 {
				return i
			}
		}
	}
	return len(s)
}

// parser reads src by recursive descent, at most lim.Depth deep. The children
// of open containers are on two shared stacks. When a container closes, they
// are copied to a slice of the right size. Popped stack entries are wiped,
// because parsers are reused.
type parser struct {
	src     string
	pos     int
	nodes   int
	lim     Limits
	elems   []Value
	members []Member
}

var parsers = sync.Pool{New: func() any { return &parser{members: make([]Member, 0, 8)} }}

// maxSpareStack limits what is kept of a stack for the next parser.
const maxSpareStack = 64

// wipe removes everything that the parser has read.
func (p *parser) wipe() {
	clear(p.elems)
	clear(p.members)
	elems, members := p.elems[:0], p.members[:0]
	if cap(elems) > maxSpareStack {
		elems = nil
	}
	if cap(members) > maxSpareStack {
		members = nil
	}
	*p = parser{elems: elems, members: members}
}

func (p *parser) fail(msg string) *Error { return &Error{Offset: p.pos, Msg: msg} }

// under prepends the path of the enclosing container's child to the path of a
// failure inside it, so that a path costs nothing until something fails.
func (e *Error) under(segment string) *Error {
	e.Path = JoinPath(segment, e.Path)
	return e
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space, or 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

func (p *parser) value(depth int) (Value, *Error) {
	p.nodes++
	breathe(p.nodes)
	if p.nodes > p.lim.Nodes {
		return Value{}, p.fail(fmt.Sprintf("has more than %d values", p.lim.Nodes))
	}
	if p.pos == len(p.src) {
		return Value{}, p.fail("ends where a JSON value is expected")
	}
	switch c := p.src[p.pos]; c {
	case '{', '[':
		if depth == p.lim.Depth {
			return Value{}, p.fail(fmt.Sprintf("is nested more than %d levels deep", p.lim.Depth))
		}
		p.pos++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case '"':
		s, err := p.str()
		return textValue(String, s), err
	case 't':
		return BoolValue(true), p.literal("true")
	case 'f':
		return BoolValue(false), p.literal("false")
	case 'n':
		return NullValue(), p.literal("null")
	default:
		end := scanNumber(p.src, p.pos)
		if end == p.pos {
			return Value{}, p.fail("is not valid JSON: expected a value")
		}
		text := p.src[p.pos:end]
		p.pos = end
		return textValue(Number, text), nil
	}
}

func (p *parser) literal(word string) *Error {
	if !strings.HasPrefix(p.src[p.pos:], word) {
		return p.fail("is not valid JSON: expected a value")
	}
	p.pos += len(word)
	return nil
}

// pieceSize is the number of elements that an open array collects before they
// leave the stack. A stack of millions would be copied as a whole each time it
// grows. No other goroutine can interrupt that copy, which takes tens of
// milliseconds. A garbage collection that is about to begin would stop all
// goroutines during that time.
const pieceSize = 4096

func (p *parser) array(depth int) (Value, *Error) {
	base := len(p.elems)
	var pieces [][]Value // all of pieceSize
	for more := p.next() != ']'; more; {
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err.under(indexSegment(len(pieces)*pieceSize + len(p.elems) - base))
		}
		if p.elems = append(p.elems, v); len(p.elems)-base == pieceSize {
			pieces = append(pieces, taken(&p.elems, base))
		}
		switch p.next() {
		case ',':
			p.pos++
		case ']':
			more = false
		default:
			return Value{}, p.fail("is not valid JSON: expected ',' or ']'")
		}
	}
	p.pos++
	last := taken(&p.elems, base)
	if pieces == nil {
		return arrayValue(last), nil
	}
	return arrayValue(joined(pieces, last)), nil
}

// joined joins the pieces of an array, and releases each.
func joined(pieces [][]Value, last []Value) []Value {
	all := make([]Value, 0, len(pieces)*pieceSize+len(last))
	for i, piece := range pieces {
		breathe(i*pieceSize + pieceSize - 1)
		all = append(all, piece...)
		pieces[i] = nil
	}
	return append(all, last...)
}

func (p *parser) object(depth int) (Value, *Error) {
	base := len(p.members)
	var index nameIndex
	for more := p.next() != '}'; more; {
		if err := p.member(base, &index, depth); err != nil {
			return Value{}, err
		}
		switch p.next() {
		case ',':
			p.pos++
		case '}':
			more = false
		default:
			return Value{}, p.fail("is not valid JSON: expected ',' or '}'")
		}
	}
	p.pos++
	return objectValue(taken(&p.members, base)), nil
}

// largeFrom is the number of children from which a container may keep the
// memory in which they were collected.
const largeFrom = 4096

// taken takes the part of a stack from base on. Usually it copies and wipes
// that part. A container that is most of its stack keeps the memory itself,
// because a copy would double the memory of a large body.
func taken[T any](stack *[]T, base int) []T {
	all := *stack
	if kids := all[base:]; len(kids) >= largeFrom && base < len(kids)/8 {
		*stack = slices.Clone(all[:base])
		return kids
	}
	kids := slices.Clone(all[base:])
	clear(all[base:])
	*stack = all[:base]
	return kids
}

func (p *parser) member(base int, index *nameIndex, depth int) *Error {
	if p.next() != '"' {
		return p.fail("is not valid JSON: expected a key in double quotes")
	}
	start := p.pos
	name, err := p.str()
	if err != nil {
		return err
	}
	if index.find(p.members[base:], name) >= 0 {
		p.pos = start
		return p.fail("is a duplicate key").under(nameSegment(name))
	}
	if p.next() != ':' {
		return p.fail("is not valid JSON: expected ':' after the key").under(nameSegment(name))
	}
	p.pos++
	p.space()
	v, err := p.value(depth)
	if err != nil {
		return err.under(nameSegment(name))
	}
	p.members = append(p.members, Member{Name: name, Value: v})
	index.added(name, len(p.members)-base-1)
	return nil
}

// scanNumber returns the end of the JSON number at s[i:], or i if there is
// none.
func scanNumber(s string, i int) int {
	start := i
	if i < len(s) && s[i] == '-' {
		i++
	}
	intStart := i
	if i = digits(s, i); i == intStart || (s[intStart] == '0' && i > intStart+1) {
		return start
	}
	if i < len(s) && s[i] == '.' {
		end := digits(s, i+1)
		if end == i+1 {
			return start
		}
		i = end
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		exp := i + 1
		if exp < len(s) && (s[exp] == '+' || s[exp] == '-') {
			exp++
		}
		end := digits(s, exp)
		if end == exp {
			return start
		}
		i = end
	}
	return i
}

func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
