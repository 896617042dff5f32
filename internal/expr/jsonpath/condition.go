package jsonpath

import (
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// condition is a logical expression of a filter, evaluated for one value (@).
type condition interface {
	holds(s *search, current jsonx.Value) bool
}

type (
	anyOf  []condition
	allOf  []condition
	negate struct{ condition }
	exists struct{ query query }
)

func (c anyOf) holds(s *search, current jsonx.Value) bool {
	return slices.ContainsFunc(c, func(sub condition) bool { return sub.holds(s, current) })
}

func (c allOf) holds(s *search, current jsonx.Value) bool {
	return !slices.ContainsFunc(c, func(sub condition) bool { return !sub.holds(s, current) })
}

func (c negate) holds(s *search, current jsonx.Value) bool { return !c.condition.holds(s, current) }

func (c exists) holds(s *search, current jsonx.Value) bool {
	if c.query.singular() {
		return !s.follow(&c.query, current).IsZero()
	}
	found := false
	s.runQuery(&c.query, current, func(jsonx.Value) bool {
		found = true
		return false
	})
	return found
}

// queryCost is the cost of starting a query.
const queryCost = 2

func (s *search) runQuery(q *query, current jsonx.Value, found func(jsonx.Value) bool) {
	if s.spend(queryCost) {
		s.run(q.segments, s.start(q, current), found)
	}
}

// start returns the value that a query starts from.
func (s *search) start(q *query, current jsonx.Value) jsonx.Value {
	if q.relative {
		return current
	}
	return s.root
}

// follow returns the value that a singular query finds, or the zero Value.
func (s *search) follow(q *query, current jsonx.Value) jsonx.Value {
	v := s.start(q, current)
	for _, sel := range q.single {
		if !s.spend(1) {
			return jsonx.Value{}
		}
		if v = sel.child(s, v); v.IsZero() {
			break
		}
	}
	return v
}

// operand is the result of a comparison operand or a function argument. The
// zero Value stands for the RFC's Nothing.
type operand interface {
	value(s *search, current jsonx.Value) jsonx.Value
}

type literal struct{ jsonx.Value }

func (l literal) value(*search, jsonx.Value) jsonx.Value { return l.Value }

// value makes a query an operand: the only value that it finds, or Nothing.
func (q *query) value(s *search, current jsonx.Value) jsonx.Value {
	if q.singular() {
		return s.follow(q, current)
	}
	var only jsonx.Value
	s.runQuery(q, current, func(v jsonx.Value) bool {
		if !only.IsZero() {
			only = jsonx.Value{}
			return false
		}
		only = v
		return true
	})
	return only
}

type comparison struct {
	op          string
	left, right operand
}

func (c comparison) holds(s *search, current jsonx.Value) bool {
	left, right := c.left.value(s, current), c.right.value(s, current)
	if !s.spend(1) {
		return false
	}
	switch c.op {
	case "==":
		return s.equal(left, right)
	case "!=":
		return !s.equal(left, right)
	case "<":
		return s.less(left, right)
	case "<=":
		return s.less(left, right) || s.equal(left, right)
	case ">":
		return s.less(right, left)
	default:
		return s.less(right, left) || s.equal(left, right)
	}
}

// numberCost is the cost of comparing two numbers, in addition to their text.
const numberCost = 4

// less orders numbers by value and strings by code point. Other values have no
// order.
func (s *search) less(a, b jsonx.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case jsonx.Number:
		return s.compareNumbers(a, b) < 0
	case jsonx.String:
		return s.spend(admission.TextSteps(min(len(a.Text()), len(b.Text())))) && strings.Compare(a.Text(), b.Text()) < 0
	default:
		return false
	}
}

// compareNumbers compares by value. Its result is valid only while the budget
// lasts.
func (s *search) compareNumbers(a, b jsonx.Value) int {
	if a == b || !s.spend(numberCost+admission.TextSteps(len(a.Text())+len(b.Text()))) {
		return 0
	}
	return jsonx.CompareNumbers(a.Text(), b.Text())
}

// equal compares numbers by value, and objects regardless of order.
func (s *search) equal(a, b jsonx.Value) bool {
	if a.Kind() != b.Kind() || a.Len() != b.Len() || !s.spend(1) {
		return false
	}
	switch a.Kind() {
	case jsonx.Number:
		return s.compareNumbers(a, b) == 0
	case jsonx.String:
		return len(a.Text()) == len(b.Text()) && s.spend(admission.TextSteps(len(a.Text()))) && a.Text() == b.Text()
	case jsonx.Array:
		for i, e := range a.Elems() {
			if !s.equal(e, b.Index(i)) {
				return false
			}
		}
		return true
	case jsonx.Object:
		for _, m := range a.Members() {
			if !s.spend(b.Len()/membersPerStep) || !s.equal(m.Value, b.Get(m.Name)) {
				return false
			}
		}
		return true
	default:
		return a.Bool() == b.Bool()
	}
}
