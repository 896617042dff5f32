package access

import "strings"

// span is a set of strings: all strings with a prefix, one exact string, or
// none. The zero span is the prefix "", which covers every string.
//
// Spans are closed under intersection, and any two are nested or disjoint.
// Therefore rules can be compared with each other exactly.
type span struct {
	kind  spanKind
	value string
}

type spanKind uint8

const (
	prefix spanKind = iota
	exact
	empty
)

func newSpan(op Operator, value string) span {
	if op == Equals {
		return span{exact, value}
	}
	return span{prefix, value}
}

func (s span) covers(v string) bool {
	switch s.kind {
	case prefix:
		return strings.HasPrefix(v, s.value)
	case exact:
		return s.value == v
	default:
		return false
	}
}

// and returns the strings that are in both spans.
func (s span) and(o span) span {
	switch {
	case s.within(o):
		return s
	case o.within(s):
		return o
	default:
		return span{kind: empty}
	}
}

// within reports whether every string of s is in o.
func (s span) within(o span) bool {
	switch s.kind {
	case empty:
		return true
	case exact:
		return o.covers(s.value)
	default:
		return o.kind == prefix && strings.HasPrefix(s.value, o.value)
	}
}

// point returns a string that is in s and in no narrower span. Values of
// conditions contain no NUL, so a prefix followed by NUL is outside every
// narrower span.
func (s span) point() string {
	if s.kind == prefix {
		return s.value + "\x00"
	}
	return s.value
}
