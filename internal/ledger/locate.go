package ledger

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// Located is the place of an entry in the tree of its tenant.
type Located struct {
	Index int64
	Leaf  evidence.Hash
}

const (
	locateStep = 2 * storage.LeavesPerBlock // leaves that are read at once
	maxLookups = 8                          // of entries that are not where they were expected
)

// Locate sequences the entries of a tenant, and returns the places of some of them.
// They are given in the order of the log, and the first is expected near a leaf.
// The result lacks entries that are in no tree, such as those from before evidence
// began.
func (l *Ledger) Locate(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, near int64) (map[uuid.UUID]Located, error) {
	tree, err := l.Sequence(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s := &locating{l: l, ctx: ctx, tenant: storage.ID(tenant), size: tree.Size, missing: map[uuid.UUID]bool{}, found: map[uuid.UUID]Located{}}
	for _, id := range ids {
		s.missing[id] = true
	}
	if err := s.scan(near); err != nil {
		return nil, err
	}
	for lookups := 0; len(ids) > 0 && lookups < maxLookups; ids = ids[1:] {
		if !s.missing[ids[0]] {
			continue
		}
		lookups++
		if err := s.look(ids[0]); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

// locating is a search for entries in a tree.
type locating struct {
	l       *Ledger
	ctx     context.Context //nolint:containedctx // of one call
	tenant  storage.ID
	size    int64
	missing map[uuid.UUID]bool
	found   map[uuid.UUID]Located
}

// scan reads leaves from an index on, for as long as it finds entries there.
func (s *locating) scan(from int64) error {
	for before := -1; len(s.missing) > 0 && len(s.missing) != before && from < s.size; from += locateStep {
		before = len(s.missing)
		part, err := s.l.c.Store.ReadTree(s.ctx, storage.TreeQuery{Tenant: s.tenant, From: from, To: min(s.size, from+locateStep)})
		if err != nil {
			return err
		}
		for i := range part.Leaves {
			s.add(&part.Leaves[i])
		}
	}
	return nil
}

// add notes the entries of a batch of leaves.
func (s *locating) add(b *storage.Leaves) {
	for i, ref := range b.Refs {
		if id := uuid.UUID(ref.ID); s.missing[id] {
			s.found[id] = Located{b.First + int64(i), evidence.LeafHash(kindOf(b), id, evidence.Hash(b.Hash[i]))}
			delete(s.missing, id)
		}
	}
}

// look searches the tree for an entry, and scans from there.
func (s *locating) look(id uuid.UUID) error {
	batch, _, err := s.l.leafOf(s.ctx, uuid.UUID(s.tenant), id, s.size)
	if err != nil || batch == nil {
		return err
	}
	return s.scan(batch.First)
}

// leafOf returns the batch with the leaf of an entry, and the position of the leaf
// in it. The batch is nil if the tree has no such leaf below a size. Leaves are in
// the order of the log, except for imported entries and after restores, so a
// search by halves finds most. It reads about as many batches as the size has
// bits.
func (l *Ledger) leafOf(ctx context.Context, tenant, id uuid.UUID, size int64) (*storage.Leaves, int, error) {
	rows, err := l.c.Store.LogsByRef(ctx, storage.ID(tenant), []storage.LogRef{{ID: storage.ID(id), Seq: storage.AnySeq}})
	if err != nil {
		return nil, 0, err
	}
	if len(rows) == 1 {
		want := storage.LogRef{ID: storage.ID(id), Seq: rows[0].Seq}
		batch, at, err := l.searchLeaf(ctx, tenant, want, size)
		if err != nil || batch != nil {
			return batch, at, err
		}
	}
	part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: storage.ID(tenant), To: size, Holding: storage.ID(id)})
	if err != nil {
		return nil, 0, err
	}
	for i := range part.Leaves {
		if at := indexOf(&part.Leaves[i], storage.ID(id)); at >= 0 && part.Leaves[i].First+int64(at) < size {
			return &part.Leaves[i], at, nil
		}
	}
	return nil, 0, nil
}

func indexOf(batch *storage.Leaves, id storage.ID) int {
	return slices.IndexFunc(batch.Refs, func(r storage.LogRef) bool { return r.ID == id })
}

// searchLeaf searches the leaf of an entry by halves.
func (l *Ledger) searchLeaf(ctx context.Context, tenant uuid.UUID, want storage.LogRef, size int64) (*storage.Leaves, int, error) {
	for low, high := int64(0), size; low < high; {
		middle := low + (high-low)/2
		part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: storage.ID(tenant), From: middle, To: middle + 1})
		if err != nil {
			return nil, 0, err
		}
		if len(part.Leaves) == 0 || len(part.Leaves[0].Refs) == 0 { // pruned
			low = middle + 1
			continue
		}
		batch := &part.Leaves[0]
		if at := indexOf(batch, want.ID); at >= 0 && batch.First+int64(at) < size {
			return batch, at, nil
		}
		if compareRefs(want, batch.Refs[0]) < 0 {
			high = batch.First
		} else {
			low = batch.First + int64(len(batch.Refs))
		}
	}
	return nil, 0, nil
}

// compareRefs compares entries by their order in the log.
func compareRefs(a, b storage.LogRef) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.ID[:], b.ID[:]))
}

// Notes returns the oldest signed notes over trees of a larger size that were signed
// at a time or later, oldest first.
func (l *Ledger) Notes(ctx context.Context, size int64, since time.Time, limit int) ([]storage.Checkpoint, error) {
	var oldest []storage.Checkpoint
	for c, err := range l.notes(ctx, storage.CheckpointQuery{Above: size, Below: newest}) {
		if err != nil {
			return nil, err
		}
		if c.At.Before(since) {
			break
		}
		if oldest = append(oldest, *c); len(oldest) > limit {
			oldest = oldest[1:]
		}
	}
	slices.Reverse(oldest)
	return oldest, nil
}
