package sqlstore

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// firstRange and lastRange are how many entries of an index the first and the
	// largest range of a list have, and moreRange is the factor between two.
	firstRange = 1000
	moreRange  = 4
	lastRange  = 20_000
)

// ranges walks through lists whose conditions reject entries of the indexes they
// are read from, one range of ords after the other. However few tokens match, no
// statement examines more than about lastRange entries.
type ranges struct {
	lists []*tokenList
	size  int
	from  span // the ords that are left
	done  bool
}

func newRanges(lists ...*tokenList) *ranges {
	return &ranges{lists: lists, size: firstRange}
}

// next limits the lists to the next range. It returns false after the last one.
func (r *ranges) next(ctx context.Context) (bool, error) {
	if r.done {
		return false, nil
	}
	place, err := r.end(ctx)
	if err != nil {
		return false, err
	}
	l, bound := r.lists[0], r.from
	if r.done = place.IsZero(); !r.done {
		bound = r.from.and(l.upTo(place))
		r.from = l.beyond(place)
		r.size = min(moreRange*r.size, lastRange)
	}
	for _, l := range r.lists {
		l.within = l.times.and(bound)
	}
	return true, nil
}

// end returns the last ord of a range with about size entries. It returns zero if
// no more are left.
func (r *ranges) end(ctx context.Context) (place storage.ID, err error) {
	var parts []clause
	for _, l := range r.lists {
		parts = append(parts, l.entries(l.times.and(r.from).and(l.before()))...)
	}
	l := r.lists[0]
	for i := range parts {
		parts[i] = l.inOrder(parts[i], 1, r.size/len(parts))
	}
	query := l.merge(all(parts, 0, false), 1, 0)
	err = l.store.each(ctx, query.text, query.args, []Field{{&place}}, func() {})
	return place, err
}

// entries returns queries for the ords, as o, of all entries of the indexes that
// the list is read from, within a bound.
func (l *tokenList) entries(bound span) []clause {
	of := []clause{{`SELECT t.ord FROM vault_tokens t WHERE t.tenant_id = ?`, []any{l.tenant}}}
	switch {
	case l.driving(true):
		of = slices.Clone(l.drive.parts)
	case l.pairs != nil:
		of = make([]clause, len(l.pairs))
		for i := range l.pairs {
			p := &l.pairs[i]
			of[i] = clause{`SELECT t.ord FROM vault_tokens t WHERE t.tenant_id = ? AND t.set_id = ? AND t.type = ?`, []any{l.tenant, p.set[:], p.kind}}
		}
	}
	within := bound.on(&l.store.dialect, "x")
	for i, part := range of {
		of[i] = clause{`SELECT x.ord AS o FROM (` + part.text + `) x WHERE ` + within.text, slices.Concat(part.args, within.args)}
	}
	return of
}

// rejects reports whether conditions of the list may reject many entries of the
// indexes it is read from.
func (l *tokenList) rejects() bool {
	switch {
	case l.driving(true):
		return !l.drive.unordered && (len(l.residual) > 0 || len(l.sets) > 0 && !l.setsHold)
	case l.pairs != nil:
		return len(l.rest) > 0
	default:
		return len(l.rest) > 0 || len(l.sets) > 0 && !l.setsHold
	}
}

// takeTimes takes the conditions on the time of creation as a bound on all ords.
func (l *tokenList) takeTimes() {
	for _, cond := range l.rest {
		if in, ok := createdIn(cond); ok {
			l.times = l.times.and(spanOf(in))
		}
	}
	l.within = l.times
	l.residual = slices.DeleteFunc(slices.Clone(l.residual), isSpan)
}

// createdIn returns a condition on the time of creation.
func createdIn(cond storage.Cond) (storage.TimeIn, bool) {
	in, ok := cond.(storage.TimeIn)
	return in, ok && in.Field == storage.CreatedAt
}

// isSpan reports whether a condition is nothing but a span.
func isSpan(cond storage.Cond) bool {
	in, ok := createdIn(cond)
	return ok && onOrd(in)
}

// readRanges reads a page of lists that reject entries, range by range.
func (s *Store) readRanges(ctx context.Context, lists []*tokenList, f storage.TokenFilter) (page []storage.Token, err error) {
	size := pageBytes{most: f.MaxBytes}
	for r := newRanges(lists...); f.Limit > 0; {
		more, err := r.next(ctx)
		if err != nil || !more {
			return page, err
		}
		if f.Offset > 0 {
			n, err := countRange(ctx, lists)
			if err != nil {
				return nil, err
			}
			if n <= f.Offset {
				f.Offset -= n
				continue
			}
		}
		some, err := s.readPage(ctx, lists, f)
		if err != nil {
			return nil, err
		}
		for i := range some {
			if err := size.add(sealedBytes(&some[i])); err != nil {
				return nil, err
			}
		}
		page, f.Offset, f.Limit = append(page, some...), 0, f.Limit-len(some)
	}
	return page, nil
}

// countRange counts the tokens of lists in their range.
func countRange(ctx context.Context, lists []*tokenList) (total int, err error) {
	for _, l := range lists {
		n, err := l.count(ctx, span{}, 0)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// countRanges counts the tokens of a list that rejects entries, range by range, up
// to CountUpTo if that is not zero.
func (l *tokenList) countRanges(ctx context.Context) (n int, err error) {
	list := *l
	for r := newRanges(&list); ; {
		more, err := r.next(ctx)
		if err != nil || !more {
			return n, err
		}
		some, err := list.count(ctx, span{}, max(l.filter.CountUpTo-n, 0))
		if n += some; err != nil || l.filter.CountUpTo > 0 && n >= l.filter.CountUpTo {
			return n, err
		}
	}
}
