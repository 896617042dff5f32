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
	found, missing := map[uuid.UUID]Located{}, map[uuid.UUID]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	// scan reads leaves from an index on, for as long as it finds entries there.
	scan := func(from int64) error {
		for before := -1; len(missing) > 0 && len(missing) != before && from < tree.Size; from += locateStep {
			before = len(missing)
			for x, err := range l.leaves(ctx, storage.ID(tenant), from, min(tree.Size, from+locateStep)) {
				if err != nil {
					return err
				}
				if id := x.id(); missing[id] {
					found[id] = Located{x.index(), x.hash()}
					delete(missing, id)
				}
			}
		}
		return nil
	}
	if err := scan(near); err != nil {
		return nil, err
	}
	for lookups := 0; len(ids) > 0 && lookups < maxLookups; ids = ids[1:] {
		if !missing[ids[0]] {
			continue
		}
		lookups++
		x, err := l.find(ctx, tenant, ids[0], tree.Size)
		if err == nil && x.batch != nil {
			err = scan(x.batch.First)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// find returns the leaf of an entry. Its batch is nil if the tree has no such leaf
// below a size. Leaves are in the order of the log, except for imported entries and
// after restores, so a search by halves finds most. It reads about as many batches
// as the size has bits.
func (l *Ledger) find(ctx context.Context, tenant, id uuid.UUID, size int64) (leaf, error) {
	rows, err := l.c.Store.LogsByRef(ctx, storage.ID(tenant), []storage.LogRef{{ID: storage.ID(id), Seq: storage.AnySeq}})
	if err != nil {
		return leaf{}, err
	}
	if len(rows) == 1 {
		x, err := l.searchLeaf(ctx, tenant, storage.LogRef{ID: storage.ID(id), Seq: rows[0].Seq}, size)
		if err != nil || x.batch != nil {
			return x, err
		}
	}
	part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: storage.ID(tenant), To: size, Holding: storage.ID(id)})
	for i := range part.Leaves {
		if x := leafIn(&part.Leaves[i], storage.ID(id), size); x.batch != nil {
			return x, err
		}
	}
	return leaf{}, err
}

// leafIn returns the leaf of an entry in a batch, if it is below a size.
func leafIn(batch *storage.Leaves, id storage.ID, size int64) leaf {
	x := leaf{batch, slices.IndexFunc(batch.Refs, func(r storage.LogRef) bool { return r.ID == id })}
	if x.j < 0 || x.index() >= size {
		return leaf{}
	}
	return x
}

// searchLeaf searches the leaf of an entry by halves.
func (l *Ledger) searchLeaf(ctx context.Context, tenant uuid.UUID, want storage.LogRef, size int64) (leaf, error) {
	for low, high := int64(0), size; low < high; {
		middle := low + (high-low)/2
		part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: storage.ID(tenant), From: middle, To: middle + 1})
		if err != nil {
			return leaf{}, err
		}
		if len(part.Leaves) == 0 || len(part.Leaves[0].Refs) == 0 { // pruned
			low = middle + 1
			continue
		}
		batch := &part.Leaves[0]
		if x := leafIn(batch, want.ID, size); x.batch != nil {
			return x, nil
		}
		if first := batch.Refs[0]; cmp.Or(cmp.Compare(want.Seq, first.Seq), bytes.Compare(want.ID[:], first.ID[:])) < 0 {
			high = batch.First
		} else {
			low = batch.First + int64(len(batch.Refs))
		}
	}
	return leaf{}, nil
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
