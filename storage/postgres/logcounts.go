package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// The total of a list of log entries is a sum over vault_log_counts plus a
// count of the entries that the sums do not include yet. Each entry has the
// number of the transaction that wrote it. The sums include exactly the entries
// below the tenant's mark.
//
// A mark moves up to the oldest open transaction, so it never skips a transaction that
// commits late. Writers do nothing for it. Adding to a counter in every
// statement made GetToken 25 % slower at one caller (BenchmarkGet).
//
// A transaction that moves a mark or deletes entries first locks the mark. It
// then reads the entries in a later statement.
const (
	lockMark = `INSERT INTO vault_log_marks (tenant_id, xid) VALUES ($1, 0)
		ON CONFLICT (tenant_id) DO UPDATE SET xid = vault_log_marks.xid RETURNING xid`

	// oldestOpen is at most the number of the oldest transaction that is still
	// open for this statement.
	oldestOpen = "txid_snapshot_xmin(txid_current_snapshot())"

	// uncounted is the condition for entries l that the counts do not include.
	uncounted = "l.xid >= COALESCE((SELECT m.xid FROM vault_log_marks m WHERE m.tenant_id = ?), 0)"

	dayOfEntry   = "created_at / 86400000000 - CASE WHEN created_at % 86400000000 < 0 THEN 1 ELSE 0 END"
	addLogCounts = "INSERT INTO vault_log_counts (tenant_id, entity_type, day, n) SELECT $1::bytea, entity_type, " + dayOfEntry
	toLogCounts  = " GROUP BY 2, 3" + onLogCounts
	onLogCounts  = " ON CONFLICT (tenant_id, entity_type, day) DO UPDATE SET n = vault_log_counts.n + EXCLUDED.n"

	moveMark = `WITH counted AS (` + addLogCounts + `, count(*) FROM vault_logs
			WHERE tenant_id = $1 AND xid >= $2::bigint AND xid < ` + oldestOpen + toLogCounts + `)
		UPDATE vault_log_marks SET xid = greatest(xid, ` + oldestOpen + `) WHERE tenant_id = $1`

	// These statements count again in a database that was restored from another
	// server, where transaction numbers were higher. foreignMarks selects the
	// marks from that server. Below forgetMark, the sums include no entry.
	nextNumber   = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
	foreignMarks = "SELECT tenant_id FROM vault_log_marks WHERE xid > $1"
	forgetCounts = "DELETE FROM vault_log_counts WHERE tenant_id = $1"
	forgetMark   = "UPDATE vault_log_marks SET xid = -1 WHERE tenant_id = $1"
	countAgain   = `WITH piece AS (SELECT l.id, l.entity_type, l.created_at, l.xid FROM vault_logs l, ` + sqlstore.InOrder + `
			WHERE l.tenant_id = $1 AND l.id > $2 ORDER BY l.id LIMIT $3::bigint),
		counted AS (` + addLogCounts + `, count(*) FROM piece WHERE xid < $4::bigint` + toLogCounts + `)
		SELECT (SELECT count(*) FROM piece), id FROM piece ORDER BY id DESC LIMIT 1`
	setMark = "UPDATE vault_log_marks SET xid = $2::bigint WHERE tenant_id = $1"
)

// countAtOnce is how many entries one statement counts again. Tests set it lower.
var countAtOnce = 50_000

// recountTexts forget the counts of a tenant's log. If the log is never counted,
// uncountTexts make all its entries uncounted. Each server of a cluster numbers its own
// transactions and cannot know which transactions have ended on another.
var (
	recountTexts = []string{forgetCounts, forgetMark}
	uncountTexts = []string{forgetCounts, "UPDATE vault_log_marks SET xid = 0 WHERE tenant_id = $1"}
)

// countLogsAfter is the number of entries of a tenant after which its mark
// moves. Tests set it lower.
var countLogsAfter = 4000

// maxUncounted limits the tenants whose entries a node counts. If it forgets a
// tenant, the next list of that tenant's log notices.
const maxUncounted = 10_000

// uncountedLogs counts the entries of each tenant written since its mark moved,
// as far as this node knows.
type uncountedLogs struct {
	never bool // tables are distributed, so the log is counted when it is listed
	mu    sync.Mutex
	n     bounded.Map[storage.ID, int]
	moves map[storage.ID]bool // tenants whose mark is being moved
}

// add reports whether it is time to move the mark. The caller then calls moved.
// A mark is moved by one caller at a time. It may not get far while an old
// transaction is open, and every list would try again.
func (u *uncountedLogs) add(tenant storage.ID, entries int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n.Put(maxUncounted, tenant, u.n[tenant]+entries)
	if u.n[tenant] < countLogsAfter || u.moves[tenant] {
		return false
	}
	delete(u.n, tenant)
	if u.moves == nil {
		u.moves = map[storage.ID]bool{}
	}
	u.moves[tenant] = true
	return true
}

func (u *uncountedLogs) moved(tenant storage.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.moves, tenant)
}

// noteLogs records uncounted entries, which were just written or found by a
// list.
func (s *Store) noteLogs(tenant storage.ID, entries int) {
	if !s.uncounted.never && s.uncounted.add(tenant, entries) {
		s.queue.background(func() {
			defer s.uncounted.moved(tenant)
			_ = s.countLogs(context.Background(), tenant) // if this fails, the next call does it
		})
	}
}

// countLogs moves the mark of a tenant as far as possible.
func (s *Store) countLogs(ctx context.Context, tenant storage.ID) error {
	return s.marked(ctx, tenant, func(tx *sql.Tx, mark int64) error {
		if mark < 0 {
			return s.countAgain(ctx, tx, tenant)
		}
		_, err := tx.ExecContext(ctx, s.schema.in(moveMark), tenant[:], mark)
		return err
	})
}

// countAgain counts all entries below the oldest open transaction. There are no
// others below it later, and none is deleted, because that takes the lock on the mark.
func (s *Store) countAgain(ctx context.Context, tx *sql.Tx, tenant storage.ID) error {
	if _, err := tx.ExecContext(ctx, s.schema.in(forgetCounts), tenant[:]); err != nil {
		return err
	}
	var oldest int64
	if err := tx.QueryRowContext(ctx, "SELECT "+oldestOpen).Scan(&oldest); err != nil {
		return err
	}
	for n, last := countAtOnce, []byte{}; n == countAtOnce; {
		err := tx.QueryRowContext(ctx, s.schema.in(countAgain), tenant[:], last, countAtOnce, oldest).Scan(&n, &last)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, s.schema.in(setMark), tenant[:], oldest)
	return err
}

// marked runs do in a transaction that holds the lock on a tenant's mark.
func (s *Store) marked(ctx context.Context, tenant storage.ID, do func(tx *sql.Tx, mark int64) error) error {
	return s.inTx(ctx, tenant, func(tx *sql.Tx) error {
		var mark int64
		if err := tx.QueryRowContext(ctx, s.schema.in(lockMark), tenant[:]).Scan(&mark); err != nil {
			return err
		}
		return do(tx, mark)
	})
}

// checkMarks forgets the counts of each tenant whose mark comes from another
// server, because new entries would be below the mark. Lists then count all entries
// until the store has counted them again, in the background.
func (s *Store) checkMarks(ctx context.Context) error {
	s.uncounted.never = !s.layout.Traits().CountsLogs
	var next int64
	err := sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error { return conn.QueryRowContext(ctx, nextNumber).Scan(&next) })
	if err != nil {
		return link.Failed(err)
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
	if !s.uncounted.never && len(tenants) > 0 {
		s.queue.busy.Go(func() {
			for _, tenant := range tenants {
				_ = s.countLogs(context.Background(), tenant) // if this fails, the next list of the log does it
			}
		})
	}
	return nil
}

func (s *Store) recount(ctx context.Context, tx *sql.Tx, tenant storage.ID) error {
	texts := recountTexts
	if s.uncounted.never {
		texts = uncountTexts
	}
	for _, text := range texts {
		if _, err := tx.ExecContext(ctx, s.schema.in(text), tenant[:]); err != nil {
			return err
		}
	}
	return nil
}
