package sqlite

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

var _ storage.TreeStorage = (*Store)(nil)

// LogsByRef implements [storage.TreeStorage].
func (s *Store) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return sqlstore.LogsBySeq(ctx, s.reader, tenant, refs)
}

// WriteTree implements [storage.TreeStorage].
func (s *Store) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	rows := 1 + len(c.Leaves) + len(c.Nodes) + len(c.Events)
	err := s.writes.do(ctx, call{rows: rows, inside: func(w *writer) error { return w.writeTree(s.reader, c) }})
	s.room.record(err)
	return err
}

func (w *writer) writeTree(reader *sqlstore.Store, c *storage.TreeChange) error {
	tx := treeTx{w, c.Was.Tenant[:]}
	if err := sqlstore.WriteTree(reader, c, tx); err != nil {
		return err
	}
	w.wrote = true
	return nil
}

// treeTx writes the tree of a tenant, about once a second, which is too seldom to
// keep statements prepared.
type treeTx struct {
	*writer
	tenant any
}

// Exec implements [sqlstore.TreeTx].
func (t treeTx) Exec(text string, args ...any) (changed int64, err error) {
	result, err := t.conn.ExecContext(background, text, args...)
	if err != nil {
		return 0, describe("writing a tree", err)
	}
	return result.RowsAffected()
}

// Insert implements [sqlstore.TreeTx].
func (t treeTx) Insert(table string, columns sqlstore.Columns, n int, put func(sqlstore.Put, int), clause string) error {
	for i := range n {
		row := values{t.tenant}
		put(&row, i)
		if _, err := t.Exec(insertInto(table, columns)+clause, row...); err != nil {
			return err
		}
	}
	return nil
}
