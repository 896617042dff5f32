package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// maxStep is the maximum number of entries that one change appends.
	maxStep = 2048
	// importStep is the maximum number of entries in one step of an import.
	importStep = 1024
)

// Sequence appends the tenant's new entries to its tree and returns the tree.
func (l *Ledger) Sequence(ctx context.Context, tenant uuid.UUID) (storage.Tree, error) {
	for attempt := 0; ; {
		tree, more, err := l.step(ctx, tenant)
		switch {
		case errors.Is(err, storage.ErrStale) && attempt < maxAttempts:
			attempt++ // another node was faster
		case err != nil || !more:
			return tree, err
		}
	}
}

// Import appends some of the tenant's entries that are older than the tree. It
// reports whether there are more that it can append now: an open transaction may
// hold entries back.
func (l *Ledger) Import(ctx context.Context, tenant uuid.UUID) (more bool, err error) {
	for attempt := 0; ; attempt++ {
		s, err := l.open(ctx, tenant)
		if err != nil {
			return false, err
		}
		if s.state.Until == nil {
			return false, nil
		}
		moved, err := s.importOld(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return moved && s.state.Until != nil, err
	}
}

// growth is a tenant's tree that is about to grow.
type growth struct {
	l        *Ledger
	tenant   uuid.UUID
	was      storage.Tree
	state    state
	frontier *merkle.Frontier
	change   *storage.TreeChange
	nodes    *[]storage.Node
	seen     map[storage.ID]struct{} // already in the tree; set after a restore
}

// step appends a tenant's next entries and reports whether there may be more.
func (l *Ledger) step(ctx context.Context, tenant uuid.UUID) (storage.Tree, bool, error) {
	s, err := l.open(ctx, tenant)
	if err != nil {
		return storage.Tree{}, false, err
	}
	page, next, err := l.c.Store.FollowLogs(ctx, s.following(maxStep))
	if err != nil {
		return storage.Tree{}, false, err
	}
	if len(page) == 0 && s.was.State != nil && s.seen == nil {
		return s.was, false, nil
	}
	s.state.Place = next
	if err := s.append(ctx, page, evidence.KindEntry); err != nil {
		return storage.Tree{}, false, err
	}
	tree, err := s.write(ctx)
	return tree, len(page) == maxStep, err
}

// open reads a tenant's tree. If other nodes have appended entries that this
// node wrote, it checks that they are unchanged.
func (l *Ledger) open(ctx context.Context, tenant uuid.UUID) (*growth, error) {
	// The cache is read before the row. It is written after a commit, so the row
	// cannot be older, however many callers append at once.
	known := l.cachedTree(tenant)
	tree, err := l.tree(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s := &growth{l: l, tenant: tenant, was: tree}
	if err := l.openState(ctx, &tree, &s.state); err != nil {
		return nil, err
	}
	if s.frontier, err = l.catchUp(ctx, &tree, known); err != nil {
		return nil, err
	}
	instance, err := l.instance(ctx)
	if err != nil {
		return nil, err
	}
	if tree.State == nil {
		err = s.begin(ctx)
	} else if s.state.Instance != instance.ID {
		err = s.findSeen(ctx)
	}
	s.state.Instance = instance.ID
	s.change = &storage.TreeChange{Was: s.was}
	s.nodes = nodesOf(s.frontier)
	return s, err
}

// catchUp returns the frontier of a stored tree. It raises an alarm if the tree
// does not continue the tree that this node knew before it read the row. A tree
// that has not begun has no root.
func (l *Ledger) catchUp(ctx context.Context, tree *storage.Tree, known *cached) (*merkle.Frontier, error) {
	tenant, h := uuid.UUID(tree.Tenant), l.hashes(ctx, uuid.UUID(tree.Tenant))
	if known != nil && known.size <= tree.Size {
		f := known.frontier.Clone()
		err := l.readNew(ctx, tenant, f, tree.Size)
		if err == nil && (tree.Size == 0 || f.Root() == merkle.Hash(tree.Root)) {
			l.cacheTree(tenant, f.Clone())
			return f, nil
		}
		if err != nil && !errors.Is(err, ErrTampered) {
			return nil, err
		}
	}
	if known != nil {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Verdict: evidence.Forked, Text: "the tree does not continue the one this node knows"})
		l.forgetTree(tenant)
	}
	f, err := h.frontier(tree.Size)
	if err == nil && f.Root() != merkle.Hash(tree.Root) && tree.Size > 0 {
		err = fmt.Errorf("%w: a root does not fit its leaves", ErrTampered)
	}
	if errors.Is(err, ErrTampered) {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Verdict: evidence.Altered, Text: err.Error()})
	}
	if err == nil {
		l.cacheTree(tenant, f.Clone())
	}
	return f, err
}

// readNew adds the leaves up to index to, exclusive, to a frontier.
func (l *Ledger) readNew(ctx context.Context, tenant uuid.UUID, f *merkle.Frontier, to int64) error {
	for f.Size() < to {
		from, end := f.Size(), min(to, f.Size()+maxStep)
		part, err := l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: storage.ID(tenant), From: from, To: end})
		if err != nil {
			return err
		}
		for i := range part.Leaves {
			batch := &part.Leaves[i]
			for j := range batch.Refs {
				if batch.First+int64(j) != f.Size() || f.Size() == end {
					continue
				}
				f.Add(leafOf(batch, j))
				l.arrived(tenant, uuid.UUID(batch.Refs[j].ID), evidence.Hash(batch.Hash[j]))
			}
		}
		if f.Size() != end {
			return fmt.Errorf("%w: leaves are missing", ErrTampered)
		}
	}
	return nil
}

// arrived records that an entry is in the tree. It raises an alarm if the tree
// has another version of the entry.
func (l *Ledger) arrived(tenant, id uuid.UUID, commit evidence.Hash) {
	if !l.pending.sequenced(tenant, id, commit) {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Entry: id, Verdict: evidence.Altered, Text: "an entry was altered before it was sequenced"})
	}
}

// begin decides where a new tree begins. If the tenant is older than the
// vault's tree, its existing log must be imported.
func (s *growth) begin(ctx context.Context) error {
	part, err := s.l.c.Store.ReadTree(ctx, storage.TreeQuery{
		Tenant: s.was.Tenant, To: 1, Nodes: []storage.NodeRange{{Level: levels[0], To: 1}},
	})
	if err != nil {
		return err
	}
	if len(part.Leaves)+len(part.Nodes) > 0 {
		// Another node may have begun the tree after we read it.
		if now, err := s.l.tree(ctx, s.tenant); err != nil || now.State != nil {
			return cmp.Or(err, storage.ErrStale)
		}
		err := fmt.Errorf("%w: a tree is gone, and its leaves are not", ErrTampered)
		s.l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: s.tenant, Verdict: evidence.Truncated, Text: err.Error()})
		return err
	}
	started, err := s.l.started(ctx)
	if err != nil {
		return err
	}
	if evidence.Millis(s.tenant) >= started.UnixMilli() {
		return nil
	}
	_, now, err := s.l.c.Store.FollowLogs(ctx, storage.LogFollowing{Tenant: storage.ID(s.tenant), Limit: 1})
	if err != nil {
		return err
	}
	s.state.Place, s.state.Until = now, now
	return nil
}

// beginning is a time before every entry.
var beginning = time.UnixMicro(1)

func (s *growth) following(limit int) storage.LogFollowing {
	f := storage.LogFollowing{Tenant: storage.ID(s.tenant), After: s.state.Place, Limit: limit}
	if f.After == nil {
		f.From = beginning
	}
	return f
}

// importOld appends the next entries that are older than the tree. It reports
// whether the import has moved on.
func (s *growth) importOld(ctx context.Context) (moved bool, err error) {
	f := storage.LogFollowing{Tenant: storage.ID(s.tenant), After: s.state.Old, Until: s.state.Until, Limit: importStep}
	if f.After == nil {
		f.From = beginning
	}
	page, next, err := s.l.c.Store.FollowLogs(ctx, f)
	if err != nil || bytes.Equal(next, s.state.Old) {
		return false, err
	}
	if s.state.Old = next; bytes.Equal(next, s.state.Until) {
		s.state.Old, s.state.Until = nil, nil
	}
	if err := s.append(ctx, page, evidence.KindImported); err != nil {
		return false, err
	}
	_, err = s.write(ctx)
	return err == nil, err
}

// append adds entries to the tree.
func (s *growth) append(ctx context.Context, page []storage.Log, kind evidence.Kind) error {
	for i := range page {
		row := &page[i]
		if _, ok := s.seen[row.ID]; ok {
			continue
		}
		is, commit, err := s.judge(ctx, row, kind)
		if err != nil {
			return err
		}
		if !is.Valid() {
			continue
		}
		s.add(is, row, commit)
	}
	return nil
}

// judge returns the kind of an entry and the commitment to it. The kind is zero
// for a row that the vault did not write. Such a row stays out of the tree.
func (s *growth) judge(ctx context.Context, row *storage.Log, kind evidence.Kind) (evidence.Kind, evidence.Hash, error) {
	e := EntryOf(row)
	if mine, ok := s.l.pending.commitment(s.tenant, e.ID); ok {
		// The commitment covers the MAC too, so there is no need to compute that.
		if mine != e.Commit(s.tenant, evidence.Mac(row.Mac)) {
			s.l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: s.tenant, Entry: e.ID, Verdict: evidence.Altered, Text: "an entry was altered before it was sequenced"})
		}
		return kind, mine, nil
	}
	mac, err := s.l.mac(ctx, s.tenant, &e)
	if err != nil {
		return 0, evidence.Hash{}, err
	}
	commit := e.Commit(s.tenant, mac)
	switch {
	case row.Mac == (storage.Hash{}):
		return evidence.KindOld, commit, nil
	case evidence.Mac(row.Mac) != mac:
		s.l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: s.tenant, Entry: e.ID, Verdict: evidence.Forged, Text: "the vault did not write an entry"})
		return 0, commit, nil
	default:
		return kind, commit, nil
	}
}

// add appends a leaf. All leaves of a batch have the same kind and are in the
// same block.
func (s *growth) add(kind evidence.Kind, row *storage.Log, commit evidence.Hash) {
	n := s.frontier.Size()
	batches := s.change.Leaves
	if len(batches) == 0 || batches[len(batches)-1].Kind != int(kind) || n%storage.LeavesPerBlock == 0 {
		batches = append(batches, storage.Leaves{First: n, Kind: int(kind)})
	}
	batch := &batches[len(batches)-1]
	batch.Refs = append(batch.Refs, storage.LogRef{ID: row.ID, Seq: row.Seq})
	batch.Hash = append(batch.Hash, storage.Key(commit))
	s.change.Leaves = batches
	s.frontier.Add(evidence.LeafHash(kind, uuid.UUID(row.ID), commit))
}

// write stores the grown tree.
func (s *growth) write(ctx context.Context) (storage.Tree, error) {
	s.change.Nodes = *s.nodes
	s.change.Tree = storage.Tree{Tenant: s.was.Tenant, Size: s.frontier.Size(), Root: storage.Key(s.frontier.Root())}
	var err error
	if s.change.Tree.State, err = s.l.sealState(ctx, &s.change.Tree, &s.state); err != nil {
		return storage.Tree{}, err
	}
	if err := s.l.c.Store.WriteTree(ctx, s.change); err != nil {
		return storage.Tree{}, err
	}
	for i := range s.change.Leaves {
		batch := &s.change.Leaves[i]
		for j := range batch.Refs {
			s.l.arrived(s.tenant, uuid.UUID(batch.Refs[j].ID), evidence.Hash(batch.Hash[j]))
		}
	}
	s.l.cacheTree(s.tenant, s.frontier.Clone())
	return s.change.Tree, nil
}

// findSeen finds the entries that are already in the tree. Log positions of
// another server are meaningless here, so FollowLogs returns some entries
// again.
func (s *growth) findSeen(ctx context.Context) error {
	s.seen = map[storage.ID]struct{}{}
	for from := s.state.Pruned; from < s.was.Size; from += maxStep {
		part, err := s.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: s.was.Tenant, From: from, To: min(from+maxStep, s.was.Size)})
		if err != nil {
			return err
		}
		for _, batch := range part.Leaves {
			for _, ref := range batch.Refs {
				s.seen[ref.ID] = struct{}{}
			}
		}
	}
	return nil
}
