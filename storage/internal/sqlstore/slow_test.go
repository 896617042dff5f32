package sqlstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// TestStatementsShareTheLimit runs three statements of a list, which together take
// longer than the limit.
func TestStatementsShareTheLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		where storage.Cond
		want  error
	}{
		"a search":   {storage.ByIs{Field: storage.CreatedBy}, storage.ErrSlow},
		"a rotation": {storage.KeyBelow(2), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Store{dialect: Dialect{Outage: Outage{Limit: 8 * time.Second}}}
				s = s.together(&storage.TokenFilter{Where: test.where})
				var err error
				for range 3 {
					_, err = s.limited(t.Context(), func(ctx context.Context) (bool, error) {
						select {
						case <-ctx.Done():
						case <-time.After(3 * time.Second):
						}
						return true, ctx.Err()
					})
				}
				if !errors.Is(err, test.want) {
					t.Errorf("the third statement: got %v, want %v", err, test.want)
				}
			})
		})
	}
}
