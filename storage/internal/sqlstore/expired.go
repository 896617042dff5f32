package sqlstore

import (
	"context"
	"math"

	"github.com/seed-72ea4aab/vault/storage"
)

// Expired implements [storage.TokenReader].
func (s *Store) Expired(ctx context.Context, f storage.ExpiredFilter) (expired storage.Expired, err error) {
	now, limit := f.Now.UnixMicro(), max(f.Limit, 0)
	if expired.Tokens, err = s.expiredTokens(ctx, inTime(`t.expires_at`, `, t.tenant_id, t.ord`, f.Tokens, limit, ``, now)); err != nil {
		return storage.Expired{}, err
	}
	alive := ` AND (t.expires_at IS NULL OR t.expires_at > ?)`
	if expired.CVCs, err = s.expiredTokens(ctx, inTime(`t.cvc_expires_at`, `, t.tenant_id, t.ord`, f.CVCs, limit, alive, now, now)); err != nil {
		return storage.Expired{}, err
	}
	var r storage.Record
	due := inTime(`r.expires_at`, `, r.tenant_id, r.kind, r.id`, f.Records, limit, ``, now)
	expired.Records, err = expiredRows(ctx, s, recordColumns+` FROM vault_records r`, due, &r, recordDest(&r),
		func(r *storage.Record) []*[]byte { return []*[]byte{&r.Body} })
	if err != nil {
		return storage.Expired{}, err
	}
	return expired, nil
}

func (s *Store) expiredTokens(ctx context.Context, due clause) ([]storage.Token, error) {
	var t storage.Token
	dest := tokenDest(&t)
	return expiredRows(ctx, s, TokenColumns+`, t.tenant_id FROM vault_tokens t`, due, &t, append(dest[:], Field{&t.Tenant}),
		func(t *storage.Token) []*[]byte { return []*[]byte{&t.Body, &t.CVC} })
}

// inTime returns the condition for rows from a place in the order of a column,
// and of the key for rows with the same time. The first argument is the latest
// time, and the others are for more.
func inTime(column, key string, place storage.ExpiryPlace, limit int, more string, args ...any) clause {
	first := int64(math.MinInt64)
	if !place.From.IsZero() {
		first = place.From.UnixMicro()
	}
	if !place.Ordered {
		key = ``
	}
	return clause{column + ` >= ? AND ` + column + ` <= ?` + more + ` ORDER BY ` + column + key + ` LIMIT ? OFFSET ?`,
		append(append([]any{first}, args...), limit, max(place.Skip, 0))}
}

// expiredRows reads rows that are due, of one kind. dest scans into row, and
// sealed returns the sealed parts of a row.
func expiredRows[T any](ctx context.Context, s *Store, from string, due clause, row *T, dest []Field, sealed func(*T) []*[]byte) (found []T, err error) {
	malformed, size := false, pageBytes{most: s.piece}
	for i := range dest {
		dest[i] = Field{loose{dest[i], &malformed}}
	}
	restart := func() { found, size = nil, pageBytes{most: s.piece} }
	err = s.until(ctx, `SELECT `+from+` WHERE `+due.text, due.args, dest, restart, func() error {
		found = append(found, *row)
		bytes := 0
		for _, part := range sealed(&found[len(found)-1]) {
			if malformed {
				*part = nil
			}
			bytes += len(*part)
		}
		*row, malformed = *new(T), false // the next row may not set every column
		return size.add(bytes)
	})
	return found, inPieces(err)
}
