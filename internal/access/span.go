package access

import "strings"

// span is a set of strings: all that start with a prefix, one exactly, or none.
// The zero span is the prefix "", which is every string.
//
// Spans are closed under intersection, and any two are nested or disjoint. That
// is why rules can be compared with each other exactly.
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

// point returns a string that is in s and in no other span that lies inside s.
// Values of conditions hold no NUL, so for a prefix one more NUL leaves every
// narrower span.
func (s span) point() string {
	if s.kind == prefix {
		return s.value + "\x00"
	}
	return s.value
}
