package sqlstore

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// maxPairs is the largest number of pairs of set and type that a page is
	// merged from.
	maxPairs = 64
	// preparedPairs is the largest number of pairs for which a page is
	// prepared. Each pair is a part of the plan, which the server keeps in
	// memory for every connection.
	preparedPairs = 12
	// fewRows is the number of rows up to which sorting is better than a scan
	// in the order of the list.
	fewRows = 20000
	// enoughRows is the number of tokens in the sets from which another index
	// is used instead, however many rows it has.
	enoughRows = 2000
	// deepOffset is the offset from which rows are skipped in an index, without
	// reading each row.
	deepOffset = 256
)

// ListTokens implements [storage.TokenReader].
//
// A list first finds the ords of its page, using the index with the fewest
// rows. Then it reads those rows and checks the whole condition. Totals come
// from token_counts if the filter uses only set and type, minus the expired rows.
func (s *Store) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	leave, err := s.enterList(ctx, f.Tenant)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	ctx, s = s.of(ctx, f.Tenant), s.inListLimit(&f)
	f.Limit, f.Offset = max(f.Limit, 0), max(f.Offset, 0)
	lists, err := s.tokenLists(ctx, f)
	if err != nil || len(lists) == 0 {
		return nil, 0, err
	}
	exact := f.Count && f.CountUpTo == 0 && f.Before.IsZero() // all tokens of the filter are counted
	total, known := 0, exact && f.Offset >= deepOffset
	if known {
		if total, err = sumTotals(ctx, lists); err != nil || f.Offset >= total {
			return nil, total, err
		}
	}
	page, err := s.pageOf(ctx, lists, f, total)
	if err != nil {
		return nil, 0, err
	}
	if !f.Count {
		return page, 0, nil
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, f.Before); ok && !known {
		return page, n, nil
	}
	if !known {
		if total, err = sumTotals(ctx, lists); err != nil {
			return nil, 0, err
		}
	}
	return page, total, nil
}

// pageOf reads the page of a list. If the total is known and the page is nearer
// to the end, it reads from the end.
func (s *Store) pageOf(ctx context.Context, lists []*tokenList, f storage.TokenFilter, total int) ([]storage.Token, error) {
	if f.Limit == 0 {
		return nil, nil
	}
	backwards := f.Offset > total/2 && total > 0
	if backwards {
		f.Limit = min(f.Limit, total-f.Offset)
		f.Offset = total - f.Offset - f.Limit
		f.OldestFirst = !f.OldestFirst
	}
	for _, l := range lists {
		l.filter.OldestFirst, l.filter.Offset = f.OldestFirst, f.Offset
	}
	if err := skip(ctx, lists, &f); err != nil {
		return nil, err
	}
	read := s.readPage
	if slices.ContainsFunc(lists, (*tokenList).rejects) {
		read = s.readRanges
	}
	page, err := read(ctx, lists, f)
	if backwards {
		slices.Reverse(page)
	}
	return page, err
}

// readPage reads a page in the order of the filter.
func (s *Store) readPage(ctx context.Context, lists []*tokenList, f storage.TokenFilter) ([]storage.Token, error) {
	ords := mergeOrds(lists, f.Limit, f.Offset)
	where, err := compile(&s.dialect, f.Tenant, "t", f.Where)
	if err != nil {
		return nil, err
	}
	where = where.hidden()
	tenant := s.dialect.ID(f.Tenant)
	token := clause{`vault_tokens t WHERE t.tenant_id = ? AND t.ord = p.o`, []any{tenant}}
	if s.dialect.Lateral {
		token = s.tokenAt("p.o", tenant)
		token.text = `LATERAL (SELECT *` + token.text + `) t WHERE t.ord = p.o`
	}
	query := func(columns string) string {
		return `SELECT ` + columns + ` FROM (` + ords.text + `) p CROSS JOIN ` + token.text + `
			AND ` + where.text + ` ORDER BY p.o ` + order(&f)
	}
	store := s
	if len(lists) == 1 {
		store = lists[0].store
	}
	return store.pageTokens(ctx, &f, query, slices.Concat(ords.args, token.args, where.args))
}

func sumTotals(ctx context.Context, lists []*tokenList) (total int, err error) {
	for _, l := range lists {
		n, err := l.total(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// tokenLists returns disjoint lists that together have the tokens of the
// filter. It omits lists that are empty.
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

// disjoint splits a condition of the form "in these sets, or something else"
// into two that exclude each other. Tokens in sets are counted, and found in
// the order of the list, in different ways than others.
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

// mergeOrds returns the query for the ords of a page over all lists, as o.
func mergeOrds(lists []*tokenList, limit, offset int) clause {
	if len(lists) == 1 {
		return lists[0].ords(limit, offset)
	}
	parts := make([]clause, len(lists))
	for i, l := range lists {
		parts[i] = l.ords(limit+offset, 0)
	}
	return lists[0].merge(all(parts, 0, false), limit, offset)
}

// Count implements [storage.Counter].
func (s *Store) Count(ctx context.Context, f storage.CountFilter) (storage.Counts, error) {
	var n storage.Counts
	if err := s.ready(ctx); err != nil {
		return n, err
	}
	ctx = s.of(ctx, f.Tenant)
	var err error
	if n.Tokens, err = s.countTokens(ctx, f); err != nil {
		return n, err
	}
	if n.Logs, err = s.newLogList(storage.LogFilter{Tenant: f.Tenant}).total(ctx); err != nil {
		return n, err
	}
	n.Records, err = s.count(ctx, `SELECT count(*) FROM (SELECT 1 FROM vault_records r
		WHERE r.tenant_id = ? AND r.kind = ? AND (r.expires_at IS NULL OR r.expires_at > ?) LIMIT ?) f`,
		s.dialect.ID(f.Tenant), f.Kind, f.Now.UnixMicro(), f.UpTo)
	if err != nil {
		return n, err
	}
	return n, s.countJobs(ctx, f, &n)
}

// countTokens subtracts expired tokens that are not deleted yet from the
// counters. They are few.
func (s *Store) countTokens(ctx context.Context, f storage.CountFilter) ([]storage.TokenCount, error) {
	var all []storage.TokenCount
	var c storage.TokenCount
	tenant := s.dialect.ID(f.Tenant)
	err := s.each(ctx, `SELECT q.set_id, q.type, CAST(SUM(q.n) AS bigint) FROM (
			SELECT c.set_id, c.type, c.n FROM vault_token_counts c WHERE c.tenant_id = ?
			UNION ALL SELECT t.set_id, t.type, -1 FROM vault_tokens t WHERE t.tenant_id = ? AND t.expires_at <= ?
		) q GROUP BY q.set_id, q.type HAVING SUM(q.n) > 0`, []any{tenant, tenant, f.Now.UnixMicro()},
		[]Field{{&c.Set}, {&c.Type}, {&c.N}}, func() { all = append(all, c) })
	return all, err
}

// countJobs looks at no more than f.UpTo jobs.
func (s *Store) countJobs(ctx context.Context, f storage.CountFilter, n *storage.Counts) error {
	var state, count int
	return s.each(ctx, `SELECT f.state, count(*) FROM (
			SELECT CASE WHEN j.dead THEN 0 WHEN j.lease_until > ? THEN 1 ELSE 2 END AS state
			FROM vault_jobs j WHERE j.tenant_id = ? LIMIT ?
		) f GROUP BY f.state`, []any{f.Now.UnixMicro(), s.dialect.ID(f.Tenant), f.UpTo},
		[]Field{{&state}, {&count}}, func() {
			*[]*int{&n.Dead, &n.Running, &n.Waiting}[state] = count
		})
}
