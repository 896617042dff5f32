package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// meetFrom is the number of rows from which a list is read as a meeting.
	// With fewer rows, looking up each of them is as fast.
	meetFrom = 2000
	// firstRange and lastRange are the sizes of the first and of the largest
	// range of a meeting, and moreRange is the largest factor between two.
	firstRange = 100
	lastRange  = 20000
	moreRange  = 16
	// meetDensity is how many rows the second index of a meeting may have in a
	// range for each row of the first. With more, looking up the rows of the
	// first index is faster.
	meetDensity = 12
)

// meeting reads the tokens that are in two indexes, or in the first and not in
// the second. It compares the entries of both indexes in one range of ords after
// the other. To look up each entry of the first index, the database would visit
// several blocks for every entry.
type meeting struct {
	list     *tokenList // with the conditions that the indexes do not evaluate
	of, with []clause   // queries for the ords of each index
	apart    bool       // the tokens are not in the second index
	few      bool       // the second index has few rows in any range
	times    clause     // bound on all ords
}

// meet finds two indexes that the list can be read from, if the first has many
// rows.
func (l *tokenList) meet(ctx context.Context) error {
	list := *l
	m := &meeting{list: &list}
	if l.empty || !m.takeTimes() || !m.first() {
		return nil
	}
	if found, err := m.second(ctx); err != nil || !found {
		return err
	}
	first := []driver{{parts: m.sides(m.of, m.times)}}
	switch {
	case l.drive != nil:
		first[0].rows = l.drive.rows
	case l.pairs != nil:
		first[0].rows = l.inSets
	}
	if first[0].rows == 0 {
		if err := l.store.probe(ctx, first, meetFrom); err != nil {
			return err
		}
	}
	if first[0].rows >= meetFrom {
		l.meeting = m
	}
	return nil
}

// first takes the first index, and reports whether there is one.
func (m *meeting) first() bool {
	l := m.list
	switch {
	case l.drive == nil && l.pairs != nil:
		m.of, l.setsHold = l.ofPairs(l.pairs), true
	case !l.store.dialect.FullJoins:
		return false
	case l.drive != nil:
		if l.drive.exact && isHash(l.rest[l.drive.at]) {
			m.of = l.drive.parts
		}
	case len(l.sets) == 0:
		m.of = []clause{{`SELECT t.ord FROM vault_tokens t WHERE t.tenant_id = ?`, []any{l.tenant}}}
	}
	return m.of != nil
}

// takeTimes takes the conditions on the time of creation as a bound on all ords.
// It reports false if one of them does not depend on the ord alone.
func (m *meeting) takeTimes() bool {
	l := m.list
	var times, left []storage.Cond
	for _, cond := range l.residual {
		in, ok := cond.(storage.TimeIn)
		switch {
		case !ok || in.Field != storage.CreatedAt:
			left = append(left, cond)
		case onOrd(in):
			times = append(times, in)
		default:
			return false
		}
	}
	m.times = join([]clause{l.before("{}"), l.on("{}", times)}, " AND ")
	l.residual = left
	return true
}

// second takes the second index, and leaves the conditions of the list that it
// does not evaluate. It reports whether there is one.
func (m *meeting) second(ctx context.Context) (bool, error) {
	l := m.list
	left := slices.Clone(l.residual)
	if l.residual = m.withHash(left); m.with == nil && len(l.sets) > 0 && !l.setsHold {
		if err := m.withSets(ctx); err != nil {
			return false, err
		}
		l.setsHold = m.with != nil
	}
	if m.with == nil || m.apart {
		l.residual = m.withoutHashes(left)
	}
	return m.with != nil, nil
}

// ofPairs returns queries for the ords of pairs.
func (l *tokenList) ofPairs(pairs []pair) []clause {
	parts := make([]clause, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		parts[i] = clause{`SELECT t.ord FROM vault_tokens t WHERE t.tenant_id = ? AND t.set_id = ? AND t.type = ?`, []any{l.tenant, p.set[:], p.kind}}
	}
	return parts
}

func isHash(cond storage.Cond) bool {
	_, ok := cond.(storage.HashIs)
	return ok
}

// withHash takes a hash as the second index, and returns the other conditions.
func (m *meeting) withHash(conds []storage.Cond) []storage.Cond {
	i := slices.IndexFunc(conds, isHash)
	if i < 0 {
		return conds
	}
	m.with = []clause{m.list.ofHash(conds[i].(storage.HashIs))}
	return slices.Delete(conds, i, i+1)
}

// withoutHashes takes the hashes that tokens must not have as the second index,
// and returns the other conditions.
func (m *meeting) withoutHashes(conds []storage.Cond) []storage.Cond {
	return slices.DeleteFunc(conds, func(c storage.Cond) bool {
		not, _ := c.(storage.Not)
		hash, ok := not.Cond.(storage.HashIs)
		if ok {
			m.with, m.apart, m.few = append(m.with, m.list.ofHash(hash)), true, false
		}
		return ok
	})
}

// withSets takes the index on sets as the second index: the tokens in the sets,
// or the others if there are fewer.
func (m *meeting) withSets(ctx context.Context) error {
	l := m.list
	others, n, err := l.pairsWhere(ctx, clause{"NOT (" + l.setsOnCounts.text + ")", l.setsOnCounts.args})
	switch {
	case err != nil:
		return err
	case len(others) > 0 && len(others) <= maxPairs && (l.pairs == nil || n < l.inSets):
		m.with, m.apart, m.few = l.ofPairs(others), true, n <= meetDensity*lastRange
	case l.pairs != nil:
		m.with, m.few = l.ofPairs(l.pairs), l.inSets <= meetDensity*lastRange
	}
	return nil
}

func (l *tokenList) ofHash(hash storage.HashIs) clause {
	return clause{`SELECT h.ord FROM vault_token_hashes h WHERE h.tenant_id = ? AND h.hash = ?`, []any{l.tenant, hash[:]}}
}

// within returns the query for the ords of the tokens within a bound, as o.
//
// A full join, unlike other joins, is never a nested loop. PostgreSQL turns it
// into another join if a condition on its rows fails for NULL. So the condition
// is hidden, and the bound is on the rows of each index.
func (m *meeting) within(bound clause) clause {
	of, with := all(m.sides(m.of, bound), 0, false), all(m.sides(m.with, bound), 0, false)
	operator, found := " INTERSECT ", clause{text: "a.o = b.o"}
	if m.apart {
		operator, found.text = " EXCEPT ", "a.o IS NOT NULL AND b.o IS NULL"
	}
	text := `SELECT a.o AS ord FROM (` + of.text + `) a` + operator + `SELECT b.o FROM (` + with.text + `) b`
	if m.list.store.dialect.FullJoins {
		text = `SELECT a.o AS ord FROM (` + of.text + `) a FULL JOIN (` + with.text + `) b ON a.o = b.o WHERE ` + found.hidden().text
	}
	list := *m.list
	list.filter.Before = storage.ID{} // the bound has it
	return list.driven(clause{text, slices.Concat(of.args, with.args)}, true, always)
}

// sides limits queries for ords to a bound, and returns the ords as o.
func (m *meeting) sides(parts []clause, bound clause) []clause {
	limited := make([]clause, len(parts))
	bound = bound.of("x")
	for i, part := range parts {
		limited[i] = clause{`SELECT x.ord AS o FROM (` + part.text + `) x WHERE ` + bound.text, slices.Concat(part.args, bound.args)}
	}
	return limited
}

// walk counts the tokens of a meeting, one range after the other, until there
// are enough. Zero means all. It reports false if the second index has too many
// rows.
//
// It also returns the bound of the ranges, without those at the start that have
// no token behind an offset, and how many tokens these have.
func (m *meeting) walk(ctx context.Context, enough, offset int) (n int, page clause, before int, ok bool, err error) {
	l, from := m.list, m.times
	for size, done, next := firstRange, 0, from; ; {
		place, err := m.end(ctx, next, size)
		if err != nil {
			return 0, clause{}, 0, false, err
		}
		bound, end := next, always
		if !place.IsZero() {
			end = l.upTo(place)
			bound = join([]clause{next, end}, " AND ")
		}
		some, ok, err := m.count(ctx, bound, size)
		n, done = n+some, done+size
		if err != nil || !ok || place.IsZero() || enough > 0 && n >= enough {
			return n, join([]clause{from, end}, " AND "), before, ok, err
		}
		next = join([]clause{m.times, {"{}.ord " + beyond(l.filter.OldestFirst) + " ?", []any{l.store.dialect.ID(place)}}}, " AND ")
		if n <= offset {
			from, before = next, n
		}
		size = min(moreRange*size, lastRange)
		if enough > 0 && n > 0 { // as many as are probably missing, and a few more
			size = min(size, (enough-n)*done/n*5/4+firstRange)
		}
	}
}

// count counts the tokens within a bound, which has about size entries of the
// first index. It reports false if the second index has too many rows there.
func (m *meeting) count(ctx context.Context, bound clause, size int) (n int, ok bool, err error) {
	if !m.few || size == firstRange {
		second := []driver{{parts: m.sides(m.with, bound)}}
		if err := m.list.store.probe(ctx, second, meetDensity*size); err != nil || second[0].rows >= meetDensity*size {
			return 0, false, err
		}
	}
	found := m.within(bound)
	n, err = m.list.store.count(ctx, `SELECT count(*) FROM (`+found.text+`) f`, found.args...)
	return n, true, err
}

// end returns the last ord of a range with about size entries of the first
// index. It returns zero if no more are left.
func (m *meeting) end(ctx context.Context, next clause, size int) (place storage.ID, err error) {
	ends := m.sides(m.of, next)
	if len(ends) > 1 {
		size = 2 * size / len(ends)
	}
	for i := range ends {
		ends[i] = m.list.inOrder(ends[i], 1, size)
	}
	query := m.list.merge(all(ends, 0, false), 1, 0)
	err = m.list.store.each(ctx, query.text, query.args, []sql.Scanner{(*idColumn)(&place)}, func() {})
	return place, err
}

// countMeeting counts the tokens of a list that is a meeting, without the
// expired ones. It reports false if it did not count them.
func (l *tokenList) countMeeting(ctx context.Context) (n int, ok bool, err error) {
	m, expired := *l.meeting, 0
	if !l.filter.Now.IsZero() {
		where := join([]clause{l.over(always), l.where.hidden()}, " AND ")
		if expired, err = l.store.count(ctx, `SELECT count(*) FROM vault_tokens t WHERE `+where.text, where.args...); err != nil {
			return 0, false, err
		}
	}
	list := *m.list
	list.filter.Now, m.list = time.Time{}, &list
	most := l.filter.CountUpTo
	if most > 0 {
		most += expired
	}
	n, _, _, ok, err = m.walk(ctx, most, 0)
	return max(n-expired, 0), ok, err
}

// reach finds the ranges of a meeting that the page of a list is in, and leaves
// the offset within them. It reports whether the page can have rows.
func (l *tokenList) reach(ctx context.Context, f *storage.TokenFilter) (bool, error) {
	if l.meeting == nil {
		return true, nil
	}
	l.meeting.list.filter = l.filter
	n, page, before, ok, err := l.meeting.walk(ctx, f.Offset+f.Limit, f.Offset)
	if err != nil || !ok {
		return true, err
	}
	some := n > f.Offset
	l.partial = n >= f.Offset+f.Limit
	l.reached, f.Offset = &page, f.Offset-before
	return some, nil
}
