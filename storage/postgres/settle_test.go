package postgres

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
)

// TestFollowersWaitUntilEntriesSettle follows from a time and from now, on a node
// that knows no bound yet. Entries arrive once, after they have settled.
func TestFollowersWaitUntilEntriesSettle(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start() // a separate server, where no other test has an open transaction
	must.Do(t, err)
	defer func() {
		must.Do(t, server.Stop())
	}()
	s := must.Get(open(t.Context(), server.URL, nil, findRouted))(t)
	defer func() { _ = s.Close() }()
	clock := time.Now()
	s.logDelay.Now = func() time.Time { return clock }
	past, live := newLogs(2), newLogs(1)
	live.Tenant = past.Tenant
	must.Do(t, s.Write(t.Context(), past))
	since := storage.LogFollowing{Tenant: past.Tenant, From: past.Now.Add(-time.Hour), Limit: 10}
	fromNow := storage.LogFollowing{Tenant: past.Tenant, Limit: 10}
	wantLogs(t, s, &since)
	wantLogs(t, s, &fromNow)
	must.Do(t, s.Write(t.Context(), live))
	clock = clock.Add(citus.UsualLogDelay / 2)
	wantLogs(t, s, &since)
	wantLogs(t, s, &fromNow)
	clock = clock.Add(citus.UsualLogDelay / 2)
	wantLogs(t, s, &since, past.Logs...)
	wantLogs(t, s, &fromNow)
	clock = clock.Add(citus.UsualLogDelay)
	wantLogs(t, s, &since, live.Logs...)
	wantLogs(t, s, &fromNow, live.Logs...)
}

// wantLogs follows one step and expects these entries.
func wantLogs(t *testing.T, s *Store, f *storage.LogFollowing, want ...storage.Log) {
	t.Helper()
	page, next, err := s.FollowLogs(t.Context(), *f)
	must.Do(t, err)
	f.After = next
	ids := func(logs []storage.Log) (all []storage.ID) {
		for i := range logs {
			all = append(all, logs[i].ID)
		}
		return all
	}
	must.Same(t, "entries", ids(want), ids(page))
}
