package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestStatementsShareTheLimit runs four statements of a list, of which three take
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
				s := &Store{dialect: Dialect{Outage: Outage{ListLimit: 8 * time.Second}}}
				s = s.inListLimit(&storage.TokenFilter{Where: test.where})
				var err error
				for range 4 {
					must.Do(t, err)
					_, err = s.limited(t.Context(), func(context.Context) (bool, error) {
						time.Sleep(3 * time.Second) // of the bubble
						return true, nil
					})
				}
				must.Match(t, "the last statement", err, test.want)
			})
		})
	}
}
