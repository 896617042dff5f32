package postgres_test

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// sameCounts compares numbers of entries by tenant, type and day: vault_log_counts,
// plus the entries from the mark on, with all entries.
func sameCounts(t *testing.T, db *sql.DB, when string) {
	t.Helper()
	const entries = `SELECT tenant_id, entity_type, floor(created_at / 86400e6)::bigint AS day, 1 AS n FROM vault_logs l`
	const line = `SELECT concat_ws(' ', tenant_id, entity_type, day, sum(n)) FROM (`
	stored := column[string](t, db, line+entries+`) l GROUP BY tenant_id, entity_type, day ORDER BY 1`)
	counted := column[string](t, db, line+`SELECT tenant_id, entity_type, day, n FROM vault_log_counts
		UNION ALL `+entries+` WHERE xid >= COALESCE((SELECT m.xid FROM vault_log_marks m WHERE m.tenant_id = l.tenant_id), 0)) c
		GROUP BY tenant_id, entity_type, day HAVING sum(n) <> 0 ORDER BY 1`)
	must.Same(t, when+": numbers of entries", stored, counted)
}

// moveMark writes enough entries to move the mark of the tenant, and waits until
// it has moved. The caller must not have a transaction open, which would hold up
// the mark.
func moveMark(t *testing.T, s *postgres.Store, db *sql.DB, tenant storage.ID) {
	t.Helper()
	const mark = "SELECT COALESCE(sum(xid), 0) FROM vault_log_marks WHERE tenant_id = $1"
	before := number(t, db, mark, tenant[:])
	must.Do(t, s.Write(t.Context(), enter(tenant, false, make([]int, postgres.CountLogsAfter)...)))
	// Transactions of other tests may be open, so try again with a list.
	for number(t, db, mark, tenant[:]) == before {
		if _, _, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: tenant, Limit: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// enter returns a change with log entries of some days and nothing else.
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

// together runs calls concurrently and returns how many of them failed.
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

// TestLogCountsMatchEntries writes log entries in every possible way, including rejected
// changes. It compares the counts with the entries, and the total of a list
// with both.
func TestLogCountsMatchEntries(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenants := []storage.ID{newID(), newID()}
	one := sample(tenants[0], 1)
	check := func(when string) {
		sameCounts(t, db, when)
		for _, tenant := range tenants {
			_, total, err := s.ListLogs(t.Context(), storage.LogFilter{Tenant: tenant, Limit: 1})
			if want := number(t, db, "SELECT count(*) FROM vault_logs WHERE tenant_id = $1", tenant[:]); err != nil || total != want {
				t.Errorf("%s: the total is %d (%v), want %d", when, total, err, want)
			}
		}
	}
	for _, c := range []*storage.Change{one, sample(tenants[1], 5), enter(tenants[0], false, 0, -1, -2), enter(tenants[1], true, -3)} {
		must.Do(t, s.Write(t.Context(), c))
	}
	check("one by one")
	// An open transaction of another test holds the mark back for a while.
	const counted = "SELECT COALESCE(sum(n), 0) FROM vault_log_counts"
	for number(t, db, counted) < postgres.CountLogsAfter {
		moveMark(t, s, db, tenants[0])
	}
	check("with a mark")
	if failed := together(t, 60, func(i int) error {
		if i%3 == 0 {
			return s.Write(t.Context(), enter(tenants[i%2], true, -i%4))
		}
		entry := enter(tenants[0], true, -i%2).Logs[0]
		return must.Err(s.ReadToken(t.Context(), storage.Reading{Tenant: tenants[0], ID: one.InsertTokens[0].ID, Entry: entry}))
	}); failed != 0 {
		t.Errorf("%d reads failed", failed)
	}
	check("after the mark")
	for _, before := range []time.Time{time.Now().AddDate(0, 0, -2), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)} {
		must.Get(s.DeleteLogs(t.Context(), tenants[0], before, 20))(t)
		check("some deleted, on both sides of the mark")
	}
	moveMark(t, s, db, tenants[0])
	check("with a mark that has moved again")
}

// TestCountsStayCorrectDuringDeletes deletes entries while marks move.
func TestCountsStayCorrectDuringDeletes(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	if failed := together(t, 8, func(i int) error {
		for range 6 {
			if i%2 == 0 {
				if err := s.Write(t.Context(), enter(tenant, false, make([]int, postgres.CountLogsAfter/2)...)); err != nil {
					return err
				}
				continue
			}
			if _, err := s.DeleteLogs(t.Context(), tenant, time.Now().Add(time.Hour), postgres.CountLogsAfter/5); err != nil {
				return err
			}
		}
		return nil
	}); failed > 0 {
		t.Errorf("%d callers failed", failed)
	}
	sameCounts(t, db, "after all")
}

// TestOpenTransactionIsCountedAfterCommit leaves a transaction with a log entry open.
// Nothing waits for it. Its entry is counted after the commit, although later
// transactions have been counted before.
func TestOpenTransactionIsCountedAfterCommit(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	for _, commit := range []bool{false, true} {
		moveMark(t, s, db, tenant)
		tx := must.Get(db.Begin())(t)
		in := must.Get(s.InTx(t.Context(), tx))(t)
		for range 3 {
			must.Do(t, in.Write(t.Context(), enter(tenant, false, 0, -1)))
		}
		must.Do(t, s.Write(t.Context(), enter(tenant, false, make([]int, postgres.CountLogsAfter)...)))
		must.Do(t, postgres.CountLogs(t.Context(), s, tenant))
		must.Get(s.DeleteLogs(t.Context(), tenant, time.Now().Add(time.Hour), 10))(t)
		sameCounts(t, db, "before the end")
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		must.Do(t, end())
		sameCounts(t, db, "after the end")
		moveMark(t, s, db, tenant)
		sameCounts(t, db, "with a later mark")
	}
}

// TestDaysWithoutEntriesHaveNoCounts expects no counts of days without entries.
func TestDaysWithoutEntriesHaveNoCounts(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	must.Do(t, s.Write(t.Context(), enter(tenant, false, -5, -4, -3, 0)))
	const days = "SELECT count(DISTINCT day) FROM vault_log_counts"
	for number(t, db, days) < 4 {
		moveMark(t, s, db, tenant)
	}
	if n, err := s.DeleteLogs(t.Context(), tenant, time.Now().AddDate(0, 0, -1), 10); err != nil || n != 3 {
		t.Fatalf("deleted %d entries (%v), want 3", n, err)
	}
	must.Same(t, "days have counters", 1, number(t, db, days))
	sameCounts(t, db, "after the deletion")
}

// TestRestoredDatabaseIsRecounted opens a database that was restored from a server
// with higher transaction numbers.
func TestRestoredDatabaseIsRecounted(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	tenant := newID()
	moveMark(t, s, db, tenant)
	must.Get(db.Exec(`UPDATE vault_logs SET xid = xid + (1::bigint << 50); UPDATE vault_log_marks SET xid = xid + (1::bigint << 50)`))(t)
	locked := must.Get(db.BeginTx(t.Context(), nil))(t)
	must.Get(locked.ExecContext(t.Context(), "LOCK TABLE vault_logs"))(t)
	s = openAt(t, address, nil) // before it reads the log
	must.Do(t, locked.Rollback())
	sameCounts(t, db, "after the restore")
	must.Do(t, postgres.CountLogs(t.Context(), s, tenant))
	if mark := number(t, db, "SELECT min(xid) FROM vault_log_marks"); mark < 0 {
		t.Error("the log was not counted again")
	}
	must.Do(t, s.Write(t.Context(), enter(tenant, false, 0, -1)))
	sameCounts(t, db, "after more entries")
	moveMark(t, s, db, tenant)
	sameCounts(t, db, "with a new mark")
}

// TestMigrationCountsExistingLogs runs the migrations on a log with entries.
func TestMigrationCountsExistingLogs(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	db := database(t, address)
	must.Get(db.Exec(postgres.Migrations("")[0].SQL))(t)
	tenant := newID()
	for _, at := range []int64{-1, 0, 86400e6 - 1, 86400e6, time.Now().UnixMicro()} {
		id := uuid.New()
		must.Get(db.Exec(`INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
			VALUES ($1, $2, $3, 'user', 'card', 'x', 'read', '')`, tenant[:], id[:], at))(t)
	}
	s := openAt(t, address, nil)
	sameCounts(t, db, "after the migrations")
	moveMark(t, s, db, tenant)
	sameCounts(t, db, "after more entries")
}
