package postgres_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// countsOf returns numbers of log entries by tenant, type and day.
func countsOf(t *testing.T, db *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var tenant []byte
		var kind string
		var day, n int
		if err := rows.Scan(&tenant, &kind, &day, &n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			counts[fmt.Sprintf("%x %s %d", tenant, kind, day)] = n
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// sameCounts holds vault_log_counts against the entries.
func sameCounts(t *testing.T, db *sql.DB, when string) {
	t.Helper()
	stored := countsOf(t, db, `SELECT tenant_id, entity_type, floor(created_at / 86400e6)::bigint, count(*) FROM vault_logs GROUP BY 1, 2, 3`)
	counted := countsOf(t, db, `SELECT tenant_id, entity_type, day, sum(n) FROM vault_log_counts GROUP BY 1, 2, 3`)
	if diff := cmp.Diff(stored, counted); diff != "" {
		t.Errorf("%s: numbers of entries (-stored +counted):\n%s", when, diff)
	}
}

// enter returns a change that holds nothing but log entries of some days.
func enter(tenant storage.ID, relaxed bool, days ...int) *storage.Change {
	c := &storage.Change{Tenant: tenant, Now: time.Now(), Relaxed: relaxed}
	for _, day := range days {
		at := time.Now().AddDate(0, 0, day)
		id := newID()
		for i := range 6 {
			id[i] = byte(at.UnixMilli() >> (40 - 8*i))
		}
		c.Logs = append(c.Logs, storage.Log{ID: id, ActorType: "user", EntityType: []string{"card", "bank"}[day&1], EntityID: "x",
			Operation: "read", Message: "Token read", CreatedAt: at})
	}
	return c
}

// together runs calls at once and fails at an error that is not expected.
func together(t *testing.T, n int, call func(int) error) (failed int) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	return failed
}

// TestLogCounts enters in every way there is, some of which are refused, and
// compares the counts with the entries.
func TestLogCounts(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*postgres.Options{"direct": {}, "unprepared": {TransactionPooler: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.URL(t)
			s, db := openAt(t, address, options), database(t, address)
			tenants := []storage.ID{newID(), newID()}
			one := sample(tenants[0], 1)
			for _, c := range []*storage.Change{one, sample(tenants[1], 5), sample(tenants[0], 1200), enter(tenants[0], false, 0, -1, -2), enter(tenants[1], true, -3)} {
				if err := s.Write(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			sameCounts(t, db, "one by one")
			if failed := together(t, 60, func(i int) error {
				c := sample(tenants[i%2], 1)
				if i%10 == 0 {
					c.Tenant, c.InsertTokens[0].ID = tenants[0], one.InsertTokens[0].ID // taken
				}
				return s.Write(t.Context(), c)
			}); failed != 6 {
				t.Errorf("%d creates failed, want 6", failed)
			}
			sameCounts(t, db, "creates together, some of them refused")
			if failed := together(t, 60, func(i int) error {
				if i%3 == 0 {
					return s.Write(t.Context(), enter(tenants[i%2], true, -i%4))
				}
				entry := enter(tenants[0], true, -i%2).Logs[0]
				_, err := s.ReadToken(t.Context(), storage.Reading{Tenant: tenants[0], ID: one.InsertTokens[0].ID, Entry: entry})
				return err
			}); failed != 0 {
				t.Errorf("%d reads failed", failed)
			}
			sameCounts(t, db, "reads together")
			if _, err := s.DeleteLogs(t.Context(), tenants[0], time.Now().Add(-time.Hour), 20); err != nil {
				t.Fatal(err)
			}
			sameCounts(t, db, "some deleted")
		})
	}
}

// TestLogCountsOfTransactions leaves a transaction open that has entered
// something: nothing waits for it, and nothing counts before its commit.
func TestLogCountsOfTransactions(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	for _, commit := range []bool{false, true} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.InTx(t.Context(), tx)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := in.Write(t.Context(), enter(tenant, false, 0, -1)); err != nil {
				t.Fatal(err)
			}
		}
		if failed := together(t, 20, func(i int) error { return s.Write(t.Context(), enter(tenant, i%2 == 0, 0, -1)) }); failed > 0 {
			t.Errorf("%d changes beside the transaction failed", failed)
		}
		if _, err := s.Sweep(t.Context(), time.Now(), 10); err != nil {
			t.Error(err)
		}
		sameCounts(t, db, "before the end")
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		sameCounts(t, db, "after the end")
	}
	if n := number(t, db, "SELECT count(*) FROM vault_log_counts WHERE shard < 0"); n == 0 {
		t.Fatal("the transaction has added no rows of its own, so this proves nothing")
	}
	if _, err := s.Sweep(t.Context(), time.Now(), 10); err != nil {
		t.Fatal(err)
	}
	sameCounts(t, db, "after a sweep")
	if n := number(t, db, "SELECT count(*) FROM vault_log_counts WHERE shard < 0"); n != 0 {
		t.Errorf("a sweep has left %d rows of transactions", n)
	}
	yesterday := time.Now().Unix()/86400 - 1
	if n := number(t, db, "SELECT count(*) FROM vault_log_counts WHERE shard <> 0 AND day <= $1", yesterday); n != 0 {
		t.Errorf("a sweep has left %d rows of past days in shards", n)
	}
}

// TestDeletedDaysAreNotCounted expects no counters of days that are gone.
func TestDeletedDaysAreNotCounted(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	if err := s.Write(t.Context(), enter(tenant, false, -5, -4, -3, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), time.Now(), 10); err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeleteLogs(t.Context(), tenant, time.Now().AddDate(0, 0, -1), 10); err != nil || n != 3 {
		t.Fatalf("deleted %d entries (%v), want 3", n, err)
	}
	if n := number(t, db, "SELECT count(DISTINCT day) FROM vault_log_counts"); n != 1 {
		t.Errorf("%d days have counters, want one", n)
	}
	sameCounts(t, db, "after the deletion")
}

// TestLogsOfAnOlderSchemaAreCounted runs the migration on a log that has entries.
func TestLogsOfAnOlderSchemaAreCounted(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	db := database(t, address)
	if _, err := db.Exec(postgres.Migrations("")[0].SQL); err != nil {
		t.Fatal(err)
	}
	tenant := newID()
	for _, at := range []int64{-1, 0, 86400e6 - 1, 86400e6, time.Now().UnixMicro()} {
		id := uuid.New()
		if _, err := db.Exec(`INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
			VALUES ($1, $2, $3, 'user', 'card', 'x', 'read', '')`, tenant[:], id[:], at); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, address, nil)
	sameCounts(t, db, "after the migration")
	if err := s.Write(t.Context(), enter(tenant, false, 0, -1)); err != nil {
		t.Fatal(err)
	}
	sameCounts(t, db, "after more entries")
}
