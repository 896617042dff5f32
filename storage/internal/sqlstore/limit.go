package sqlstore

import (
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// limited runs a statement of a list for as long as the limits allow.
func (s *Store) limited(ctx context.Context, list func(context.Context) (bool, error)) (again bool, err error) {
	if s.left != nil {
		if *s.left <= 0 {
			return false, storage.ErrSlow
		}
		defer func(start time.Time) { *s.left -= time.Since(start) }(time.Now())
	}
	if s.dialect.Outage.Limit == 0 {
		return list(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, s.dialect.Outage.Limit)
	defer cancel()
	if again, err = list(limited); err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, storage.ErrSlow
	}
	return again, err
}

// inListLimit returns the Store for the statements of one list of tokens, which share
// Outage.ListLimit. Time that the list waits for the database does not count. A
// rotation passes over all tokens, however many there are, and has no limit.
func (s *Store) inListLimit(f *storage.TokenFilter) *Store {
	left := s.dialect.Outage.ListLimit
	if _, rotation := f.Where.(storage.KeyBelow); rotation || left == 0 {
		return s
	}
	one := *s
	one.left = &left
	return &one
}
