package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// maxPairs is how many pairs of set and type a page is merged from.
	maxPairs = 64
	// fewRows is up to how many rows are sorted rather than looked for in a
	// scan in the order of the list.
	fewRows = 20000
	// deepOffset is the offset from which on rows are skipped in an index,
	// without a look at each of them.
	deepOffset = 256
)

// ListTokens implements [storage.TokenReader].
//
// A list finds the ords of its page first, by the index that leads to the
// fewest rows, and then those rows. Totals come from token_counts as far as the
// filter is about set and type; expired rows are subtracted.
func (s *Store) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	f.Limit, f.Offset = max(f.Limit, 0), max(f.Offset, 0)
	lists, err := s.tokenLists(ctx, f)
	if err != nil || len(lists) == 0 {
		return nil, 0, err
	}
	var page []storage.Token
	if f.Limit > 0 {
		ords := mergeOrds(lists, f.Limit, f.Offset)
		query := `SELECT ` + tokenColumns + ` FROM (` + ords.text + `) p CROSS JOIN vault_tokens t
			WHERE t.tenant_id = ? AND t.ord = p.ord ORDER BY p.ord ` + order(&f)
		if page, err = s.tokens(ctx, nil, f.Tenant, f.MaxBytes, query, append(ords.args, s.dialect.ID(f.Tenant))); err != nil {
			return nil, 0, err
		}
	}
	if !f.Count {
		return page, 0, nil
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, f.Before); ok {
		return page, n, nil
	}
	total := 0
	for _, l := range lists {
		n, err := l.total(ctx)
		if err != nil {
			return nil, 0, err
		}
		total += n
	}
	return page, total, nil
}

// tokenLists returns lists that have no token in common, and together those of
// the filter. It leaves out those that have none.
func (s *Store) tokenLists(ctx context.Context, f storage.TokenFilter) ([]*tokenList, error) {
	var lists []*tokenList
	for _, where := range disjoint(f.Where) {
		part := f
		part.Where = where
		l, err := s.newTokenList(ctx, part)
		if err != nil {
			return nil, err
		}
		if !l.empty {
			lists = append(lists, l)
		}
	}
	return lists, nil
}

// disjoint splits a condition that says "in these sets, or something else" into
// two that exclude each other: tokens in sets are counted, and found in the
// order of the list, by other means than those of something else.
func disjoint(where storage.Cond) []storage.Cond {
	var sets, rest []storage.Cond
	for _, term := range conjuncts(where) {
		if onSets(term) {
			sets = append(sets, term)
		} else {
			rest = append(rest, term)
		}
	}
	if len(rest) != 1 {
		return []storage.Cond{where}
	}
	either, ok := rest[0].(storage.Or)
	if !ok {
		return []storage.Cond{where}
	}
	var inSets, others storage.Or
	for _, part := range either {
		if onSets(part) {
			inSets = append(inSets, part)
		} else {
			others = append(others, part)
		}
	}
	if len(inSets) == 0 || len(others) == 0 {
		return []storage.Cond{where}
	}
	return []storage.Cond{
		append(storage.And{inSets}, sets...),
		append(storage.And{storage.Not{Cond: inSets}, others}, sets...),
	}
}

// mergeOrds is the query for the ords of a page over all lists.
func mergeOrds(lists []*tokenList, limit, offset int) clause {
	if len(lists) == 1 {
		return lists[0].ords(limit, offset)
	}
	parts := make([]clause, len(lists))
	for i, l := range lists {
		parts[i] = l.ords(limit+offset, 0)
	}
	return merge(parts, order(&lists[0].filter), limit, offset)
}

// merge is the query for a page of what several queries for ords return.
func merge(parts []clause, order string, limit, offset int) clause {
	texts := make([]string, len(parts))
	var args []any
	for i, part := range parts {
		texts[i] = `SELECT * FROM (` + part.text + `) q`
		args = append(args, part.args...)
	}
	return clause{`SELECT m.ord FROM (` + strings.Join(texts, " UNION ALL ") + `) m ORDER BY m.ord ` + order + ` LIMIT ? OFFSET ?`,
		append(args, limit, offset)}
}

// tokenList is a list of tokens and the way that was chosen to it.
type tokenList struct {
	store  *Store
	filter storage.TokenFilter
	tenant any
	where  clause // the whole condition, on tokens t

	// The condition is the conjunction of these.
	sets, rest   []storage.Cond
	setsOnTokens clause // sets, on tokens t
	setsOnCounts clause // sets, on token_counts c
	residual     clause // rest, less what drive answers, on tokens t

	drive *driver // the index that the list is read from, if any
	pairs []pair  // else the pairs that it is merged from, if any
	empty bool    // no token can be in it
}

// pair is a set and a type, and how many tokens have them.
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
	var err error
	if l.where, err = compile(&s.dialect, "t", f.Where); err != nil {
		return nil, err
	}
	if l.setsOnTokens, err = compile(&s.dialect, "t", storage.And(l.sets)); err != nil {
		return nil, err
	}
	if l.setsOnCounts, err = compile(&s.dialect, "c", storage.And(l.sets)); err != nil {
		return nil, err
	}
	if err := l.choose(ctx); err != nil {
		return nil, err
	}
	rest := l.rest
	if l.drive != nil && l.drive.exact {
		rest = slices.Delete(slices.Clone(l.rest), l.drive.at, l.drive.at+1)
	}
	l.residual, err = compile(&s.dialect, "t", storage.And(rest))
	return l, err
}

// choose decides which index the list is read from.
func (l *tokenList) choose(ctx context.Context) error {
	candidates, err := l.store.drivers(l.filter.Tenant, l.rest)
	if err != nil {
		return err
	}
	if len(candidates) == 1 && len(l.sets) == 0 {
		l.drive = &candidates[0]
		return nil
	}
	inSets := probeRows
	if len(l.sets) > 0 {
		if inSets, err = l.findPairs(ctx); err != nil || l.empty {
			return err
		}
	}
	if len(candidates) == 0 {
		return l.driveBySets(inSets)
	}
	best, err := l.store.best(ctx, candidates)
	if err != nil {
		return err
	}
	if best.rows <= inSets || l.pairs == nil {
		l.drive = &best
	}
	return nil
}

// findPairs looks up which pairs of set and type the list is about, and returns
// how many tokens have them. When the pairs are too many to merge, it keeps none.
func (l *tokenList) findPairs(ctx context.Context) (int, error) {
	args := append([]any{l.tenant}, l.setsOnCounts.args...)
	var p pair
	total := 0
	err := l.store.each(ctx, `SELECT c.set_id, c.type, CAST(SUM(c.n) AS bigint) FROM vault_token_counts c
		WHERE c.tenant_id = ? AND `+l.setsOnCounts.text+`
		GROUP BY c.set_id, c.type HAVING SUM(c.n) > 0 LIMIT ?`, append(args, maxPairs+1),
		[]sql.Scanner{(*hashColumn)(&p.set), (*textColumn)(&p.kind), (*intColumn)(&p.n)}, func() {
			l.pairs = append(l.pairs, p)
			total += p.n
		})
	if err != nil || len(l.pairs) <= maxPairs {
		l.empty = err == nil && len(l.pairs) == 0
		return total, err
	}
	l.pairs = nil
	total, err = l.store.count(ctx, `SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c
		WHERE c.tenant_id = ? AND `+l.setsOnCounts.text, args...)
	return total, err
}

// driveBySets reads the list from the index of sets if its pairs are too many
// to merge, but its tokens few enough to sort.
func (l *tokenList) driveBySets(tokens int) error {
	if l.pairs != nil || len(l.sets) == 0 || tokens > fewRows {
		return nil
	}
	bySet, _, err := l.store.tokenDriver(l.filter.Tenant, storage.And(l.sets))
	bySet.exact = false
	l.drive = &bySet
	return err
}

// ords is the query for the ords of a page, in the order of the list.
func (l *tokenList) ords(limit, offset int) clause {
	switch {
	case l.drive != nil:
		return l.drivenOrds(limit, offset)
	case l.pairs != nil:
		return l.mergedOrds(limit, offset)
	default:
		return l.scannedOrds(clause{"t.tenant_id = ? AND " + l.where.text, append([]any{l.tenant}, l.where.args...)},
			limit, offset)
	}
}

// drivenOrds reads an index, and the token of each of its rows. The join is a
// CROSS JOIN because SQLite then does not turn it around.
func (l *tokenList) drivenOrds(limit, offset int) clause {
	live, before := l.live("t"), l.before("d")
	return clause{
		`SELECT d.ord FROM (` + l.drive.ords.text + `) d CROSS JOIN vault_tokens t
		WHERE t.tenant_id = ? AND t.ord = d.ord AND ` + and([]string{l.setsOnTokens.text, l.residual.text, live.text, before.text}) + `
		ORDER BY d.ord ` + order(&l.filter) + ` LIMIT ? OFFSET ?`,
		slices.Concat(l.drive.ords.args, []any{l.tenant}, l.setsOnTokens.args, l.residual.args, live.args, before.args,
			[]any{limit, offset}),
	}
}

// mergedOrds takes as many rows from every pair as the page could need, each in
// the order of an index, and sorts those.
func (l *tokenList) mergedOrds(limit, offset int) clause {
	parts := make([]clause, len(l.pairs))
	for i := range l.pairs {
		p := &l.pairs[i]
		where := clause{"t.tenant_id = ? AND t.set_id = ? AND t.type = ? AND " + l.residual.text,
			append([]any{l.tenant, p.set[:], p.kind}, l.residual.args...)}
		parts[i] = l.scannedOrds(where, limit+offset, 0)
	}
	return merge(parts, order(&l.filter), limit, offset)
}

// scannedOrds reads the tokens t that a condition holds for, in their order.
func (l *tokenList) scannedOrds(where clause, limit, offset int) clause {
	live, before := l.live("t"), l.before("t")
	return clause{
		`SELECT t.ord FROM vault_tokens t WHERE ` + and([]string{where.text, live.text, before.text}) + `
		ORDER BY t.ord ` + order(&l.filter) + ` LIMIT ? OFFSET ?`,
		slices.Concat(where.args, live.args, before.args, []any{limit, offset}),
	}
}

// live leaves out expired tokens. Far into a list it does so without a look at
// every row on the way: those that have expired, but are still there, are few.
func (l *tokenList) live(alias string) clause {
	if l.filter.Now.IsZero() {
		return always
	}
	now := l.filter.Now.UnixMicro()
	if l.filter.Offset < deepOffset {
		return clause{`(` + alias + `.expires_at IS NULL OR ` + alias + `.expires_at > ?)`, []any{now}}
	}
	return clause{alias + `.ord NOT IN (SELECT e.ord FROM vault_tokens e WHERE e.tenant_id = ? AND e.expires_at <= ?)`,
		[]any{l.tenant, now}}
}

func (l *tokenList) before(alias string) clause {
	if l.filter.Before.IsZero() {
		return always
	}
	beyond := `.ord < ?`
	if l.filter.OldestFirst {
		beyond = `.ord > ?`
	}
	return clause{alias + beyond, []any{l.store.dialect.ID(l.filter.Before)}}
}

// order is the direction of a list.
func order(f *storage.TokenFilter) string {
	if f.OldestFirst {
		return "ASC"
	}
	return "DESC"
}

// total counts the tokens over all pages: those of the condition, less those of
// them that have expired. Where rows have to be counted, it may stop early.
func (l *tokenList) total(ctx context.Context) (int, error) {
	if most := l.filter.CountUpTo; most > 0 && len(l.rest) > 0 {
		found := l.ords(most, 0)
		return l.store.count(ctx, `SELECT count(*) FROM (`+found.text+`) f`, found.args...)
	}
	all := l.countAll()
	if l.filter.Now.IsZero() {
		return l.store.count(ctx, all.text, all.args...)
	}
	return l.store.count(ctx, `SELECT (`+all.text+`) - (
		SELECT count(*) FROM (SELECT e.ord FROM vault_tokens e WHERE e.tenant_id = ? AND e.expires_at <= ?) e
		CROSS JOIN vault_tokens t WHERE t.tenant_id = ? AND t.ord = e.ord AND `+l.where.text+`)`,
		slices.Concat(all.args, []any{l.tenant, l.filter.Now.UnixMicro(), l.tenant}, l.where.args)...)
}

// countAll is the query for the number of tokens that the condition holds for,
// expired ones too.
func (l *tokenList) countAll() clause {
	switch {
	case len(l.rest) == 0:
		return clause{`SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c WHERE c.tenant_id = ? AND ` +
			l.setsOnCounts.text, append([]any{l.tenant}, l.setsOnCounts.args...)}
	case l.drive != nil && l.drive.exact && len(l.rest) == 1 && len(l.sets) == 0:
		return clause{`SELECT count(*) FROM (` + l.drive.ords.text + `) d`, l.drive.ords.args}
	case l.drive != nil:
		return clause{`SELECT count(*) FROM (` + l.drive.ords.text + `) d CROSS JOIN vault_tokens t
			WHERE t.tenant_id = ? AND t.ord = d.ord AND ` + l.setsOnTokens.text + ` AND ` + l.residual.text,
			slices.Concat(l.drive.ords.args, []any{l.tenant}, l.setsOnTokens.args, l.residual.args)}
	default:
		return clause{`SELECT count(*) FROM vault_tokens t WHERE t.tenant_id = ? AND ` + l.where.text,
			append([]any{l.tenant}, l.where.args...)}
	}
}
