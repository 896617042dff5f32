package sqlite

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

var _ storage.TreeStorage = (*Store)(nil)

// The statements of WriteTree. They run about once a second per tenant, too
// seldom to keep them prepared.
const (
	moveTreeText = `UPDATE vault_log_trees SET size = ?2, root = ?3, state = ?4
		WHERE tenant_id = ?1 AND size = ?5 AND state = ?6`
	newTreeText = `INSERT INTO vault_log_trees (tenant_id, size, root, state) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO NOTHING`

	addLeavesText     = `INSERT INTO vault_log_leaves (tenant_id, first, kind, ids, seqs, hashes) VALUES (?, ?, ?, ?, ?, ?)`
	addNodeText       = `INSERT INTO vault_log_nodes (tenant_id, level, n, hash) VALUES (?, ?, ?, ?)`
	addEventText      = `INSERT INTO vault_log_events (tenant_id, n, about, body) VALUES (?, ?, ?, ?)`
	addCheckpointText = `INSERT INTO vault_log_checkpoints (tenant_id, size, note, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`

	pruneLeavesText = `DELETE FROM vault_log_leaves WHERE tenant_id = ? AND first < ?`
	eraseLogText    = `UPDATE vault_logs SET actor_name = NULL, origin = NULL, mac = NULL
		WHERE tenant_id = ?1 AND seq = ?2 AND id = ?3`
)

// LogsByRef implements [storage.TreeStorage].
func (s *Store) LogsByRef(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return sqlstore.LogsBySeq(ctx, s.reader, tenant, refs)
}

// WriteTree implements [storage.TreeStorage].
func (s *Store) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	rows := 1 + len(c.Leaves) + len(c.Nodes) + len(c.Events) + len(c.Erase)
	err := s.writes.do(ctx, call{rows: rows, inside: func(w *writer) error { return w.writeTree(c) }})
	s.room.note(err)
	return err
}

func (w *writer) writeTree(c *storage.TreeChange) error {
	if err := w.moveTree(c); err != nil {
		return err
	}
	w.wrote = true
	tenant := c.Was.Tenant[:]
	for i := range c.Leaves {
		l := &c.Leaves[i]
		ids, seqs, hashes := sqlstore.JoinLeaves(l)
		if err := w.tree(addLeavesText, tenant, l.First, l.Kind, ids, seqs, hashes); err != nil {
			return err
		}
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if err := w.tree(addNodeText, tenant, n.Level, n.N, n.Hash[:]); err != nil {
			return err
		}
	}
	for i := range c.Events {
		e := &c.Events[i]
		if err := w.tree(addEventText, tenant, e.N, e.About[:], bytesOf(e.Body)); err != nil {
			return err
		}
	}
	return w.amendTree(c)
}

// moveTree sets the new state of a tree, if the tree is as the change expects.
func (w *writer) moveTree(c *storage.TreeChange) error {
	text := moveTreeText
	args := []any{c.Was.Tenant[:], c.Tree.Size, c.Tree.Root[:], bytesOf(c.Tree.State), c.Was.Size, bytesOf(c.Was.State)}
	if c.Was.State == nil {
		text, args = newTreeText, args[:4]
	}
	result, err := w.conn.ExecContext(background, text, args...)
	if err != nil {
		return describe("writing a tree", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return &storage.Conflict{Kind: storage.TreeStale}
	}
	return nil
}

// amendTree writes the checkpoint, prunes leaves and erases log entries.
func (w *writer) amendTree(c *storage.TreeChange) error {
	tenant := c.Was.Tenant[:]
	if p := c.Checkpoint; p != nil {
		if err := w.tree(addCheckpointText, tenant, p.Size, bytesOf(p.Note), p.At.UnixMicro()); err != nil {
			return err
		}
	}
	if c.PruneBelow > 0 {
		if err := w.tree(pruneLeavesText, tenant, c.PruneBelow); err != nil {
			return err
		}
	}
	for _, ref := range c.Erase {
		if err := w.tree(eraseLogText, tenant, ref.Seq, ref.ID[:]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) tree(text string, args ...any) error {
	if _, err := w.conn.ExecContext(background, text, args...); err != nil {
		return describe("writing a tree", err)
	}
	return nil
}
