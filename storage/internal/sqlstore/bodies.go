package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// A page may have 64 MiB of bodies. If one query returned all of them, its
// connection would be busy for that time, and the caller of a short query would
// wait. So the query of a page leaves out large bodies. They are read one by one,
// by few callers at a time, and other queries run between them. These reads are
// prepared, so the bodies arrive as bytes and not as text.

// SmallBodies returns the columns of a token t, with NULL instead of a body of
// more than a number of bytes.
func SmallBodies(most int) string {
	return strings.Replace(TokenColumns, "t.body", fmt.Sprintf("CASE WHEN octet_length(t.body) <= %d THEN t.body END AS body", most), 1)
}

// pageTries is how often a page is read again because a token with a large body
// has changed since.
const pageTries = 3

// pageTokens reads a page. query returns the text of the query for the given
// columns.
func (s *Store) pageTokens(ctx context.Context, f *storage.TokenFilter, query func(columns string) string, args []any) ([]storage.Token, error) {
	if s.dialect.SmallBody == 0 {
		return s.tokens(ctx, nil, f.Tenant, f.MaxBytes, query(TokenColumns), args)
	}
	small := query(SmallBodies(s.dialect.SmallBody))
	for range pageTries {
		page, err := s.tokens(ctx, nil, f.Tenant, f.MaxBytes, small, args)
		if err != nil {
			return page, err
		}
		if same, err := s.addBodies(ctx, page, f.MaxBytes); same || err != nil {
			return page, err
		}
	}
	return s.tokens(ctx, nil, f.Tenant, f.MaxBytes, query(TokenColumns), args)
}

// addBodies reads the bodies that the query of a page left out. It returns false if a
// token is not the same anymore. The new one may not belong on the page, for example
// because the caller must not see its container.
func (s *Store) addBodies(ctx context.Context, page []storage.Token, maxBytes int) (same bool, err error) {
	size := pageBytes{most: maxBytes}
	for i := range page {
		t := &page[i]
		if t.Body == nil {
			found, err := s.large(ctx, t)
			if err != nil || len(found) == 0 || found[0].Ord != t.Ord || found[0].Rev != t.Rev {
				return false, err
			}
			*t = found[0]
		}
		if err := size.add(sealedBytes(t)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// large reads a token with a large body, when it is its turn.
func (s *Store) large(ctx context.Context, t *storage.Token) ([]storage.Token, error) {
	if s.within == nil {
		if err := s.bodies.Enter(ctx, s.dialect.Outage.Until(ctx), TurnAtLeast); err != nil {
			return nil, err
		}
		defer func() { <-s.bodies }()
	}
	return s.token(ctx, t.Tenant, t.ID)
}
