package model

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// tree holds the rows of a Merkle tree.
type tree struct {
	storage.Tree
	leaves      []storage.Leaves
	nodes       map[nodeID]storage.Key
	events      []storage.TreeEvent
	checkpoints []storage.Checkpoint // by size
}

type nodeID struct {
	level int
	n     int64
}

// copy returns a copy of the tree that shares no rows with it, for a rollback.
func (t *tree) copy() *tree {
	return &tree{t.Tree, slices.Clone(t.leaves), maps.Clone(t.nodes), slices.Clone(t.events), slices.Clone(t.checkpoints)}
}

func copyTree(t storage.Tree) storage.Tree {
	t.State = bytes.Clone(t.State)
	return t
}

func copyLeaves(l storage.Leaves) storage.Leaves {
	l.Refs, l.Hash = slices.Clone(l.Refs), slices.Clone(l.Hash)
	return l
}

// Trees returns trees in the order of their tenants.
func (s *Store) Trees(ctx context.Context, f storage.TreeFilter) ([]storage.Tree, error) {
	return locked(ctx, s, func() ([]storage.Tree, error) {
		var found []storage.Tree
		for id, t := range s.db.trees {
			if f.Tenants != nil && slices.Contains(f.Tenants, id) || f.Tenants == nil && bytes.Compare(id[:], f.After[:]) > 0 {
				found = append(found, copyTree(t.Tree))
			}
		}
		slices.SortFunc(found, func(a, b storage.Tree) int { return bytes.Compare(a.Tenant[:], b.Tenant[:]) })
		if f.Tenants == nil {
			found = page(found, 0, f.Limit)
		}
		return found, nil
	})
}

// ReadTree returns rows of a tree.
func (s *Store) ReadTree(ctx context.Context, q storage.TreeQuery) (storage.TreePart, error) {
	return locked(ctx, s, func() (part storage.TreePart, err error) {
		t := s.db.trees[q.Tenant]
		if t == nil {
			return part, nil
		}
		for _, l := range t.leaves {
			within := l.First < q.To && l.First+int64(len(l.Refs)) > q.From
			holds := slices.ContainsFunc(l.Refs, func(r storage.LogRef) bool { return r.ID == q.Holding })
			if within && (q.Holding.IsZero() || holds) {
				part.Leaves = append(part.Leaves, copyLeaves(l))
			}
		}
		for id, hash := range t.nodes {
			if slices.ContainsFunc(q.Nodes, func(r storage.NodeRange) bool { return r.Level == id.level && r.From <= id.n && id.n < r.To }) {
				part.Nodes = append(part.Nodes, storage.Node{Level: id.level, N: id.n, Hash: hash})
			}
		}
		slices.SortFunc(part.Nodes, func(a, b storage.Node) int { return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.N, b.N)) })
		return part, nil
	})
}

// TreeEvents returns events of the vault's tree, in order.
func (s *Store) TreeEvents(ctx context.Context, q storage.EventQuery) ([]storage.TreeEvent, error) {
	return locked(ctx, s, func() ([]storage.TreeEvent, error) {
		var found []storage.TreeEvent
		for _, e := range s.db.tree(storage.ID{}).events {
			if q.From <= e.N && e.N < q.To && (q.About == nil || *q.About == e.About) && (q.Limit == 0 || len(found) < q.Limit) {
				e.Body = bytes.Clone(e.Body)
				found = append(found, e)
			}
		}
		return found, nil
	})
}

// Checkpoints returns checkpoints of the vault's tree.
func (s *Store) Checkpoints(ctx context.Context, q storage.CheckpointQuery) ([]storage.Checkpoint, error) {
	return locked(ctx, s, func() ([]storage.Checkpoint, error) {
		var found []storage.Checkpoint
		for _, c := range s.db.tree(storage.ID{}).checkpoints {
			if q.Above < c.Size && c.Size < q.Below {
				c.Note = bytes.Clone(c.Note)
				found = append(found, c)
			}
		}
		if !q.Oldest {
			slices.Reverse(found)
		}
		return page(found, 0, q.Limit), nil
	})
}

// LogsByRef returns log entries by reference.
func (s *Store) LogsByRef(ctx context.Context, id storage.ID, refs []storage.LogRef) ([]storage.Log, error) {
	return locked(ctx, s, func() ([]storage.Log, error) {
		t := s.db.tenant(id)
		seqs := map[storage.ID]int64{}
		for _, w := range t.written {
			seqs[w.id] = w.seq
		}
		var found []storage.Log
		for _, ref := range refs {
			entry, ok := t.logs[ref.ID]
			if ok && (ref.Seq == storage.AnySeq || ref.Seq == seqs[ref.ID]) {
				entry.Seq = seqs[ref.ID]
				found = append(found, entry)
			}
		}
		return found, nil
	})
}

// tree returns the tree of a tenant, or an empty tree that is not stored.
func (db *DB) tree(tenant storage.ID) *tree {
	if t := db.trees[tenant]; t != nil {
		return t
	}
	return &tree{Tree: storage.Tree{Tenant: tenant}, nodes: map[nodeID]storage.Key{}}
}

// WriteTree applies a change to a tree.
func (s *Store) WriteTree(ctx context.Context, c *storage.TreeChange) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	t := s.db.tree(c.Was.Tenant)
	if t.Size != c.Was.Size || !bytes.Equal(t.State, c.Was.State) || (t.State == nil) != (c.Was.State == nil) {
		return &storage.Conflict{Kind: storage.TreeStale}
	}
	s.db.trees[c.Was.Tenant] = t
	t.Tree = copyTree(c.Tree)
	t.leaves = slices.DeleteFunc(t.leaves, func(l storage.Leaves) bool { return l.First < c.PruneBelow })
	for _, l := range c.Leaves {
		t.leaves = append(t.leaves, copyLeaves(l))
	}
	for _, n := range c.Nodes {
		t.nodes[nodeID{n.Level, n.N}] = n.Hash
	}
	for _, e := range c.Events {
		e.Body = append([]byte{}, e.Body...)
		t.events = append(t.events, e)
	}
	t.checkpoint(c.Checkpoint)
	return nil
}

// checkpoint stores a checkpoint, unless there is one of the same size.
func (t *tree) checkpoint(c *storage.Checkpoint) {
	if c == nil {
		return
	}
	at, exists := slices.BinarySearchFunc(t.checkpoints, c.Size, func(c storage.Checkpoint, size int64) int { return cmp.Compare(c.Size, size) })
	if !exists {
		t.checkpoints = slices.Insert(t.checkpoints, at, storage.Checkpoint{Size: c.Size, Note: bytes.Clone(c.Note), At: stored(c.At)})
	}
}

// ReadToken returns a token and logs the read.
func (s *Store) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	return locked(ctx, s, func() (storage.Token, error) {
		t := s.db.tenant(r.Tenant)
		for _, row := range t.tokens {
			if row.ID == r.ID && !come(row.ExpiresAt, r.Entry.CreatedAt) {
				entry := r.Entry
				entry.EntityType, entry.EntityID = row.Type, row.ID
				s.db.enter(t, []storage.Log{entry})
				return readToken(row), nil
			}
		}
		return storage.Token{}, storage.ErrNotFound
	})
}

// ClockAhead returns zero, because the model has the clock of its process.
func (s *Store) ClockAhead(ctx context.Context) (time.Duration, error) {
	return locked(ctx, s, func() (time.Duration, error) { return 0, nil })
}
