package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// A change whose connection was lost may still be applied by a server that has
// not noticed. When there is no time left to try again, the error does not say
// that nothing was written.
func TestLateAfterALostConnectionIsNotKnown(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	late := &storage.Change{
		Tenant: storage.ID{1}, Now: now, Before: now.Add(-time.Second),
		Logs: []storage.Log{{ID: storage.ID{2}, EntityType: "token", EntityID: "x", Operation: "create", CreatedAt: now}},
	}
	for _, ambiguous := range []bool{false, true} {
		slot := s.queue.free[0]
		if err := s.connect(slot, now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		done, err := s.attempt(slot, &pending{change: late, ambiguous: ambiguous})
		if !done || !errors.Is(err, storage.ErrLate) {
			t.Errorf("done %v, %v; want ErrLate", done, err)
		}
		if err != nil && strings.Contains(err.Error(), "may or may not") != ambiguous {
			t.Errorf("sent before: %v; the error is %q", ambiguous, err)
		}
	}
}
