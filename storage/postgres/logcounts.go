package postgres

import (
	"context"
	"database/sql"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The total of a list of log entries is a sum over vault_log_counts, and a count
// of the entries that these do not have yet. An entry has the number of the
// transaction that wrote it; those below a tenant's mark are counted, and no
// other. A mark moves up to the oldest transaction that is still open, so it
// passes over none that commits late, and whoever writes does nothing for it: to
// add to a counter in every statement cost 25 % of GetToken at one caller
// (BenchmarkGet).
//
// What moves a mark, or deletes entries, locks it first and looks at the entries
// in a statement that begins after that.
const (
	lockMark = `INSERT INTO vault_log_marks (tenant_id, xid) VALUES ($1, 0)
		ON CONFLICT (tenant_id) DO UPDATE SET xid = vault_log_marks.xid RETURNING xid`

	// oldestOpen is below the number of every transaction that the statement does
	// not see the end of.
	oldestOpen = "txid_snapshot_xmin(txid_current_snapshot())"

	// uncounted holds for the entries l that the counts do not have.
	uncounted = "l.xid >= COALESCE((SELECT m.xid FROM vault_log_marks m WHERE m.tenant_id = ?), 0)"

	dayOfEntry   = "created_at / 86400000000 - CASE WHEN created_at % 86400000000 < 0 THEN 1 ELSE 0 END"
	addLogCounts = "INSERT INTO vault_log_counts (tenant_id, entity_type, day, n) SELECT $1::bytea, entity_type, " + dayOfEntry
	toLogCounts  = " GROUP BY 2, 3" + onLogCounts
	onLogCounts  = " ON CONFLICT (tenant_id, entity_type, day) DO UPDATE SET n = vault_log_counts.n + EXCLUDED.n"

	moveMark = `WITH counted AS (` + addLogCounts + `, count(*) FROM vault_logs
			WHERE tenant_id = $1 AND xid >= $2::bigint AND xid < ` + oldestOpen + toLogCounts + `)
		UPDATE vault_log_marks SET xid = greatest(xid, ` + oldestOpen + `) WHERE tenant_id = $1`

	// foreignMarks are those of a database that was restored from another server,
	// where the numbers were higher.
	nextNumber   = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
	foreignMarks = "SELECT tenant_id FROM vault_log_marks WHERE xid > $1"
	forgetCounts = "DELETE FROM vault_log_counts WHERE tenant_id = $1"
	countAgain   = `WITH counted AS (` + addLogCounts + `, count(*) FROM vault_logs
			WHERE tenant_id = $1 AND (xid IS NULL OR xid < ` + oldestOpen + `)` + toLogCounts + `)
		UPDATE vault_log_marks SET xid = ` + oldestOpen + ` WHERE tenant_id = $1`
)

// countLogsAfter is after how many entries of a tenant its mark is moved. Tests
// need fewer.
var countLogsAfter = 4000

// maxUncounted bounds the tenants that a node remembers the entries of. What it
// forgets the next list of that tenant finds.
const maxUncounted = 10_000

// uncountedLogs is how many entries of each tenant have been written since its
// mark was moved, as far as this node knows.
type uncountedLogs struct {
	never bool // the tables are distributed: the log is counted when it is listed
	mu    sync.Mutex
	n     map[storage.ID]int
}

// add reports whether it is time to move the mark.
func (u *uncountedLogs) add(tenant storage.ID, entries int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil || len(u.n) >= maxUncounted {
		u.n = map[storage.ID]int{}
	}
	u.n[tenant] += entries
	if u.n[tenant] < countLogsAfter {
		return false
	}
	delete(u.n, tenant)
	return true
}

// noteLogs tells of entries that are not counted: of those that were written, or
// of as many as a list has found.
func (s *Store) noteLogs(tenant storage.ID, entries int) {
	if s.uncounted.never || !s.uncounted.add(tenant, entries) {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if !s.queue.closed {
		s.queue.busy.Go(func() {
			_ = s.countLogs(context.Background(), tenant) // what fails here the next one does
		})
	}
}

// countLogs moves the mark of a tenant as far as it can.
func (s *Store) countLogs(ctx context.Context, tenant storage.ID) error {
	return s.marked(ctx, tenant, func(tx *sql.Tx, mark int64) error {
		_, err := tx.ExecContext(ctx, s.schema.in(moveMark), tenant[:], mark)
		return err
	})
}

// marked runs something in a transaction that holds the mark of a tenant.
func (s *Store) marked(ctx context.Context, tenant storage.ID, do func(tx *sql.Tx, mark int64) error) error {
	return failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return s.transact(ctx, conn, func(tx *sql.Tx) error {
			var mark int64
			if err := tx.QueryRowContext(ctx, s.schema.in(lockMark), tenant[:]).Scan(&mark); err != nil {
				return err
			}
			return do(tx, mark)
		})
	}))
}

// checkMarks counts the log of every tenant again whose mark is of another
// server: entries that are written here would be below it.
func (s *Store) checkMarks(ctx context.Context) error {
	s.uncounted.never = s.routed
	var next int64
	err := sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error { return conn.QueryRowContext(ctx, nextNumber).Scan(&next) })
	if err != nil {
		return failed(err)
	}
	tenants, err := s.tenants(ctx, foreignMarks, next)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if err := s.marked(ctx, tenant, func(tx *sql.Tx, _ int64) error { return s.recount(ctx, tx, tenant) }); err != nil {
			return err
		}
	}
	return nil
}

// What makes the log of a tenant one of which nothing is counted, where tables
// are distributed: each server numbers its transactions by itself, and cannot say
// which of the entries have ended on another.
var uncountAll = []string{
	"UPDATE vault_logs SET xid = 0 WHERE tenant_id = $1 AND xid IS NULL",
	"UPDATE vault_log_marks SET xid = 0 WHERE tenant_id = $1",
}

func (s *Store) recount(ctx context.Context, tx *sql.Tx, tenant storage.ID) error {
	statements := []string{forgetCounts, countAgain}
	if s.routed {
		statements = append([]string{forgetCounts}, uncountAll...)
	}
	for _, text := range statements {
		if _, err := tx.ExecContext(ctx, s.schema.in(text), tenant[:]); err != nil {
			return err
		}
	}
	return nil
}
