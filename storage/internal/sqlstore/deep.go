package sqlstore

import (
	"context"
	"database/sql"

	"github.com/seed-72ea4aab/vault/storage"
)

// skipFrom is the offset from which on it pays to look for a place near to it.
const skipFrom = 1000

// skip moves the beginning of a list under rules near to its offset, so that the
// pairs that it is merged from need not be sorted up to there. The place is a token
// of the largest pair, as far into it as the offset is into all; how many tokens
// come before it is counted in the index, pair by pair.
func skip(ctx context.Context, lists []*tokenList, f *storage.TokenFilter) error {
	l := lists[0]
	if len(lists) > 1 || l.drive != nil || len(l.pairs) < 2 || len(l.rest) > 0 || f.Offset < skipFrom || !l.filter.Before.IsZero() {
		return nil
	}
	largest, tokens := l.pairs[0], 0
	for _, p := range l.pairs {
		tokens += p.n
		if p.n > largest.n {
			largest = p
		}
	}
	at := int(int64(f.Offset) * int64(largest.n) / int64(tokens))
	for at -= at/64 + 8; at > 0 && at < largest.n; at /= 2 {
		place, err := l.tokenAt(ctx, &largest, at)
		if err != nil || place.IsZero() {
			return err
		}
		before, err := l.count(ctx, clause{"{}.ord " + beyond(!l.filter.OldestFirst) + "= ?", []any{l.store.dialect.ID(place)}})
		if err != nil {
			return err
		}
		if before <= f.Offset {
			l.filter.Before, f.Offset = place, f.Offset-before
			return nil
		}
	}
	return nil
}

// tokenAt returns the ord of a token of a pair, as far into it as that; zero when
// there are not so many.
func (l *tokenList) tokenAt(ctx context.Context, p *pair, at int) (place storage.ID, err error) {
	query := `SELECT t.ord FROM vault_tokens t WHERE t.tenant_id = ? AND t.set_id = ? AND t.type = ? ORDER BY t.ord ` + order(&l.filter) + ` LIMIT 1 OFFSET ?`
	err = l.store.each(ctx, query, []any{l.tenant, p.set[:], p.kind, at}, []sql.Scanner{(*idColumn)(&place)}, func() {})
	return place, err
}
