package access

import "strings"

// Span is a set of strings: all strings with a prefix, one exact string, or
// none. The zero Span is the prefix "", which covers every string.
//
// Spans are closed under intersection, and any two are nested or disjoint.
// Therefore rules can be compared with each other exactly.
type Span struct {
	kind  spanKind
	Value string // the string, or its prefix
}

type spanKind uint8

const (
	prefix spanKind = iota
	exact
	empty
)

func newSpan(op Operator, value string) Span {
	if op == Equals {
		return Span{exact, value}
	}
	return Span{prefix, value}
}

func (s Span) covers(v string) bool {
	switch s.kind {
	case prefix:
		return strings.HasPrefix(v, s.Value)
	case exact:
		return s.Value == v
	default:
		return false
	}
}

// and returns the strings that are in both spans.
func (s Span) and(o Span) Span {
	switch {
	case s.within(o):
		return s
	case o.within(s):
		return o
	default:
		return Span{kind: empty}
	}
}

// within reports whether every string of s is in o.
func (s Span) within(o Span) bool {
	switch s.kind {
	case empty:
		return true
	case exact:
		return o.covers(s.Value)
	default:
		return o.kind == prefix && strings.HasPrefix(s.Value, o.Value)
	}
}

// point returns a string that is in s and in no narrower Span. Values of
// conditions contain no NUL, so a prefix followed by NUL is outside every
// narrower Span.
func (s Span) point() string {
	if s.kind == prefix {
		return s.Value + "\x00"
	}
	return s.Value
}
