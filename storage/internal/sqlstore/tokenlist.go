package sqlstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/seed-72ea4aab/vault/storage"
)

// tokenList is a list of tokens, with the chosen way to read it.
type tokenList struct {
	store  *Store
	filter storage.TokenFilter
	tenant any

	// The condition is the conjunction of these.
	sets, rest   []storage.Cond
	setsOnTokens clause         // sets, on tokens t
	setsOnCounts clause         // sets, on token_counts c
	setsHold     bool           // sets hold for every token of the tenant
	residual     []storage.Cond // rest, without the terms that drive evaluates

	drive    *driver // the index that the list is read from, if any
	unsorted bool    // drive has too many rows to sort, so a page is read without it
	pairs    []pair  // otherwise the pairs that the list is merged from, if any
	inSets   int     // number of tokens in the sets
	times    span    // bound on ords, from conditions on the time of creation
	within   span    // bound of the current range, including times
	empty    bool    // no token can be in the list
}

// pair is a set and a type, with the number of their tokens.
type pair struct {
	set  storage.Hash
	kind string
	n    int
}

func (s *Store) newTokenList(ctx context.Context, f storage.TokenFilter) (*tokenList, error) {
	l := &tokenList{store: s, filter: f, tenant: s.dialect.ID(f.Tenant)}
	for _, term := range conjuncts(f.Where) {
		if onSets(term) {
			l.sets = append(l.sets, term)
		} else {
			l.rest = append(l.rest, term)
		}
	}
	if len(l.rest) == 0 && f.Offset == 0 {
		l.store = s.prepares()
	}
	var err error
	if _, err = compile(&s.dialect, f.Tenant, "t", f.Where); err != nil {
		return nil, err
	}
	if l.setsOnTokens, err = compile(&s.dialect, f.Tenant, "t", storage.And(l.sets)); err != nil {
		return nil, err
	}
	if l.setsOnCounts, err = compile(&s.dialect, f.Tenant, "c", storage.And(l.sets)); err != nil {
		return nil, err
	}
	if err := l.choose(ctx); err != nil {
		return nil, err
	}
	if len(l.pairs) > preparedPairs {
		l.store = s
	}
	if l.unsorted && (len(l.rest) > 1 || len(l.sets) > 0 && !l.setsHold) {
		l.drive, l.unsorted = nil, false // other conditions could reject all of its rows
	}
	l.residual = l.rest
	if l.drive != nil && l.drive.exact {
		l.residual = slices.Delete(slices.Clone(l.rest), l.drive.at, l.drive.at+1)
	}
	if l.takeTimes(); l.rejects() {
		l.store = s // the number of rows decides the plan
	}
	return l, nil
}

// driving reports whether the list is read from drive.
func (l *tokenList) driving(paging bool) bool { return l.drive != nil && !(paging && l.unsorted) }

// choose decides which index the list is read from.
func (l *tokenList) choose(ctx context.Context) error {
	candidates, err := l.store.drivers(ctx, l.filter.Tenant, l.rest)
	if err != nil {
		return err
	}
	if len(l.sets) > 0 {
		if err := l.findPairs(ctx); err != nil || l.empty {
			return err
		}
	}
	if len(candidates) == 0 {
		return l.driveBySets()
	}
	best, err := l.store.best(ctx, candidates, l.filter.CountUpTo)
	if err != nil {
		return err
	}
	probed := []driver{best}
	switch {
	case best.unordered:
		err = l.store.probe(ctx, probed, fewRows)
	case l.pairs != nil && len(candidates) == 1:
		err = l.store.probe(ctx, probed, min(l.inSets+1, enoughRows))
	}
	if err != nil {
		return err
	}
	best = probed[0]
	if l.pairs == nil || best.rows <= l.inSets {
		l.drive, l.unsorted = &best, best.unordered && best.rows >= fewRows
	}
	return nil
}

// findPairs finds the pairs of set and type in the list, and how many tokens
// they have. If there are too many pairs to merge, it keeps none.
func (l *tokenList) findPairs(ctx context.Context) (err error) {
	if l.pairs, l.inSets, err = l.pairsWhere(ctx, l.setsOnCounts); err != nil {
		return err
	}
	if len(l.pairs) <= maxPairs {
		l.empty = len(l.pairs) == 0
		return l.findOthers(ctx)
	}
	l.pairs = nil
	l.inSets, err = l.store.count(ctx, `SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c
		WHERE c.tenant_id = ? AND `+l.setsOnCounts.text, append([]any{l.tenant}, l.setsOnCounts.args...)...)
	return err
}

// pairsWhere returns the pairs that meet a condition on token_counts c, and how
// many tokens they have. If there are more than maxPairs, it returns only some.
func (l *tokenList) pairsWhere(ctx context.Context, where clause) (pairs []pair, tokens int, err error) {
	var p pair
	err = l.store.each(ctx, `SELECT c.set_id, c.type, CAST(SUM(c.n) AS bigint) FROM vault_token_counts c
		WHERE c.tenant_id = ? AND `+where.text+`
		GROUP BY c.set_id, c.type HAVING SUM(c.n) > 0 LIMIT ?`, slices.Concat([]any{l.tenant}, where.args, []any{maxPairs + 1}),
		[]Field{{&p.set}, {&p.kind}, {&p.n}}, func() {
			pairs = append(pairs, p)
			tokens += p.n
		})
	return pairs, tokens, err
}

// findOthers checks whether all tokens are in the sets. It does so only if
// there are other conditions, because then tokens are counted one by one.
func (l *tokenList) findOthers(ctx context.Context) error {
	if len(l.rest) == 0 {
		return nil
	}
	tokens, err := l.store.count(ctx, `SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c WHERE c.tenant_id = ?`, l.tenant)
	l.setsHold = tokens == l.inSets
	return err
}

// driveBySets reads the list from the index on sets if there are too many pairs
// to merge, but few enough tokens to sort.
func (l *tokenList) driveBySets() error {
	if l.pairs != nil || len(l.sets) == 0 || l.inSets > fewRows {
		return nil
	}
	bySet, _, err := l.store.tokenDriver(l.filter.Tenant, storage.And(l.sets))
	bySet.exact = false
	l.drive = &bySet
	return err
}

// ords returns the query for the ords of a page, as o, in the order of the
// list. If there are several parts, it takes as many rows of each as the page
// could need, in the order of an index, and sorts them.
func (l *tokenList) ords(limit, offset int) clause {
	parts := l.found(true, span{})
	if len(parts) == 1 {
		return l.inOrder(parts[0], limit, offset)
	}
	for i := range parts {
		parts[i] = l.inOrder(parts[i], limit+offset, 0)
	}
	return l.merge(all(parts, 0, l.drive != nil), limit, offset)
}

func (l *tokenList) merge(parts clause, limit, offset int) clause {
	return l.inOrder(clause{`SELECT m.o FROM (` + parts.text + `) m`, parts.args}, limit, offset)
}

func (l *tokenList) inOrder(part clause, limit, offset int) clause {
	return clause{part.text + ` ORDER BY o ` + order(&l.filter) + limited(limit, offset), part.args}
}

// limited ends a query after some rows. The numbers are part of the text,
// because the plan of a prepared query depends on them.
func limited(limit, offset int) string {
	text := " LIMIT " + strconv.Itoa(limit)
	if offset > 0 {
		text += " OFFSET " + strconv.Itoa(offset)
	}
	return text
}

// found returns queries whose union is the ords, as o, of the tokens in the
// list within a bound. They are for a page, or for counting. The queries of a
// driver may overlap.
func (l *tokenList) found(paging bool, bound span) []clause {
	deep := !paging || l.filter.Offset >= deepOffset
	bound = bound.and(l.within).and(l.before())
	rest := slices.DeleteFunc(slices.Clone(l.rest), isSpan)
	switch {
	case l.driving(paging):
		parts := make([]clause, len(l.drive.parts))
		for i, part := range l.drive.parts {
			parts[i] = l.driven(part, deep, bound)
		}
		return parts
	case l.pairs != nil:
		parts := make([]clause, len(l.pairs))
		for i := range l.pairs {
			p := &l.pairs[i]
			pair := clause{"t.set_id = ? AND t.type = ?", []any{p.set[:], p.kind}}
			parts[i] = l.scanned([]clause{pair, l.on("t", rest)}, deep, bound)
		}
		return parts
	default:
		return []clause{l.scanned([]clause{l.setsOnTokens, l.on("t", rest)}, deep, bound)}
	}
}

// driven reads an index. It also reads the token of each row if a condition
// uses more than the ord. It does so in a scalar subquery, because a database
// could start a join with all tokens.
func (l *tokenList) driven(part clause, deep bool, bound span) clause {
	others := slices.DeleteFunc(slices.Clone(l.residual), onOrd)
	byOrd := slices.DeleteFunc(slices.Clone(l.residual), func(c storage.Cond) bool { return !onOrd(c) })
	conditions := []clause{bound.on(&l.store.dialect, "d"), l.on("d", byOrd)}
	inSets := len(l.sets) == 0 || l.setsHold
	if deep && inSets && len(others) == 0 {
		conditions = append(conditions, l.live("d", true))
	} else {
		token := []clause{{text: "t.ord = d.ord"}, l.on("t", others), l.live("t", deep)}
		if !inSets {
			token = append(token, l.setsOnTokens)
		}
		is, at := join(token, " AND "), l.store.tokenAt("d.ord", l.tenant)
		conditions = append(conditions, clause{`(SELECT CASE WHEN ` + is.text + ` THEN 1 END` + at.text + `)`, slices.Concat(is.args, at.args)}.some())
	}
	where := join(conditions, " AND ")
	return clause{`SELECT d.ord AS o FROM (` + part.text + `) d WHERE ` + where.text, slices.Concat(part.args, where.args)}
}

// tokenAt selects from the tenant's token t with an ord. On PostgreSQL it may
// select the next token instead, so the caller compares the ords.
//
// vault_tokens has several indexes that start with the tenant. If ANALYZE has
// not seen a tenant, PostgreSQL expects no rows and finds all these indexes
// equally cheap, so it may look for an ord in the wrong one. Only the primary
// key has the tokens in the order of ords.
func (s *Store) tokenAt(ord string, tenant any) clause {
	if s.dialect.Lateral {
		return clause{` FROM vault_tokens t WHERE t.tenant_id = ? AND t.ord >= ` + ord + ` ORDER BY t.ord LIMIT 1`, []any{tenant}}
	}
	return clause{` FROM vault_tokens t WHERE t.tenant_id = ? AND t.ord = ` + ord, []any{tenant}}
}

// scanned reads the tokens within a bound that match the conditions.
func (l *tokenList) scanned(conditions []clause, deep bool, bound span) clause {
	where := join(append([]clause{{"t.tenant_id = ?", []any{l.tenant}}, bound.on(&l.store.dialect, "t"), l.live("t", deep)}, conditions...), " AND ")
	return clause{`SELECT t.ord AS o FROM vault_tokens t WHERE ` + where.text, where.args}
}

// on returns the conjunction of conditions on the table with an alias.
// newTokenList has compiled the same conditions before. A time of creation that is
// more than a span still compares ords. They are hidden, so that the span alone
// bounds the scan.
func (l *tokenList) on(alias string, conds []storage.Cond) clause {
	all := []clause{always}
	for _, cond := range conds {
		c, err := compile(&l.store.dialect, l.filter.Tenant, alias, cond)
		if err != nil {
			return never // unreachable: newTokenList has compiled the same conditions
		}
		if _, created := createdIn(cond); created {
			c = c.hidden()
		}
		all = append(all, c)
	}
	return join(all, " AND ")
}

// live excludes expired tokens. If many rows are skipped, it does so without
// reading each row on the way, because few expired tokens are not deleted yet.
func (l *tokenList) live(alias string, deep bool) clause {
	if l.filter.Now.IsZero() {
		return always
	}
	now := l.filter.Now.UnixMicro()
	if !deep {
		return clause{`(` + alias + `.expires_at IS NULL OR ` + alias + `.expires_at > ?)`, []any{now}}
	}
	return clause{alias + `.ord NOT IN (SELECT e.ord FROM vault_tokens e WHERE e.tenant_id = ? AND e.expires_at <= ?)`,
		[]any{l.tenant, now}}
}

// before returns the ords that the page may have.
func (l *tokenList) before() span {
	if l.filter.Before.IsZero() {
		return span{}
	}
	return l.beyond(l.filter.Before)
}

// beyond returns the ords of tokens that come after a place in the list.
func (l *tokenList) beyond(place storage.ID) span {
	if l.filter.OldestFirst {
		return spanAfter(place)
	}
	return span{to: place, none: place.IsZero()}
}

// upTo returns the ords of tokens up to a place in the list, including the place.
func (l *tokenList) upTo(place storage.ID) span {
	if l.filter.OldestFirst {
		return spanThrough(place)
	}
	return span{from: place}
}

// order returns the direction of a list.
func order(f *storage.TokenFilter) string {
	if f.OldestFirst {
		return "ASC"
	}
	return "DESC"
}

// total counts the tokens on all pages, without the expired ones. If rows have
// to be counted, it may stop early.
func (l *tokenList) total(ctx context.Context) (int, error) {
	if l.rejects() && len(l.rest) > 0 && !l.unsorted {
		return l.countRanges(ctx)
	}
	if len(l.rest) > 0 {
		return l.count(ctx, span{}, l.filter.CountUpTo)
	}
	counted := `SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c WHERE c.tenant_id = ? AND ` + l.setsOnCounts.text
	args := append([]any{l.tenant}, l.setsOnCounts.args...)
	if l.filter.Now.IsZero() {
		return l.store.count(ctx, counted, args...)
	}
	// Usually no token has expired, which is quick to check. A plan for
	// counting tokens that have expired at any time would expect a third of all
	// tokens.
	const expired = ` FROM vault_tokens t WHERE t.tenant_id = ? AND t.expires_at <= ?`
	args = append(args, l.tenant, l.filter.Now.UnixMicro())
	var n, some int
	err := l.store.each(ctx, `SELECT (`+counted+`), COALESCE((SELECT 1`+expired+` LIMIT 1), 0)`, args,
		[]Field{{&n}, {&some}}, func() {})
	if err != nil || some == 0 {
		return n, err
	}
	inSets := l.setsOnTokens.hidden()
	return l.store.count(ctx, `SELECT (`+counted+`) - (SELECT count(*)`+expired+` AND `+inSets.text+`)`, append(args, inSets.args...)...)
}

// count counts the tokens within a bound on their ords, row by row, up to most if
// that is not zero.
func (l *tokenList) count(ctx context.Context, bound span, most int) (int, error) {
	if hash, ok := l.lacks(); ok {
		return l.countWithout(ctx, bound, hash)
	}
	parts, overlap := l.found(false, bound), l.drive != nil
	if most == 0 {
		query := all(parts, 0, overlap)
		return l.store.count(ctx, `SELECT count(*) FROM (`+query.text+`) f`, query.args...)
	}
	each := 0
	if overlap && len(parts) > 1 {
		each = most // so that no more rows are compared than could count
	}
	if (len(parts) == 1 || each > 0) && !(overlap && l.drive.unordered) {
		for i := range parts {
			parts[i].text += ` ORDER BY o ` + order(&l.filter) // so that few rows are read
		}
	}
	query := all(parts, each, overlap)
	return l.store.count(ctx, `SELECT count(*) FROM (SELECT * FROM (`+query.text+`) f LIMIT ?) c`, append(query.args, most)...)
}

// lacks returns the hash that the tokens of a list must not have, if that is its only
// condition besides a span.
func (l *tokenList) lacks() (hash storage.HashIs, ok bool) {
	rest := slices.DeleteFunc(slices.Clone(l.rest), isSpan)
	if len(rest) != 1 || l.drive != nil || len(l.sets) > 0 && !l.setsHold {
		return hash, false
	}
	not, _ := rest[0].(storage.Not)
	hash, ok = not.Cond.(storage.HashIs)
	return hash, ok
}

// countWithout counts the tokens without a hash within a bound: all of them, minus
// those with the hash. Both are entries of an index, so no entry is looked up in
// another.
func (l *tokenList) countWithout(ctx context.Context, bound span, hash storage.HashIs) (int, error) {
	bound = bound.and(l.within).and(l.before())
	all := l.scanned(nil, true, bound)
	within, live := bound.on(&l.store.dialect, "h"), l.live("h", true)
	n, err := l.store.count(ctx, `SELECT (SELECT count(*) FROM (`+all.text+`) a) - (SELECT count(*) FROM vault_token_hashes h
		WHERE h.tenant_id = ? AND h.hash = ? AND `+within.text+` AND `+live.text+`)`,
		slices.Concat(all.args, []any{l.tenant, hash[:]}, within.args, live.args)...)
	return max(n, 0), err
}
