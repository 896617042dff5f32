package sqlstore

import (
	"bytes"

	"github.com/seed-72ea4aab/vault/storage"
)

// span is a range of ords, from the first and up to the second, which it does not
// include. A zero ord leaves an end open.
//
// The bounds of a list become one span before they become SQL. If a statement has
// several comparisons for one end, SQLite ends its scan at only one of them, and
// reads on to the end of the tenant to check the others.
type span struct {
	from, to storage.ID
	none     bool // no ord is in the span
}

// spanAfter returns the ords above one.
func spanAfter(ord storage.ID) span {
	next, ok := nextID(ord)
	return span{from: next, none: !ok}
}

// spanThrough returns the ords up to one, including it.
func spanThrough(ord storage.ID) span {
	next, _ := nextID(ord)
	return span{to: next}
}

// nextID returns the next higher id. It returns false for the highest id.
func nextID(id storage.ID) (storage.ID, bool) {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			return id, true
		}
	}
	return id, false
}

// spanOf returns the ords of tokens that were created in a range, in whole
// milliseconds.
func spanOf(in storage.TimeIn) (s span) {
	from, to := microsIn(in)
	if from > 0 {
		s.from = idOfMillis(from / perMilli)
		s.none = from/perMilli > maxMillis
	}
	switch {
	case to <= 0:
		s.none = true
	case (to-1)/perMilli < maxMillis:
		s.to = idOfMillis((to-1)/perMilli + 1)
	}
	return s
}

// and returns the ords that are in both spans.
func (s span) and(other span) span {
	s.none = s.none || other.none
	if bytes.Compare(other.from[:], s.from[:]) > 0 {
		s.from = other.from
	}
	if !other.to.IsZero() && (s.to.IsZero() || bytes.Compare(other.to[:], s.to[:]) < 0) {
		s.to = other.to
	}
	return s
}

// on returns the condition that the ord of a table is in the span.
func (s span) on(d *Dialect, alias string) clause {
	var ends []clause
	if s.none {
		return never
	}
	if !s.from.IsZero() {
		ends = append(ends, clause{alias + ".ord >= ?", []any{d.ID(s.from)}})
	}
	if !s.to.IsZero() {
		ends = append(ends, clause{alias + ".ord < ?", []any{d.ID(s.to)}})
	}
	if len(ends) == 0 {
		return always
	}
	return join(ends, " AND ")
}
