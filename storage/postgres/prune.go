package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// deleteLogsText returns a statement that deletes entries in the order of their
// keys. It returns how many it deleted, how many of them were counted, and the
// last one. Entries below the mark or without a transaction number are counted.
//
// It skips entries that another node is deleting, so that nodes that sweep
// concurrently share the work. ARRAY evaluates the subquery once. IN would
// become a join, which might run the subquery again for each row and exceed the
// limit. The entries are read by ctid, so that the planner cannot use another
// index that starts with the tenant. The subquery has a join with
// [sqlstore.InOrder] for the same reason.
func (s *Store) deleteLogsText() string {
	return `WITH gone AS (DELETE FROM vault_logs WHERE ` + s.layout.Traits().TenantIs("tenant_id", "$1") + ` AND ctid = ANY(ARRAY(
	SELECT l.ctid FROM vault_logs l, ` + sqlstore.InOrder + ` WHERE l.tenant_id = $1 AND l.id > $2 AND l.id < $3 AND l.created_at < $4::bigint
	ORDER BY l.id LIMIT $5::bigint FOR UPDATE OF l SKIP LOCKED)) RETURNING id, entity_type, created_at, xid)
SELECT entity_type, ` + dayOfEntry + `, count(*), count(*) FILTER (WHERE xid < $6::bigint),
	(pg_catalog.array_agg(id ORDER BY id DESC))[1] FROM gone GROUP BY 1, 2`
}

// dropCountsText deletes the counts of days without entries.
const dropCountsText = "DELETE FROM vault_log_counts WHERE tenant_id = $1 AND day < $2::bigint AND n = 0"

// DeleteLogs implements [storage.Pruner]. The entries stay in the files until
// the server vacuums them. If the server's response is lost, the statement is
// repeated. Up to twice the limit may then be deleted, and only half of that
// counted in the result.
func (s *Store) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	bound, at := sqlstore.LogsBefore(before)
	piece := func(after storage.ID, limit int) (n int, err error) {
		var last []byte
		err = s.marked(ctx, tenant, func(tx *sql.Tx, mark int64) error {
			n, last, err = s.deleteLogs(ctx, tx, tenant, after[:], bound[:], at, int64(max(limit, 0)), mark)
			return err
		})
		if len(last) == len(after) && err == nil {
			s.pruned.keep(tenant, storage.ID(last))
		}
		return n, err
	}
	after := s.pruned.take(tenant) // zero for the beginning
	n, err := piece(after, limit)
	if err != nil || n >= limit {
		return n, err
	}
	if !after.IsZero() {
		// Earlier entries may have been locked then, or written since.
		more, err := piece(storage.ID{}, limit-n)
		if n += more; err != nil || n >= limit {
			return n, err
		}
	}
	_, err = s.delete(ctx, dropCountsText, tenant[:], sqlstore.LogDay(before))
	return n, err
}

// deleteLogs deletes entries, subtracts the counted ones from the counts, and
// returns the number of deleted entries and the last one.
func (s *Store) deleteLogs(ctx context.Context, tx *sql.Tx, tenant storage.ID, args ...any) (n int, last []byte, err error) {
	counts := wire.NewRows(logCountColumns, 1)
	err = link.Each(ctx, tx, func(rows *sql.Rows) error {
		var kind string
		var day, counted int64
		var gone int
		var id []byte
		if err := rows.Scan(&kind, &day, &gone, &counted, &id); err != nil {
			return err
		}
		if n += gone; bytes.Compare(id, last) > 0 {
			last = id
		}
		if counted > 0 {
			counts.Text(kind, sqlstore.NotNull)
			counts.Int(day, sqlstore.NotNull)
			counts.Int(-counted, sqlstore.NotNull)
		}
		return nil
	}, s.schema.in(s.deleteLogsText()), append([]any{tenant[:]}, args...)...)
	if err != nil || counts.N == 0 {
		return n, last, err
	}
	st := statements.NewStatement(tenant)
	text := st.Insert("vault_log_counts", counts) + onLogCounts
	_, err = tx.ExecContext(ctx, s.schema.in(text), st.Args...)
	return n, last, err
}

var logCountColumns = wire.ParseColumns("entity_type:text day:bigint n:bigint")
