package sqlstore

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// countWithout counts the tokens that do not have a hash, and reports whether
// the list consists of these. It does not look up each token in the index of
// the hash. Instead it subtracts the entries of the index from the tokens, in a
// range that is long enough for CountUpTo.
func (l *tokenList) countWithout(ctx context.Context) (n int, is bool, err error) {
	hash, most := l.without(), l.filter.CountUpTo
	if hash == nil || most == 0 {
		return 0, false, nil
	}
	for window := most + most/4; ; {
		place, err := l.tokenAt(ctx, nil, window-1)
		if err != nil {
			return 0, true, err
		}
		tokens, bound := clause{"?", []any{window}}, l.upTo(place)
		if place.IsZero() { // there are fewer
			tokens, bound = clause{allTokens, []any{l.tenant}}, always
		}
		if n, err = l.lessHash(ctx, tokens, hash, bound); err != nil || n >= most || place.IsZero() {
			return max(min(n, most), 0), true, err
		}
		window = max(2*window, window/max(n, 1)*(most+most/4))
	}
}

// without returns the hash of a list that consists of all tokens without that
// hash. It returns nil for other lists.
func (l *tokenList) without() *storage.HashIs {
	if l.drive != nil || len(l.rest) != 1 || len(l.sets) > 0 && !l.setsHold || !l.filter.Before.IsZero() {
		return nil
	}
	not, ok := l.rest[0].(storage.Not)
	if !ok {
		return nil
	}
	hash, ok := not.Cond.(storage.HashIs)
	if !ok {
		return nil
	}
	return &hash
}

// lessHash subtracts from a number of tokens the tokens within a bound that
// have the hash, and the others that have expired.
func (l *tokenList) lessHash(ctx context.Context, tokens clause, hash *storage.HashIs, bound clause) (int, error) {
	having := join([]clause{{"h.tenant_id = ? AND h.hash = ?", []any{l.tenant, hash[:]}}, bound.of("h")}, " AND ")
	text := `SELECT (` + tokens.text + `) - (SELECT count(*) FROM vault_token_hashes h WHERE ` + having.text + `)`
	args := slices.Concat(tokens.args, having.args)
	if !l.filter.Now.IsZero() {
		where := join([]clause{l.over(bound), l.on("t", l.rest)}, " AND ")
		text += ` - (SELECT count(*) FROM vault_tokens t WHERE ` + where.text + `)`
		args = append(args, where.args...)
	}
	return l.store.count(ctx, text, args...)
}
