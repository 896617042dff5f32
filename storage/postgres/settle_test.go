package postgres

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestBoundsSettle moves the clock and expects the latest bound that has been
// known long enough.
func TestBoundsSettle(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1e9, 0)
	s := settling{wait: settleTime, now: func() time.Time { return clock }}
	for i, c := range []struct {
		after                 time.Duration
		cluster, oldest, want int64
	}{
		{0, 1, 100, 0},
		{100 * time.Millisecond, 1, 101, 0}, // too soon to be recorded
		{4900 * time.Millisecond, 1, 150, 0},
		{5 * time.Second, 1, 200, 100},
		{5 * time.Second, 1, 300, 150},
		{time.Hour, 1, 900, 300},
		{settleTime, 1, 950, 900},
		{settleTime, 1, 20, 20}, // the server was set back
		{time.Second, 2, 5000, 0},
		{settleTime, 2, 5001, 5000},
	} {
		clock = clock.Add(c.after)
		if got := s.bound(&logBounds{oldest: c.oldest, cluster: c.cluster}); got != c.want {
			t.Errorf("%d: got %d, want %d", i, got, c.want)
		}
	}
}

// TestFollowersWaitUntilEntriesSettle follows from a time and from now, on a node
// that knows no bound yet. Entries arrive once, after they have settled.
func TestFollowersWaitUntilEntriesSettle(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start() // a separate server, where no other test has an open transaction
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	s, err := open(t.Context(), server.URL, nil, func(context.Context, *sql.DB) (layout, error) { return routed{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	clock := time.Now()
	s.settling.now = func() time.Time { return clock }
	past, live := newLogs(2), newLogs(1)
	live.Tenant = past.Tenant
	if err := s.Write(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	since := storage.LogFollowing{Tenant: past.Tenant, From: past.Now.Add(-time.Hour), Limit: 10}
	fromNow := storage.LogFollowing{Tenant: past.Tenant, Limit: 10}
	wantLogs(t, s, &since)
	wantLogs(t, s, &fromNow)
	if err := s.Write(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(settleTime / 2)
	wantLogs(t, s, &since)
	wantLogs(t, s, &fromNow)
	clock = clock.Add(settleTime / 2)
	wantLogs(t, s, &since, past.Logs...)
	wantLogs(t, s, &fromNow)
	clock = clock.Add(settleTime)
	wantLogs(t, s, &since, live.Logs...)
	wantLogs(t, s, &fromNow, live.Logs...)
}

// wantLogs follows one step and expects these entries.
func wantLogs(t *testing.T, s *Store, f *storage.LogFollowing, want ...storage.Log) {
	t.Helper()
	page, next, err := s.FollowLogs(t.Context(), *f)
	if err != nil {
		t.Fatal(err)
	}
	f.After = next
	ids := func(logs []storage.Log) (all []storage.ID) {
		for i := range logs {
			all = append(all, logs[i].ID)
		}
		return all
	}
	if diff := cmp.Diff(ids(want), ids(page)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
