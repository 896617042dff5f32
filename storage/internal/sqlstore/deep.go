package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// skipFrom is the offset from which looking for a nearby place is worthwhile.
const skipFrom = 1000

// skip moves the start of a list close to its offset, if the list depends only
// on sets and types. It skips tokens in an index without checking whether they
// have expired. Few have, and they are counted separately.
func skip(ctx context.Context, lists []*tokenList, f *storage.TokenFilter) error {
	l := lists[0]
	if len(lists) > 1 || l.drive != nil || len(l.rest) > 0 || f.Offset < skipFrom || !l.filter.Before.IsZero() {
		return nil
	}
	for f.Offset >= skipFrom {
		place, before, err := l.placeNear(ctx, f.Offset)
		if err != nil || before <= 0 {
			return err
		}
		l.filter.Before, f.Offset = place, f.Offset-before
		l.filter.Offset = f.Offset
	}
	return nil
}

// placeNear returns a token at or shortly before an offset, and how many tokens
// come up to it. It returns zero if it finds none.
func (l *tokenList) placeNear(ctx context.Context, offset int) (storage.ID, int, error) {
	switch {
	case len(l.sets) == 0:
		return l.placeIn(ctx, nil, offset)
	case len(l.pairs) == 1:
		return l.placeIn(ctx, &l.pairs[0], offset)
	case len(l.pairs) > 1:
		return l.placeAmong(ctx, offset)
	default: // too many pairs
		return storage.ID{}, 0, nil
	}
}

// placeIn is placeNear for one pair, or for all tokens. The offset includes
// expired tokens.
func (l *tokenList) placeIn(ctx context.Context, p *pair, offset int) (place storage.ID, before int, err error) {
	place, err = l.tokenAt(ctx, p, offset-1)
	if err != nil || place.IsZero() {
		return place, 0, err
	}
	expired, err := l.expired(ctx, l.upTo(place))
	return place, offset - expired, err
}

// placeAmong is placeNear for a list merged from pairs, without sorting the
// list up to that place. It picks a token of the largest pair, slightly before
// the same relative position.
func (l *tokenList) placeAmong(ctx context.Context, offset int) (storage.ID, int, error) {
	largest, tokens := l.pairs[0], 0
	for _, p := range l.pairs {
		tokens += p.n
		if p.n > largest.n {
			largest = p
		}
	}
	at := int(int64(offset) * int64(largest.n) / int64(tokens))
	for at -= at/64 + 8; at > 0 && at < largest.n; at /= 2 {
		place, err := l.tokenAt(ctx, &largest, at)
		if err != nil || place.IsZero() {
			return place, 0, err
		}
		before, err := l.countUpTo(ctx, place, &largest, at)
		if err != nil || before <= offset {
			return place, before, err
		}
	}
	return storage.ID{}, 0, nil
}

// countUpTo counts the tokens of a list up to a place, which is at a known
// position in one pair. It counts the other pairs in their index.
func (l *tokenList) countUpTo(ctx context.Context, place storage.ID, of *pair, at int) (int, error) {
	others := *l
	others.pairs = slices.DeleteFunc(slices.Clone(l.pairs), func(p pair) bool { return p == *of })
	others.filter.Now = time.Time{}
	n, err := others.count(ctx, l.upTo(place), 0)
	if err != nil {
		return 0, err
	}
	expired, err := l.expired(ctx, l.upTo(place))
	return at + 1 + n - expired, err
}

// expired counts the expired tokens in the sets of the list, within a bound on
// their ords.
func (l *tokenList) expired(ctx context.Context, bound span) (int, error) {
	if l.filter.Now.IsZero() {
		return 0, nil
	}
	where := join([]clause{l.over(bound), l.setsOnTokens.hidden()}, " AND ")
	return l.store.count(ctx, `SELECT count(*) FROM vault_tokens t WHERE `+where.text, where.args...)
}

// over returns the condition for expired tokens t within a bound on their ords.
// It hides the bound from the database, so that the database uses the index on
// expiry, which has fewer rows.
func (l *tokenList) over(bound span) clause {
	within := bound.and(l.before()).on(&l.store.dialect, "t").hidden()
	return clause{"t.tenant_id = ? AND t.expires_at <= ? AND " + within.text,
		append([]any{l.tenant, l.filter.Now.UnixMicro()}, within.args...)}
}

// allTokens selects the number of a tenant's tokens, including expired ones.
const allTokens = `SELECT CAST(COALESCE(SUM(c.n), 0) AS bigint) FROM vault_token_counts c WHERE c.tenant_id = ?`

// tokenAt returns the ord of the token at a position of a pair, or of all
// tokens. It returns zero if there are not that many. Expired tokens count.
func (l *tokenList) tokenAt(ctx context.Context, p *pair, at int) (storage.ID, error) {
	direction := order(&l.filter)
	where := join([]clause{{"t.tenant_id = ?", []any{l.tenant}}, l.before().on(&l.store.dialect, "t")}, " AND ")
	switch {
	case p != nil:
		where = join([]clause{where, {"t.set_id = ? AND t.type = ?", []any{p.set[:], p.kind}}}, " AND ")
	case l.filter.Before.IsZero():
		n, err := l.store.count(ctx, allTokens, l.tenant)
		if err != nil || at >= n {
			return storage.ID{}, err
		}
		if l.store.dialect.CheckTenantLast {
			where.text = "t.tenant_id " + map[bool]string{true: ">=", false: "<="}[l.filter.OldestFirst] + " ?"
		}
	}
	var tenant, place storage.ID
	err := l.store.each(ctx, `SELECT t.tenant_id, t.ord FROM vault_tokens t WHERE `+where.text+`
		ORDER BY t.tenant_id `+direction+`, t.ord `+direction+` LIMIT 1 OFFSET ?`, append(slices.Clip(where.args), at),
		[]Field{{&tenant}, {&place}}, func() {})
	if tenant != l.filter.Tenant {
		return storage.ID{}, err
	}
	return place, err
}
