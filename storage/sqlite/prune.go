package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The statements of DeleteLogs. They run a few times per sweep, too seldom to
// keep them prepared.
const (
	oldTypesText = `SELECT DISTINCT entity_type FROM vault_log_counts WHERE tenant_id = ?1 AND day <= ?2`

	deleteLogsText = `DELETE FROM vault_logs WHERE tenant_id = ?1 AND entity_type = ?2 AND id IN (
		SELECT id FROM vault_logs WHERE tenant_id = ?1 AND entity_type = ?2 AND id < ?3 AND created_at < ?4
		ORDER BY id LIMIT ?5) RETURNING created_at`

	uncountLogsText = `UPDATE vault_log_counts SET n = n - ?4 WHERE tenant_id = ?1 AND entity_type = ?2 AND day = ?3`
	dropCountText   = `DELETE FROM vault_log_counts WHERE tenant_id = ?1 AND entity_type = ?2 AND day = ?3 AND n <= 0`
)

// DeleteLogs implements [storage.Pruner].
func (s *Store) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	deleted := 0
	// Alone, because log_counts includes the entries of a transaction only
	// after its commit.
	err := s.writes.do(ctx, call{alone: true, rows: max(limit, 1), inside: func(w *writer) (err error) {
		deleted, err = w.deleteLogs(tenant, before, max(limit, 0))
		return err
	}})
	if err != nil {
		return 0, describe("deleting log entries", err)
	}
	return deleted, nil
}

// deleteLogs deletes entries type by type, each type in key order.
func (w *writer) deleteLogs(tenant storage.ID, before time.Time, limit int) (deleted int, err error) {
	first, at := sqlstore.LogsBefore(before)
	types, err := column[string](w, oldTypesText, tenant[:], sqlstore.LogDay(before))
	if err != nil {
		return 0, err
	}
	for _, entityType := range types {
		if deleted == limit {
			break
		}
		created, err := column[int64](w, deleteLogsText, tenant[:], entityType, first[:], at, limit-deleted)
		if err != nil {
			return 0, err
		}
		if err := w.uncountLogs(tenant, entityType, created); err != nil {
			return 0, err
		}
		deleted += len(created)
	}
	return deleted, nil
}

// uncountLogs subtracts deleted entries, which were created at these times,
// from log_counts.
func (w *writer) uncountLogs(tenant storage.ID, entityType string, created []int64) error {
	byDay := map[int64]int{}
	for _, at := range created {
		byDay[sqlstore.LogDay(time.UnixMicro(at))]++
	}
	for day, n := range byDay {
		if _, err := w.conn.ExecContext(background, uncountLogsText, tenant[:], entityType, day, n); err != nil {
			return err
		}
		if _, err := w.conn.ExecContext(background, dropCountText, tenant[:], entityType, day); err != nil {
			return err
		}
	}
	return nil
}

// column runs a statement and returns the values of its only column.
func column[T any](w *writer, query string, args ...any) ([]T, error) {
	rows, err := w.conn.QueryContext(background, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []T
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, errors.Join(rows.Err(), rows.Close())
}
