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

const (
	moveTreeText = `UPDATE vault_log_trees SET size = $2::bigint, root = $3::bytea, state = $4::bytea
		WHERE tenant_id = $1::bytea AND size = $5::bigint AND state = $6::bytea`
	newTreeText = `INSERT INTO vault_log_trees (tenant_id, size, root, state)
		VALUES ($1::bytea, $2::bigint, $3::bytea, $4::bytea) ON CONFLICT DO NOTHING`
	pruneLeavesText = `DELETE FROM vault_log_leaves WHERE tenant_id = $1::bytea AND first < $2::bigint`

	// The checkpointer restarts after a crash of the server, which the start
	// time of the postmaster does not show. Only some roles can see its row.
	instanceText = `SELECT c.system_identifier::text, GREATEST(pg_postmaster_start_time(),
		(SELECT max(a.backend_start) FROM pg_stat_activity a WHERE a.backend_type = 'checkpointer'))
		FROM pg_control_system() c`
)

var (
	leavesColumns = wire.ParseColumns("first:bigint", "kind:bigint", "ids:bytea", "seqs:bytea", "hashes:bytea")
	nodeColumns   = wire.ParseColumns("level:bigint", "n:bigint", "hash:bytea")
	eventColumns  = wire.ParseColumns("n:bigint", "about:bytea", "body:bytea")
	noteColumns   = wire.ParseColumns("size:bigint", "note:bytea", "at:bigint")
)

// LogsByRef implements [storage.TreeStorage].
func (s *Store) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	var logs []storage.Log
	err := s.layout.Run(ctx, tenant, func() (err error) {
		logs, err = sqlstore.LogsByID(ctx, s.reader, "COALESCE(l.xid, 0)", tenant, refs)
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
	err := s.layout.Run(ctx, c.Was.Tenant, func() error {
		return link.Failed(sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
			stale = nil
			err := s.transact(ctx, conn, func(tx *sql.Tx) error { return s.writeTree(ctx, tx, c) })
			if errors.As(err, &stale) {
				return nil
			}
			return err
		}))
	})
	if err == nil && stale != nil {
		return stale
	}
	return err
}

func (s *Store) writeTree(ctx context.Context, tx *sql.Tx, c *storage.TreeChange) error {
	if err := s.moveTree(ctx, tx, c); err != nil {
		return err
	}
	for _, part := range []struct {
		table string
		rows  *wire.Rows
	}{
		{"vault_log_leaves", wire.RowsOf(leavesColumns, c.Leaves, putLeaves)},
		{"vault_log_nodes", wire.RowsOf(nodeColumns, c.Nodes, putNode)},
		{"vault_log_events", wire.RowsOf(eventColumns, c.Events, putEvent)},
	} {
		if part.rows.N == 0 {
			continue
		}
		st := statements.NewStatement(c.Was.Tenant)
		text := st.Insert(part.table, part.rows)
		if _, err := tx.ExecContext(ctx, s.schema.in(text), st.Args...); err != nil {
			return err
		}
	}
	return s.amendTree(ctx, tx, c)
}

// moveTree sets the new state of a tree, if the tree is as the change expects.
func (s *Store) moveTree(ctx context.Context, tx *sql.Tx, c *storage.TreeChange) error {
	text := moveTreeText
	args := []any{c.Was.Tenant[:], c.Tree.Size, c.Tree.Root[:], notNil(c.Tree.State), c.Was.Size, notNil(c.Was.State)}
	if c.Was.State == nil {
		text, args = newTreeText, args[:4]
	}
	result, err := tx.ExecContext(ctx, s.schema.in(text), args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return &storage.Conflict{Kind: storage.TreeStale}
	}
	return nil
}

// amendTree writes the checkpoint, prunes leaves and erases log entries.
func (s *Store) amendTree(ctx context.Context, tx *sql.Tx, c *storage.TreeChange) error {
	if c.Checkpoint != nil {
		row := wire.NewRow(noteColumns)
		row.Int(c.Checkpoint.Size)
		row.Bytes(c.Checkpoint.Note)
		row.Int(c.Checkpoint.At.UnixMicro())
		st := statements.NewStatement(c.Was.Tenant)
		text := st.Insert("vault_log_checkpoints", row) + " ON CONFLICT DO NOTHING"
		if _, err := tx.ExecContext(ctx, s.schema.in(text), st.Args...); err != nil {
			return err
		}
	}
	if c.PruneBelow > 0 {
		if _, err := tx.ExecContext(ctx, s.schema.in(pruneLeavesText), c.Was.Tenant[:], c.PruneBelow); err != nil {
			return err
		}
	}
	if len(c.Erase) == 0 {
		return nil
	}
	ids := wire.NewArray(wire.OIDBytea, len(c.Erase))
	for i := range c.Erase {
		ids.Bytes(c.Erase[i].ID[:])
	}
	st := &statements.Statement{Composer: s.layout.Traits()}
	rows := st.At("vault_logs", "l", "unnest($2::bytea[]) AS u(id)", "id")
	for _, text := range []string{
		// Wait for transactions that change the rows, which have other ctids afterwards.
		"SELECT 1 FROM vault_logs l WHERE " + rows + " FOR UPDATE",
		"UPDATE vault_logs l SET actor_name = NULL, origin = NULL, mac = NULL WHERE " + rows,
	} {
		if _, err := tx.ExecContext(ctx, s.schema.in(text), c.Was.Tenant[:], ids.Value()); err != nil {
			return err
		}
	}
	return nil
}

func putLeaves(r *wire.Rows, l *storage.Leaves) {
	ids, seqs, hashes := sqlstore.JoinLeaves(l)
	r.Int(l.First)
	r.Int(int64(l.Kind))
	r.Bytes(ids)
	r.Bytes(seqs)
	r.Bytes(hashes)
}

func putNode(r *wire.Rows, n *storage.Node) {
	r.Int(int64(n.Level))
	r.Int(n.N)
	r.Bytes(n.Hash[:])
}

func putEvent(r *wire.Rows, e *storage.TreeEvent) {
	r.Int(e.N)
	r.Bytes(e.About[:])
	r.Bytes(e.Body)
}

// notNil returns b, or an empty slice for nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
