// Package jsonpath is JSONPath (RFC 9535) over exact JSON values: what a path
// finds is the stored value itself, number text included.
//
// It is safe to run on paths and documents that are not trusted: a path is
// bounded in length and nesting, every step of a search is counted against a
// budget, and the regular expressions of match and search run in linear time.
package jsonpath

import (
	"errors"
	"fmt"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// ErrBudget is returned by a search that would take more steps than allowed.
var ErrBudget = errors.New("the JSONPath takes too many steps on this value")

// The ways in which [Path.One] may not find exactly one value.
var (
	ErrNone = errors.New("the JSONPath finds nothing")
	ErrMany = errors.New("the JSONPath finds more than one value")
)

// SyntaxError says where and why a path is not valid.
type SyntaxError struct {
	Offset int // bytes from the start of the path
	Msg    string
}

// Error returns the rule that was broken and where.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("is not a valid JSONPath: %s (at byte %d of the path)", e.Msg, e.Offset)
}

// Path is a compiled JSONPath, safe for concurrent use.
type Path struct {
	query query
}

// Each calls found with every value that the path finds in doc, in the order
// of RFC 9535, until found returns false. Budget holds the steps that the
// search may take and is reduced by those it took.
func (p *Path) Each(doc jsonx.Value, budget *int, found func(jsonx.Value) bool) error {
	s := &search{root: doc, budget: budget}
	s.run(p.query.segments, doc, found)
	if *budget < 0 {
		return ErrBudget
	}
	return nil
}

// One returns the value that the path finds in doc, or [ErrNone] or [ErrMany]
// if it does not find exactly one.
func (p *Path) One(doc jsonx.Value, budget *int) (jsonx.Value, error) {
	var only jsonx.Value
	count := 0
	err := p.Each(doc, budget, func(v jsonx.Value) bool {
		only = v
		count++
		return count < 2
	})
	switch {
	case err != nil:
		return jsonx.Value{}, err
	case count == 0:
		return jsonx.Value{}, ErrNone
	case count > 1:
		return jsonx.Value{}, ErrMany
	}
	return only, nil
}

// query is a path from the document's root ($) or from the current value (@).
type query struct {
	relative bool
	segments []segment
}

// singular reports whether the query can find at most one value.
func (q *query) singular() bool {
	for _, seg := range q.segments {
		if seg.descend || len(seg.selectors) != 1 {
			return false
		}
		switch seg.selectors[0].(type) {
		case nameSelector, indexSelector:
		default:
			return false
		}
	}
	return true
}

type segment struct {
	descend   bool
	selectors []selector
}

// selector passes on those children of v that it selects, and reports whether
// the search goes on.
type selector interface {
	each(s *search, v jsonx.Value, next func(jsonx.Value) bool) bool
}

type (
	nameSelector     string
	indexSelector    int64
	wildcardSelector struct{}
	sliceSelector    struct{ start, end, step *int64 }
	filterSelector   struct{ keep condition }
)

// search is one run of a path over a document.
type search struct {
	root     jsonx.Value
	budget   *int
	patterns map[patternKey]*pattern // compiled so far
}

// spend takes steps from the budget and reports whether it lasts.
func (s *search) spend(steps int) bool {
	*s.budget -= steps
	return *s.budget >= 0
}

// run applies the segments to v, depth first, which visits values in the order
// that RFC 9535 gives them. It reports whether the search goes on.
func (s *search) run(segments []segment, v jsonx.Value, found func(jsonx.Value) bool) bool {
	if !s.spend(1) {
		return false
	}
	if len(segments) == 0 {
		return found(v)
	}
	rest := func(child jsonx.Value) bool { return s.run(segments[1:], child, found) }
	if segments[0].descend {
		return s.descend(segments[0].selectors, v, rest)
	}
	return s.children(segments[0].selectors, v, rest)
}

func (s *search) children(selectors []selector, v jsonx.Value, next func(jsonx.Value) bool) bool {
	for _, sel := range selectors {
		if !sel.each(s, v, next) {
			return false
		}
	}
	return true
}

func (s *search) descend(selectors []selector, v jsonx.Value, next func(jsonx.Value) bool) bool {
	if !s.spend(1) || !s.children(selectors, v, next) {
		return false
	}
	return wildcardSelector{}.each(s, v, func(child jsonx.Value) bool {
		return s.descend(selectors, child, next)
	})
}

func (name nameSelector) each(s *search, v jsonx.Value, next func(jsonx.Value) bool) bool {
	if v.Kind() != jsonx.Object {
		return true
	}
	if !s.spend(v.Len()) {
		return false
	}
	if member := v.Get(string(name)); !member.IsZero() {
		return next(member)
	}
	return true
}

func (i indexSelector) each(_ *search, v jsonx.Value, next func(jsonx.Value) bool) bool {
	at := int64(i)
	if at < 0 {
		at += int64(v.Len())
	}
	if v.Kind() != jsonx.Array || at < 0 || at >= int64(v.Len()) {
		return true
	}
	return next(v.Index(int(at)))
}

func (wildcardSelector) each(_ *search, v jsonx.Value, next func(jsonx.Value) bool) bool {
	for _, e := range v.Elems() {
		if !next(e) {
			return false
		}
	}
	for _, m := range v.Members() {
		if !next(m.Value) {
			return false
		}
	}
	return true
}

func (sl sliceSelector) each(_ *search, v jsonx.Value, next func(jsonx.Value) bool) bool {
	if v.Kind() != jsonx.Array {
		return true
	}
	lower, upper, step := sl.bounds(int64(v.Len()))
	if step > 0 {
		for i := lower; i < upper; i += step {
			if !next(v.Index(int(i))) {
				return false
			}
		}
		return true
	}
	for i := upper; step < 0 && i > lower; i += step {
		if !next(v.Index(int(i))) {
			return false
		}
	}
	return true
}

// bounds are those of RFC 9535, section 2.3.4.2.2.
func (sl sliceSelector) bounds(size int64) (lower, upper, step int64) {
	step = 1
	if sl.step != nil {
		step = *sl.step
	}
	start, end := int64(0), size
	if step < 0 {
		start, end = size-1, -size-1
	}
	if sl.start != nil {
		start = *sl.start
	}
	if sl.end != nil {
		end = *sl.end
	}
	if start < 0 {
		start += size
	}
	if end < 0 {
		end += size
	}
	if step >= 0 {
		return min(max(start, 0), size), min(max(end, 0), size), step
	}
	return min(max(end, -1), size-1), min(max(start, -1), size-1), step
}

func (f filterSelector) each(s *search, v jsonx.Value, next func(jsonx.Value) bool) bool {
	return wildcardSelector{}.each(s, v, func(child jsonx.Value) bool {
		keep := f.keep.holds(s, child)
		if !s.spend(1) {
			return false
		}
		return !keep || next(child)
	})
}
