package sqlstore

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
)

const logColumns = `l.id, l.actor_id, l.actor_type, l.entity_type, l.entity_id, l.operation, l.message, l.created_at`

// ListLogs implements [storage.TokenReader].
func (s *Store) ListLogs(ctx context.Context, f storage.LogFilter) ([]storage.Log, int, error) {
	where, args := s.logWhere(f)
	page, err := s.logPage(ctx, where, args, f)
	if err != nil {
		return nil, 0, err
	}
	if n, ok := wholeTotal(len(page), f.Offset, f.Limit, storage.ID{}); ok {
		return page, n, nil
	}
	total, err := s.countLogs(ctx, where, args, f)
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

func (s *Store) logWhere(f storage.LogFilter) (string, []any) {
	where, args := []string{`l.tenant_id = ?`}, []any{s.dialect.ID(f.Tenant)}
	add := func(condition string, value any) {
		where = append(where, condition)
		args = append(args, value)
	}
	if f.EntityType != "" {
		add(`l.entity_type = ?`, f.EntityType)
	}
	if f.EntityID != "" {
		add(`l.entity_id = ?`, f.EntityID)
	}
	if !f.From.IsZero() {
		add(`l.created_at >= ?`, microsUp(f.From))
	}
	if !f.To.IsZero() {
		add(`l.created_at < ?`, microsUp(f.To))
	}
	return and(where), args
}

func (s *Store) logPage(ctx context.Context, where string, args []any, f storage.LogFilter) ([]storage.Log, error) {
	query := `SELECT ` + logColumns + ` FROM logs l WHERE ` + where + ` ORDER BY l.id DESC LIMIT ? OFFSET ?`
	args = append(args[:len(args):len(args)], max(f.Limit, 0), max(f.Offset, 0))
	if f.Offset >= deepOffset {
		query = `SELECT ` + logColumns + ` FROM logs l WHERE l.tenant_id = ? AND l.id IN (
			SELECT * FROM (SELECT l.id FROM logs l WHERE ` + where + ` ORDER BY l.id DESC LIMIT ? OFFSET ?) p
		) ORDER BY l.id DESC`
		args = append([]any{args[0]}, args...)
	}
	var page []storage.Log
	var l storage.Log
	dest := []any{
		(*idColumn)(&l.ID), (*idColumn)(&l.ActorID), &l.ActorType, &l.EntityType, &l.EntityID,
		&l.Operation, &l.Message, (*timeColumn)(&l.CreatedAt),
	}
	err := s.each(ctx, query, args, dest, func() { page = append(page, l) })
	return page, err
}

func (s *Store) countLogs(ctx context.Context, where string, args []any, f storage.LogFilter) (int, error) {
	if s.dialect.LogCounts && f.EntityID == "" && f.From.IsZero() && f.To.IsZero() {
		return s.count(ctx, `SELECT CAST(COALESCE(SUM(l.n), 0) AS bigint) FROM log_counts l WHERE `+where, args...)
	}
	return s.count(ctx, `SELECT count(*) FROM logs l WHERE `+where, args...)
}
