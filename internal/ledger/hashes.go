package ledger

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// levels are the tree levels whose complete subtrees are stored, in addition to
// the leaves.
var levels = [...]int{8, 16, 24}

// below returns the highest stored level at or below a level. Leaves have level
// 0.
func below(level int) (stored int) {
	for _, l := range levels {
		if l <= level {
			stored = l
		}
	}
	return stored
}

// hashes reads the hashes of one tree and caches them.
type hashes struct {
	ctx    context.Context
	l      *Ledger
	tenant uuid.UUID
	seen   map[merkle.Subtree]merkle.Hash
}

func (l *Ledger) hashes(ctx context.Context, tenant uuid.UUID) *hashes {
	return &hashes{ctx, l, tenant, map[merkle.Subtree]merkle.Hash{}}
}

// maxSeen is the maximum number of cached hashes, before the hashes of one block are
// added.
const maxSeen = 1 << 16

// ReadHashes implements [tlog.HashReader].
func (h *hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	all := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		hash, err := h.subtree(merkle.Subtree{Level: level, N: n})
		if err != nil {
			return nil, err
		}
		all[i] = hash
	}
	return all, nil
}

// subtree returns the root of a complete subtree. It computes the root from the
// stored rows below it. It reads the whole block of these rows at once, because
// proofs need most of it.
func (h *hashes) subtree(s merkle.Subtree) (merkle.Hash, error) {
	if hash, ok := h.seen[s]; ok {
		return hash, nil
	}
	if len(h.seen) > maxSeen {
		clear(h.seen)
	}
	base := below(s.Level)
	const high = 8 // levels of a block
	from := s.N << (s.Level - base) >> high << high
	to := from + 1<<high
	var f merkle.Frontier
	f.Complete = func(sub merkle.Subtree, hash merkle.Hash) {
		h.seen[merkle.Subtree{Level: base + sub.Level, N: sub.N + from>>sub.Level}] = hash
	}
	err := h.each(base, from, to, func(n int64, hash merkle.Hash) {
		if n == from+f.Size() { // there is no gap before it
			f.Add(hash)
		}
	})
	hash, ok := h.seen[s]
	if err == nil && !ok {
		err = fmt.Errorf("%w: rows are missing", ErrTampered)
	}
	return hash, err
}

// each calls do for the stored rows of a level, from one index up to another: nodes,
// leaves, or events of the vault.
func (h *hashes) each(level int, from, to int64, do func(n int64, hash merkle.Hash)) error {
	tenant := storage.ID(h.tenant)
	switch {
	case level > 0:
		part, err := h.l.c.Store.ReadTree(h.ctx, storage.TreeQuery{
			Tenant: tenant, Nodes: []storage.NodeRange{{Level: level, From: from, To: to}},
		})
		for _, node := range part.Nodes {
			do(node.N, merkle.Hash(node.Hash))
		}
		return err
	case h.tenant == uuid.UUID{}:
		events, err := h.l.c.Store.TreeEvents(h.ctx, storage.EventQuery{From: from, To: to})
		for _, e := range events {
			do(e.N, tlog.RecordHash(e.Body))
		}
		return err
	}
	for x, err := range h.l.leaves(h.ctx, tenant, from, to) {
		if err != nil {
			return err
		}
		do(x.index(), x.hash())
	}
	return nil
}

// frontier returns the frontier of the tree with the first size leaves.
func (h *hashes) frontier(size int64) (*merkle.Frontier, error) {
	f := &merkle.Frontier{}
	for _, s := range merkle.Cover(0, size) {
		hash, err := h.subtree(s)
		if err != nil {
			return nil, err
		}
		if err := f.AddSubtree(s.Level, hash); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// root returns the root of the tree with the first size leaves.
func (h *hashes) root(size int64) (merkle.Hash, error) {
	f, err := h.frontier(size)
	if err != nil {
		return merkle.Hash{}, err
	}
	return f.Root(), nil
}

// prove returns the proof that leaf n is in the tree with the first size
// leaves.
func (h *hashes) prove(size, n int64) ([]merkle.Hash, error) {
	p, err := tlog.ProveRecord(size, n, h)
	return append([]merkle.Hash{}, p...), err
}

// proven returns an event of the vault's tree of a size with its inclusion proof.
func (h *hashes) proven(size, index int64) (evidence.Proven, error) {
	events, err := h.l.c.Store.TreeEvents(h.ctx, storage.EventQuery{From: index, To: index + 1})
	if err != nil {
		return evidence.Proven{}, err
	}
	if len(events) == 0 {
		return evidence.Proven{}, fmt.Errorf("%w: an event is missing", ErrTampered)
	}
	p := evidence.Proven{Body: string(events[0].Body), Index: index}
	p.Proof, err = h.prove(size, index)
	return p, err
}

// nodesOf collects the nodes that must be stored when a frontier grows.
func nodesOf(f *merkle.Frontier) *[]storage.Node {
	nodes := &[]storage.Node{}
	f.Complete = func(s merkle.Subtree, hash merkle.Hash) {
		if s.Level > 0 && below(s.Level) == s.Level {
			*nodes = append(*nodes, storage.Node{Level: s.Level, N: s.N, Hash: storage.Key(hash)})
		}
	}
	return nodes
}
