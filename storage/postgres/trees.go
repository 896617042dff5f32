package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

var (
	_ storage.TreeStorage = (*Store)(nil)
	_ storage.Instanced   = (*Store)(nil)
)

// instanceText reads the identity and the start of the server. The checkpointer
// restarts after a crash of the server, which the start time of the postmaster does
// not show. Only some roles can see its row.
const instanceText = `SELECT c.system_identifier::text, GREATEST(pg_postmaster_start_time(),
	(SELECT max(a.backend_start) FROM pg_stat_activity a WHERE a.backend_type = 'checkpointer'))
	FROM pg_control_system() c`

// LogsByRef implements [storage.TreeStorage].
func (s *Store) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	var logs []storage.Log
	err := s.layout.Run(ctx, tenant, func() (err error) {
		logs, err = sqlstore.LogsByID(ctx, s.reader, "l.xid", tenant, refs)
		return err
	})
	return logs, err
}

// Instance implements [storage.Instanced]. If tables are distributed, it
// describes the coordinator.
func (s *Store) Instance(ctx context.Context) (is storage.Instance, err error) {
	if err := s.ready(ctx); err != nil {
		return is, err
	}
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, instanceText).Scan(&is.ID, &is.Started)
	})
	return is, link.Failed(err)
}

// WriteTree implements [storage.TreeStorage]. All rows are of one tenant, so if
// tables are distributed, one worker has them all.
func (s *Store) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var stale *storage.Conflict
	err := s.inTx(ctx, c.Was.Tenant, func(tx *sql.Tx) error {
		stale = nil
		err := sqlstore.WriteTree(s.reader, c, &treeTx{ctx: ctx, tx: tx, schema: s.schema, tenant: c.Was.Tenant})
		if errors.As(err, &stale) {
			return nil // nothing is written
		}
		return err
	})
	if err == nil && stale != nil {
		return stale
	}
	return err
}

// treeTx writes the tree of a tenant.
type treeTx struct {
	ctx    context.Context
	tx     *sql.Tx
	schema schemaName
	tenant storage.ID
}

// Exec implements [sqlstore.TreeTx].
func (t *treeTx) Exec(text string, args ...any) (changed int64, err error) {
	result, err := t.tx.ExecContext(t.ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Insert implements [sqlstore.TreeTx].
func (t *treeTx) Insert(table string, columns sqlstore.Columns, n int, put func(sqlstore.Put, int), clause string) error {
	rows := wire.NewRow(wire.Columns(columns))
	if n > 1 {
		rows = wire.NewRows(rows.Columns, n)
	}
	for i := range n {
		put(rows, i)
	}
	st := statements.NewStatement(t.tenant)
	text := st.Insert(table, rows) + clause
	_, err := t.Exec(t.schema.in(text), st.Args...)
	return err
}
