package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// readable writes a token and returns a reading of it.
func readable(t *testing.T, s *postgres.Store) storage.Reading {
	t.Helper()
	c := sample(newID(), 1)
	must.Do(t, s.Write(t.Context(), c))
	return storage.Reading{Tenant: c.Tenant, ID: c.InsertTokens[0].ID, Entry: sample(c.Tenant, 1).Logs[0]}
}

// TestCanceledReadDoesNotWaitForLock locks the tokens before and after a connection
// has prepared the statement that reads them. A read whose context ends does
// not wait for the lock.
func TestCanceledReadDoesNotWaitForLock(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"statement unknown": 0, "statement known": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgres.Vaults.URL(t)
			s, db := openAt(t, address, nil), database(t, address)
			r := readable(t, s)
			for range before {
				r.Entry.ID = newID()
				must.Get(s.ReadToken(t.Context(), r))(t)
			}
			lock := must.Get(db.Begin())(t)
			defer func() { _ = lock.Rollback() }()
			must.Get(lock.Exec("LOCK TABLE vault_tokens IN ACCESS EXCLUSIVE MODE"))(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			left := make(chan error, 1)
			r.Entry.ID = newID()
			go func() { _, err := s.ReadToken(ctx, r); left <- err }()
			for number(t, db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'vault_tokens'::regclass") == 0 {
			}
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) { // the lock stays until the read has ended
				t.Error(err)
			}
		})
	}
}

// TestReadingsTriggerAnalyze writes enough log entries by readings alone to
// make the store analyze the tables.
func TestReadingsTriggerAnalyze(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	r := readable(t, s)
	for range 500 {
		r.Entry.ID = newID()
		must.Get(s.ReadToken(t.Context(), r))(t)
	}
	if err := s.Close(); err != nil { // waits for the ANALYZE
		t.Fatal(err)
	}
	if got := number(t, db, "SELECT reltuples::bigint FROM pg_class WHERE oid = 'vault_logs'::regclass"); got < 1 {
		t.Errorf("the server knows of %d log entries", got)
	}
}

// TestAnalyzeOnlyWithoutStatistics opens a database twice. The second store finds
// statistics of as many rows as it writes.
func TestAnalyzeOnlyWithoutStatistics(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t) // which no other test has analyzed
	db := database(t, address)
	for range 2 {
		s := openAt(t, address, nil)
		must.Do(t, s.Write(t.Context(), sample(newID(), 600)))
		if err := s.Close(); err != nil { // waits for the ANALYZE
			t.Fatal(err)
		}
		for number(t, db, "SELECT analyze_count FROM pg_stat_user_tables WHERE relid = 'vault_tokens'::regclass") == 0 {
			if t.Context().Err() != nil {
				t.Fatal("the tables were not analyzed")
			}
		}
	}
	if got := number(t, db, "SELECT analyze_count FROM pg_stat_user_tables, pg_sleep(1) WHERE relid = 'vault_tokens'::regclass"); got != 1 {
		t.Errorf("the tables were analyzed %d times", got)
	}
}
