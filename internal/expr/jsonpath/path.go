// Package jsonpath implements JSONPath (RFC 9535) over exact JSON values. A
// path finds the stored values themselves, including the text of numbers.
//
// It is safe to run on untrusted paths and documents. The length and nesting of
// a path are limited. Every step of a search is charged to a budget. The
// regular expressions of match and search run in linear time.
package jsonpath

import (
	"errors"
	"fmt"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Errors of [Path.One] if it does not find exactly one value.
var (
	ErrNone = errors.New("the JSONPath finds nothing")
	ErrMany = errors.New("the JSONPath finds more than one value")
)

// SyntaxError describes where and why a path is not valid.
type SyntaxError struct {
	Offset int // bytes from the start of the path
	Msg    string
}

// Error returns the violated rule and its position.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("is not a valid JSONPath: %s (at byte %d of the path)", e.Msg, e.Offset)
}

// Path is a compiled JSONPath, safe for concurrent use.
type Path struct {
	query query
}

// Singular reports whether the path has only names and indexes, so that it
// finds at most one value.
func (p *Path) Singular() bool { return p.query.singular() }

// Each calls found with every value that the path finds in doc, in the order of
// RFC 9535, until found returns false. It takes its steps from a budget, and
// returns the budget's error when the budget ends.
func (p *Path) Each(doc jsonx.Value, b *admission.Budget, found func(jsonx.Value) bool) error {
	s := &search{root: doc, budget: b}
	s.run(p.query.segments, doc, found)
	return b.Err()
}

// One returns the value that the path finds in doc, or [ErrNone] or [ErrMany]
// if it does not find exactly one.
func (p *Path) One(doc jsonx.Value, b *admission.Budget) (jsonx.Value, error) {
	var only jsonx.Value
	count := 0
	err := p.Each(doc, b, func(v jsonx.Value) bool {
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
	single   []childSelector // the same path, if it can find at most one value
}

func newQuery(relative bool, segments []segment) query {
	q := query{relative: relative, segments: segments}
	single := make([]childSelector, 0, len(segments))
	for _, seg := range segments {
		if seg.descend || len(seg.selectors) != 1 {
			return q
		}
		child, ok := seg.selectors[0].(childSelector)
		if !ok {
			return q
		}
		single = append(single, child)
	}
	q.single = single
	return q
}

// singular reports whether the query can find at most one value.
func (q *query) singular() bool { return q.single != nil }

type segment struct {
	descend   bool
	selectors []selector
}

// selector applies the rest of a path to the children of v that it selects, and
// reports whether to continue the search.
type selector interface {
	each(s *search, v jsonx.Value, rest []segment, found func(jsonx.Value) bool) bool
}

// childSelector is a selector of at most one child.
type childSelector interface {
	// child returns the child of v, or the zero Value.
	child(s *search, v jsonx.Value) jsonx.Value
}

type (
	nameSelector     string
	indexSelector    int64
	oneSelector      struct{ childSelector }
	wildcardSelector struct{}
	sliceSelector    struct{ start, end, step *int64 }
	filterSelector   struct{ keep condition }
)

// search is one run of a path over a document.
type search struct {
	root     jsonx.Value
	budget   *admission.Budget
	patterns map[patternKey]*pattern // compiled so far
}

// spend takes steps from the budget and reports whether it lasts.
func (s *search) spend(steps int) bool { return s.budget.Spend(steps) }

// run applies the segments to v, depth first, which is the order of RFC 9535.
// It reports whether to continue the search.
func (s *search) run(segments []segment, v jsonx.Value, found func(jsonx.Value) bool) bool {
	if !s.spend(1) {
		return false
	}
	switch {
	case len(segments) == 0:
		return found(v)
	case segments[0].descend:
		return s.descend(segments, v, found)
	default:
		return s.children(segments, v, found)
	}
}

func (s *search) children(segments []segment, v jsonx.Value, found func(jsonx.Value) bool) bool {
	for _, sel := range segments[0].selectors {
		if !sel.each(s, v, segments[1:], found) {
			return false
		}
	}
	return true
}

func (s *search) descend(segments []segment, v jsonx.Value, found func(jsonx.Value) bool) bool {
	return s.spend(1) && s.children(segments, v, found) &&
		eachChild(v, func(child jsonx.Value) bool { return s.descend(segments, child, found) })
}

// eachChild calls do for the children of an array or object, until it returns
// false. It reports whether it never did.
func eachChild(v jsonx.Value, do func(jsonx.Value) bool) bool {
	for _, e := range v.Elems() {
		if !do(e) {
			return false
		}
	}
	for _, m := range v.Members() {
		if !do(m.Value) {
			return false
		}
	}
	return true
}

// membersPerStep is how many members are searched for a name per step.
const membersPerStep = 8

func (name nameSelector) child(s *search, v jsonx.Value) jsonx.Value {
	if v.Kind() != jsonx.Object || !s.spend(v.Len()/membersPerStep) {
		return jsonx.Value{}
	}
	return v.Get(string(name))
}

func (i indexSelector) child(_ *search, v jsonx.Value) jsonx.Value {
	at := int64(i)
	if at < 0 {
		at += int64(v.Len())
	}
	if v.Kind() != jsonx.Array || at < 0 || at >= int64(v.Len()) {
		return jsonx.Value{}
	}
	return v.Index(int(at))
}

func (one oneSelector) each(s *search, v jsonx.Value, rest []segment, found func(jsonx.Value) bool) bool {
	child := one.child(s, v)
	return child.IsZero() || s.run(rest, child, found)
}

func (wildcardSelector) each(s *search, v jsonx.Value, rest []segment, found func(jsonx.Value) bool) bool {
	return eachChild(v, func(child jsonx.Value) bool { return s.run(rest, child, found) })
}

func (f filterSelector) each(s *search, v jsonx.Value, rest []segment, found func(jsonx.Value) bool) bool {
	return eachChild(v, func(child jsonx.Value) bool {
		keep := f.keep.holds(s, child)
		return s.spend(1) && (!keep || s.run(rest, child, found))
	})
}

func (sl sliceSelector) each(s *search, v jsonx.Value, rest []segment, found func(jsonx.Value) bool) bool {
	if v.Kind() != jsonx.Array {
		return true
	}
	from, to, step := sl.bounds(int64(v.Len()))
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if !s.run(rest, v.Index(int(i)), found) {
			return false
		}
	}
	return true
}

// bounds returns the first index, the index after the last one, and the step,
// according to RFC 9535, section 2.3.4.2.2.
func (sl sliceSelector) bounds(size int64) (from, to, step int64) {
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
	return min(max(start, -1), size-1), min(max(end, -1), size-1), step
}
