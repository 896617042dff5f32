package ledger

import (
	"context"
	"math"
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

// look searches the whole tree for an entry, and scans from there.
func (s *locating) look(id uuid.UUID) error {
	part, err := s.l.c.Store.ReadTree(s.ctx, storage.TreeQuery{Tenant: s.tenant, To: s.size, Holding: storage.ID(id)})
	if err != nil || len(part.Leaves) == 0 {
		return err
	}
	return s.scan(part.Leaves[0].First)
}

// Notes returns the oldest signed notes over trees of a larger size that were signed
// at a time or later, oldest first.
func (l *Ledger) Notes(ctx context.Context, size int64, since time.Time, limit int) ([]storage.Checkpoint, error) {
	var newest []storage.Checkpoint
	for below, n := int64(math.MaxInt64), 2; ; n = limit { // there are few new notes
		page, err := l.c.Store.Checkpoints(ctx, below, n)
		if err != nil {
			return nil, err
		}
		more := len(page) == n
		for i := range page {
			if page[i].Size <= size || page[i].At.Before(since) {
				page, more = page[:i], false
				break
			}
		}
		newest = append(newest, page...)
		if len(newest) > limit {
			newest = newest[len(newest)-limit:]
		}
		if !more {
			slices.Reverse(newest)
			return newest, nil
		}
		below = page[len(page)-1].Size
	}
}
