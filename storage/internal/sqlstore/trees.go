package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// Trees implements [storage.TreeStorage].
func (s *Store) Trees(ctx context.Context, f storage.TreeFilter) ([]storage.Tree, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	where, args := `t.tenant_id > ?`, []any{s.dialect.ID(f.After)}
	limit := max(f.Limit, 0)
	switch len(f.Tenants) {
	case 0:
		if f.Tenants != nil {
			return nil, nil
		}
	case 1: // in a distributed database this query needs one server
		where, args, limit = `t.tenant_id = ?`, []any{s.dialect.ID(f.Tenants[0])}, 1
	default:
		ids := make([]any, len(f.Tenants))
		for i, id := range f.Tenants {
			ids[i] = s.dialect.ID(id)
		}
		where, args = s.dialect.In(`t.tenant_id`, ids)
		limit = len(f.Tenants)
	}
	var all []storage.Tree
	var t storage.Tree
	err := s.each(ctx, `SELECT t.tenant_id, t.size, t.root, t.state FROM vault_log_trees t WHERE `+where+
		` ORDER BY t.tenant_id LIMIT ?`, append(args, limit),
		[]Field{{&t.Tenant}, {&t.Size}, {&t.Root}, {&t.State}},
		func() { all = append(all, t) })
	return all, err
}

// ReadTree implements [storage.TreeStorage].
func (s *Store) ReadTree(ctx context.Context, q storage.TreeQuery) (part storage.TreePart, err error) {
	if err := s.ready(ctx); err != nil {
		return part, err
	}
	if q.From < q.To {
		if part.Leaves, err = s.leaves(ctx, &q); err != nil {
			return part, err
		}
	}
	var node storage.Node
	dest := []Field{{&node.Level}, {&node.N}, {&node.Hash}}
	for _, r := range q.Nodes {
		if r.From >= r.To {
			continue
		}
		err := s.each(ctx, `SELECT l.level, l.n, l.hash FROM vault_log_nodes l WHERE l.tenant_id = ? AND l.level = ?
			AND l.n >= ? AND l.n < ? ORDER BY l.n`, []any{s.dialect.ID(q.Tenant), r.Level, r.From, r.To}, dest,
			func() { part.Nodes = append(part.Nodes, node) })
		if err != nil {
			return part, err
		}
	}
	return part, nil
}

// leaves reads batches. A batch that begins before the range is in the block of
// the range's first leaf.
func (s *Store) leaves(ctx context.Context, q *storage.TreeQuery) ([]storage.Leaves, error) {
	var all []storage.Leaves
	var l storage.Leaves
	var ids, seqs, hashes []byte
	// The database may have found the bytes of the id across two adjacent ids.
	holds := func(r storage.LogRef) bool { return r.ID == q.Holding }
	block := q.From - q.From%storage.LeavesPerBlock
	where, args := `l.tenant_id = ? AND l.first >= ? AND l.first < ?`, []any{s.dialect.ID(q.Tenant), block, q.To}
	if !q.Holding.IsZero() {
		where, args = where+` AND `+s.dialect.Position, append(args, q.Holding[:])
	}
	err := s.each(ctx, `SELECT l.first, l.kind, l.ids, l.seqs, l.hashes FROM vault_log_leaves l WHERE `+where+` ORDER BY l.first`, args,
		[]Field{{&l.First}, {&l.Kind}, {&ids}, {&seqs}, {&hashes}},
		func() {
			l.Refs, l.Hash = splitLeaves(ids, seqs, hashes)
			if l.First+int64(len(l.Refs)) > q.From && (q.Holding.IsZero() || slices.ContainsFunc(l.Refs, holds)) {
				all = append(all, l)
			}
		})
	return all, err
}

const (
	moveTree = `UPDATE vault_log_trees SET size = ?, root = ?, state = ? WHERE tenant_id = ? AND size = ? AND state = ?`
	newTree  = `INSERT INTO vault_log_trees (size, root, state, tenant_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
)

var (
	leavesRow     = Columns{{"first", Int}, {"kind", Int}, {"ids", Blob}, {"seqs", Blob}, {"hashes", Blob}}
	nodeRow       = Columns{{"level", Int}, {"n", Int}, {"hash", Blob}}
	eventRow      = Columns{{"n", Int}, {"about", Blob}, {"body", Blob}}
	checkpointRow = Columns{{"size", Int}, {"note", Blob}, {"at", Int}}
)

// TreeTx is a transaction in which a tree is written.
type TreeTx interface {
	// Exec runs a statement, and returns how many rows it changed.
	Exec(text string, args ...any) (changed int64, err error)
	// Insert inserts n rows under the tenant of the tree. put puts the values of a
	// row. The INSERT ends with a clause that may be empty.
	Insert(table string, columns Columns, n int, put func(p Put, i int), clause string) error
}

// WriteTree writes a change.
func WriteTree(s *Store, c *storage.TreeChange, tx TreeTx) error {
	tenant := s.dialect.ID(c.Was.Tenant)
	text := moveTree
	args := []any{c.Tree.Size, c.Tree.Root[:], notNil(c.Tree.State), tenant, c.Was.Size, notNil(c.Was.State)}
	if c.Was.State == nil {
		text, args = newTree, args[:4]
	}
	if n, err := tx.Exec(s.text(text), args...); err != nil || n == 0 {
		return cmp.Or(err, error(&storage.Conflict{Kind: storage.TreeStale}))
	}
	if err := insertTree(c, tx); err != nil || c.PruneBelow == 0 {
		return err
	}
	_, err := tx.Exec(s.text(`DELETE FROM vault_log_leaves WHERE tenant_id = ? AND first < ?`), tenant, c.PruneBelow)
	return err
}

// insertTree inserts the rows of a change. A checkpoint of the same size stays.
func insertTree(c *storage.TreeChange, tx TreeTx) error {
	checkpoints := 0
	if c.Checkpoint != nil {
		checkpoints = 1
	}
	for _, part := range []struct {
		table   string
		columns Columns
		n       int
		put     func(p Put, i int)
		clause  string
	}{
		{"vault_log_leaves", leavesRow, len(c.Leaves), func(p Put, i int) { putLeaves(p, &c.Leaves[i]) }, ""},
		{"vault_log_nodes", nodeRow, len(c.Nodes), func(p Put, i int) { putNode(p, &c.Nodes[i]) }, ""},
		{"vault_log_events", eventRow, len(c.Events), func(p Put, i int) { putEvent(p, &c.Events[i]) }, ""},
		{"vault_log_checkpoints", checkpointRow, checkpoints, func(p Put, _ int) { putCheckpoint(p, c.Checkpoint) }, " ON CONFLICT DO NOTHING"},
	} {
		if part.n == 0 {
			continue
		}
		if err := tx.Insert(part.table, part.columns, part.n, part.put, part.clause); err != nil {
			return err
		}
	}
	return nil
}

func putLeaves(p Put, l *storage.Leaves) {
	ids, seqs, hashes := joinLeaves(l)
	p.Int(l.First, NotNull)
	p.Int(int64(l.Kind), NotNull)
	p.Bytes(ids, NotNull)
	p.Bytes(seqs, NotNull)
	p.Bytes(hashes, NotNull)
}

func putNode(p Put, n *storage.Node) {
	p.Int(int64(n.Level), NotNull)
	p.Int(n.N, NotNull)
	p.Bytes(n.Hash[:], NotNull)
}

func putEvent(p Put, e *storage.TreeEvent) {
	p.Int(e.N, NotNull)
	p.Bytes(e.About[:], NotNull)
	p.Bytes(e.Body, NotNull)
}

func putCheckpoint(p Put, c *storage.Checkpoint) {
	p.Int(c.Size, NotNull)
	p.Bytes(c.Note, NotNull)
	p.Int(c.At.UnixMicro(), NotNull)
}

// notNil returns b, or an empty slice for nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// joinLeaves returns the columns of a batch of leaves.
func joinLeaves(l *storage.Leaves) (ids, seqs, hashes []byte) {
	for i, ref := range l.Refs {
		ids = append(ids, ref.ID[:]...)
		seqs = binary.BigEndian.AppendUint64(seqs, uint64(ref.Seq))
		hashes = append(hashes, l.Hash[i][:]...)
	}
	return ids, seqs, hashes
}

// splitLeaves reads the columns of a batch. If someone has shortened one of
// them, the missing values are zero.
func splitLeaves(ids, seqs, hashes []byte) ([]storage.LogRef, []storage.Key) {
	n := max((len(ids)+15)/16, (len(seqs)+7)/8, (len(hashes)+31)/32)
	refs, commitments := make([]storage.LogRef, n), make([]storage.Key, n)
	for i := range n {
		var seq [8]byte
		copy(refs[i].ID[:], after(ids, i*16))
		copy(seq[:], after(seqs, i*8))
		copy(commitments[i][:], after(hashes, i*32))
		refs[i].Seq = int64(binary.BigEndian.Uint64(seq[:]))
	}
	return refs, commitments
}

func after(b []byte, n int) []byte { return b[min(n, len(b)):] }

// TreeEvents implements [storage.TreeStorage].
func (s *Store) TreeEvents(ctx context.Context, q storage.EventQuery) ([]storage.TreeEvent, error) {
	if err := s.ready(ctx); err != nil || q.From >= q.To {
		return nil, err
	}
	where, args := `e.tenant_id = ? AND e.n >= ? AND e.n < ?`, []any{s.dialect.ID(storage.ID{}), q.From, q.To}
	if q.About != nil {
		where, args = where+` AND e.about = ?`, append(args, s.dialect.ID(*q.About))
	}
	where += ` ORDER BY e.n`
	if q.Limit > 0 {
		where, args = where+` LIMIT ?`, append(args, q.Limit)
	}
	var all []storage.TreeEvent
	var e storage.TreeEvent
	err := s.each(ctx, `SELECT e.n, e.about, e.body FROM vault_log_events e WHERE `+where, args,
		[]Field{{&e.N}, {&e.About}, {&e.Body}},
		func() { all = append(all, e) })
	return all, err
}

// Checkpoints implements [storage.TreeStorage].
func (s *Store) Checkpoints(ctx context.Context, q storage.CheckpointQuery) ([]storage.Checkpoint, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	order := `DESC`
	if q.Oldest {
		order = `ASC`
	}
	var all []storage.Checkpoint
	var c storage.Checkpoint
	err := s.each(ctx, `SELECT c.size, c.note, c.at FROM vault_log_checkpoints c WHERE c.tenant_id = ? AND c.size > ? AND c.size < ?
		ORDER BY c.size `+order+` LIMIT ?`, []any{s.dialect.ID(storage.ID{}), q.Above, q.Below, max(q.Limit, 0)},
		[]Field{{&c.Size}, {&c.Note}, {&c.At}},
		func() { all = append(all, c) })
	return all, err
}

// LogsByID returns log entries by id, if ids are the key and the database is
// PostgreSQL. seq is the column with the number of their transaction.
func LogsByID(ctx context.Context, s *Store, seq string, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	if err := s.ready(ctx); err != nil || len(refs) == 0 {
		return nil, err
	}
	wanted := make([]storage.ID, len(refs))
	for i := range refs {
		wanted[i] = refs[i].ID
	}
	slices.SortFunc(wanted, compareIDs)
	found, wanted, err := s.logsInRange(ctx, seq, tenant, slices.Compact(wanted))
	if err != nil || len(wanted) == 0 {
		return found, err
	}
	ids := make([]any, len(wanted))
	for i, id := range wanted {
		ids[i] = s.dialect.ID(id)
	}
	_, args := s.dialect.In(`l.id`, ids)
	others, err := s.followed(ctx, seq, `pg_catalog.unnest(?::bytea[]) AS w(id) CROSS JOIN LATERAL (SELECT *, `+InOrder+` FROM vault_logs k
		WHERE k.tenant_id = ? AND k.id >= w.id ORDER BY k.id LIMIT 1) l WHERE l.id = w.id`, append(args, s.dialect.ID(tenant)))
	return append(found, others...), err
}

func compareIDs(a, b storage.ID) int { return bytes.Compare(a[:], b[:]) }

// fewLogs is how many entries are looked up one by one.
const fewLogs = 32

// logsInRange reads the entries with these ids, in ascending order, as a range of the
// log. The entries of a page of a tree are next to each other, and PostgreSQL takes
// forty times as long to look up each. logsInRange reads at most twice as many rows as
// there are ids, and returns the ids behind them. If a row cannot be read, it returns
// all ids, because the row may be none of them.
func (s *Store) logsInRange(ctx context.Context, seq string, tenant storage.ID, ids []storage.ID) (found []storage.Log, rest []storage.ID, err error) {
	if len(ids) <= fewLogs {
		return nil, ids, nil
	}
	most := 2 * len(ids)
	page, err := s.followed(ctx, seq, `vault_logs l, `+InOrder+` WHERE l.tenant_id = ? AND l.id >= ? AND l.id <= ? AND octet_length(l.id) = 16
		ORDER BY l.id LIMIT ?`, []any{s.dialect.ID(tenant), s.dialect.ID(ids[0]), s.dialect.ID(ids[len(ids)-1]), most})
	if errors.Is(err, storage.ErrMalformed) {
		return nil, ids, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range page {
		if _, ok := slices.BinarySearchFunc(ids, page[i].ID, compareIDs); ok {
			found = append(found, page[i])
		}
	}
	if len(page) < most {
		return found, nil, nil
	}
	behind, ok := slices.BinarySearchFunc(ids, page[most-1].ID, compareIDs)
	if ok {
		behind++
	}
	return found, ids[behind:], nil
}

// LogsBySeq returns log entries by sequence number, if an index has the numbers
// and ids. Entries without a number have 0, and are read by id alone.
func LogsBySeq(ctx context.Context, s *Store, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	wanted := make(map[storage.ID]struct{}, len(refs))
	var unknown, unnumbered, numbered []storage.LogRef
	for _, r := range refs {
		wanted[r.ID] = struct{}{}
		switch {
		case r.Seq == storage.AnySeq:
			unknown = append(unknown, r)
		case r.Seq == 0:
			unnumbered = append(unnumbered, r)
		default:
			numbered = append(numbered, r)
		}
	}
	found, err := s.logsByType(ctx, tenant, unknown)
	if err != nil {
		return nil, err
	}
	for _, some := range [][]storage.LogRef{unnumbered, numbered} {
		if len(some) == 0 {
			continue
		}
		low, high := slices.MinFunc(some, compareRefs), slices.MaxFunc(some, compareRefs)
		page, err := Followed(ctx, s, `l.seq`, `l.tenant_id = ? AND (l.seq, l.id) >= (?, ?) AND (l.seq, l.id) <= (?, ?)`,
			s.dialect.ID(tenant), low.Seq, s.dialect.ID(low.ID), high.Seq, s.dialect.ID(high.ID))
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if _, ok := wanted[l.ID]; ok {
				found = append(found, l)
			}
		}
	}
	return found, nil
}

// logsByType returns log entries by id, if the key has the type before the id.
func (s *Store) logsByType(ctx context.Context, tenant storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ids := make([]any, len(refs))
	for i := range refs {
		ids[i] = s.dialect.ID(refs[i].ID)
	}
	where, args := s.dialect.In(`l.id`, ids)
	return Followed(ctx, s, `l.seq`, `l.tenant_id = ? AND l.entity_type IN (
		SELECT c.entity_type FROM vault_log_counts c WHERE c.tenant_id = ?) AND `+where,
		append([]any{s.dialect.ID(tenant), s.dialect.ID(tenant)}, args...)...)
}

func compareRefs(a, b storage.LogRef) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.ID[:], b.ID[:]))
}
