package sqlite

import (
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestDeleteLogsBesideAWrite deletes an entry while it is being written.
func TestDeleteLogsBesideAWrite(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	write(t, s, &storage.Change{Tenant: tenant, Logs: []storage.Log{logEntry()}})
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		hold := call{alone: true, inside: func(*writer) error { close(held); <-release; return nil }}
		must.Match(t, "the call before", s.writes.do(t.Context(), hold), nil)
	})
	<-held
	wg.Go(func() { write(t, s, &storage.Change{Tenant: tenant, Logs: []storage.Log{logEntry()}}) })
	waitUntilWaiting(s.writes, 1)
	wg.Go(func() {
		if n, err := s.DeleteLogs(t.Context(), tenant, someTime.AddDate(100, 0, 0), 10); n != 2 || err != nil {
			t.Errorf("%d entries were deleted, %v, want 2", n, err)
		}
	})
	waitUntilWaiting(s.writes, 2)
	close(release)
	wg.Wait()
	checkLogCounts(t, s)
}

// checkLogCounts compares log_counts with the entries.
func checkLogCounts(t *testing.T, s *Store) {
	t.Helper()
	const counted = `SELECT tenant_id, entity_type, day, n FROM vault_log_counts`
	const there = `SELECT tenant_id, entity_type, created_at / 86400000000, count(*) FROM vault_logs GROUP BY 1, 2, 3`
	must.Same(t, "wrong log_counts", 0, number(t, s, `SELECT count(*) FROM (`+counted+` EXCEPT `+there+`)`))
	must.Same(t, "entries that are not counted", 0, number(t, s, `SELECT count(*) FROM (`+there+` EXCEPT `+counted+`)`))
}
