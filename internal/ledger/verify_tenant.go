package ledger

import (
	"errors"
	"hash/maphash"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// tenantCheck verifies the log of a tenant.
type tenantCheck struct {
	*verification
	id     uuid.UUID
	tree   *storage.Tree
	head   *evidence.Event
	state  state
	erased map[uuid.UUID]evidence.Hash // commitment after the erasure, by entry
	cutoff int64
	below  int64 // leaves below this index may be pruned

	rowsOf Comparison // nil if only the log is verified

	f     merkle.Frontier
	nodes *[]storage.Node
	seed  maphash.Seed
	sum   uint64 // over the ids of entries in both the tree and the log
	bad   bool   // the tree itself is wrong
	gaps  int    // consecutive blocks with missing leaves
	end   int64  // index after the last leaf
}

// maxGaps is how many consecutive blocks may lack leaves. After that, the rest
// counts as missing too: an attacker may have stored any number as the tree's
// size.
const maxGaps = 64

// tenant verifies the log of a tenant.
func (v *verification) tenant(tree *storage.Tree) error {
	t := &tenantCheck{verification: v, id: uuid.UUID(tree.Tenant), tree: tree, head: v.heads[uuid.UUID(tree.Tenant)],
		erased: map[uuid.UUID]evidence.Hash{}, seed: maphash.MakeSeed()}
	if v.deleted[t.id] {
		return nil // its rows will be deleted
	}
	if t.head == nil {
		t.head = &evidence.Event{} // a new tenant
	}
	if v.l.c.Compare != nil {
		t.rowsOf = v.l.c.Compare(t.id)
	}
	if err := v.l.openState(v.ctx, tree, &t.state); errors.Is(err, ErrTampered) {
		t.wrong(-1, evidence.Altered)
		return nil
	} else if err != nil {
		return err
	}
	if err := t.events(); err != nil {
		return err
	}
	if err := t.leaves(); err != nil {
		return err
	}
	if err := t.verification.nodes(t.id, *t.nodes); err != nil {
		return err
	}
	t.compareHead()
	if err := t.rows(); err != nil {
		return err
	}
	return t.behind()
}

// trusted passes an entry that the vault wrote to the row comparison.
func (t *tenantCheck) trusted(index int64, e *evidence.Entry) {
	if t.rowsOf != nil {
		t.rowsOf.Entry(index, e)
	}
}

// behind reports rows that are older than the log says. It reads the rows after
// the log. If a row changes during the verification, it is newer than the log.
func (t *tenantCheck) behind() error {
	if t.rowsOf == nil {
		return nil
	}
	found, err := t.rowsOf.Behind(t.ctx)
	for _, f := range found {
		t.report.Add(f)
	}
	return err
}

func (t *tenantCheck) wrong(index int64, verdict evidence.Verdict) {
	t.find(t.id, index, uuid.UUID{}, verdict)
	t.bad = true
}

// compareHead compares the tree with its newest head.
func (t *tenantCheck) compareHead() {
	switch {
	case t.bad:
	case t.f.Root() != merkle.Hash(t.tree.Root) && t.tree.Size > 0:
		t.wrong(-1, evidence.Altered)
	case t.tree.Size < t.head.Size:
		t.wrong(t.tree.Size, evidence.Truncated)
	case t.tree.Size == t.head.Size && t.head.Root != t.f.Root():
		t.wrong(-1, evidence.Altered)
	}
}

// events reads the events about the tenant.
func (t *tenantCheck) events() error {
	x := &exported{l: t.l, ctx: t.ctx, tenant: t.id, at: evidence.Checkpoint{Size: newest}}
	err := x.chain(t.state.Last, func(_ int64, e *evidence.Event) {
		if e.Tenant != t.id {
			return
		}
		switch e.Kind {
		case evidence.EventErased:
			if _, ok := t.erased[e.Entry]; !ok {
				t.erased[e.Entry] = e.After
			}
		case evidence.EventPruned:
			t.cutoff, t.below = max(t.cutoff, e.Cutoff), max(t.below, e.Below)
		case evidence.EventLost:
			for _, id := range e.Entries {
				t.find(t.id, -1, id, evidence.LostRead)
			}
		default:
		}
	})
	if errors.Is(err, ErrTampered) {
		t.wrong(-1, evidence.Altered)
		return nil
	}
	return err
}

// leaves hashes the leaves and compares each with its entry.
func (t *tenantCheck) leaves() error {
	t.nodes = nodesOf(&t.f)
	if err := t.prunedLeaves(); err != nil {
		return err
	}
	ahead := t.readAhead(t.f.Size())
	defer ahead.stop()
	for t.f.Size() < t.tree.Size && t.gaps < maxGaps {
		c, err := ahead.next()
		if err != nil {
			return err
		}
		for from := t.f.Size(); from < c.to && t.gaps < maxGaps; from = t.f.Size() {
			to := min(c.to, from+storage.LeavesPerBlock)
			t.part(c, from, to)
			if err := t.block(from, to); err != nil {
				return err
			}
		}
	}
	t.end = t.f.Size()
	return t.afterTree()
}

// afterTree looks for leaves after the end of the tree.
func (t *tenantCheck) afterTree() error {
	part, err := t.l.c.Store.ReadTree(t.ctx, storage.TreeQuery{Tenant: t.tree.Tenant, From: t.tree.Size, To: newest})
	if err != nil {
		return err
	}
	if len(part.Leaves) == 0 {
		return nil
	}
	now, err := t.l.tree(t.ctx, t.id) // the tree may have grown
	last := &part.Leaves[len(part.Leaves)-1]
	if err == nil && last.First+int64(len(last.Refs)) > now.Size {
		t.wrong(last.First, evidence.Forged)
	}
	return err
}

// prunedLeaves starts the tree with the block roots of the pruned leaves.
func (t *tenantCheck) prunedLeaves() error {
	first := t.state.Pruned
	if first == 0 {
		return nil
	}
	if first > t.below || first > t.tree.Size {
		t.wrong(0, evidence.Missing)
	}
	f, err := t.l.hashes(t.ctx, t.id).frontier(min(first, t.tree.Size))
	if errors.Is(err, ErrTampered) {
		t.wrong(0, evidence.Missing)
		return nil
	}
	if err != nil {
		return err
	}
	f.Complete = t.f.Complete
	t.f = *f
	t.find(t.id, 0, uuid.UUID{}, evidence.Expired)
	return nil
}

// part compares the leaves of a block with their entries.
func (t *tenantCheck) part(c *chunk, from, to int64) {
	for i := range c.leaves {
		b := &c.leaves[i]
		if b.First < from-from%storage.LeavesPerBlock || b.First >= to {
			continue
		}
		for j := range b.Refs {
			n := b.First + int64(j)
			if n < t.f.Size() || n >= to {
				continue
			}
			if n > t.f.Size() {
				break // block reports the gap
			}
			t.f.Add(leafOf(b, j))
			t.report.Entries++
			t.leaf(b, j, c.rows[b.Refs[j].ID])
		}
	}
}

// block reports missing leaves and continues after their block. From then on,
// the hashes are meaningless.
func (t *tenantCheck) block(from, to int64) error {
	if t.f.Size() == to {
		t.gaps = 0
		return nil
	}
	t.gaps++
	t.wrong(t.f.Size(), evidence.Missing)
	f, err := t.l.hashes(t.ctx, t.id).frontier(from - from%storage.LeavesPerBlock)
	if err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	if f == nil {
		f = &merkle.Frontier{}
	}
	// Any hashes will do. An empty frontier may be far behind, so whole subtrees
	// are added.
	if err := f.AddRange(to, make([]merkle.Hash, len(merkle.Cover(f.Size(), to)))); err != nil {
		return err
	}
	t.f, t.nodes = *f, &[]storage.Node{} // computed nodes are wrong from here on
	return nil
}

// leaf compares a leaf with the row of its entry.
func (t *tenantCheck) leaf(b *storage.Leaves, j int, row *entryRow) {
	n, ref, kind := b.First+int64(j), b.Refs[j], kindOf(b)
	id := uuid.UUID(ref.ID)
	if row == nil {
		verdict := evidence.Missing
		if evidence.Millis(id) < t.cutoff {
			verdict = evidence.Expired
		}
		t.find(t.id, n, id, verdict)
		return
	}
	t.sum += t.hash(ref.ID)
	var stored evidence.Mac
	if kind != evidence.KindOld {
		stored = row.mac
	}
	left, erased := t.erased[id]
	switch {
	case row.Seq != ref.Seq:
		t.find(t.id, n, id, evidence.Reordered)
	case row.commit == evidence.Hash(b.Hash[j]) && evidence.Mac(row.Mac) == stored && kind.Valid():
		t.trusted(n, &row.entry)
	case erased && row.Mac == (storage.Hash{}) && row.entry.Commit(t.id, evidence.Mac{}) == left:
		t.trusted(n, &row.entry)
		t.find(t.id, n, id, evidence.Erased)
	default:
		t.find(t.id, n, id, evidence.Altered)
	}
}

func (t *tenantCheck) hash(id storage.ID) uint64 { return maphash.Bytes(t.seed, id[:]) }

// rows looks for entries that are in the log but not in the tree. It first
// compares sums over the ids of both, which needs no memory. Only if the sums
// differ does it compare the ids one by one.
func (t *tenantCheck) rows() error {
	var all, later uint64
	everything := t.everything()
	everything.IDsOnly = true
	if err := t.follow(everything, func(l *storage.Log) { all += t.hash(l.ID) }); err != nil {
		return err
	}
	// These entries are read last. A new entry can then not be in all and
	// missing here.
	err := t.unsequenced(func(l *storage.Log) error {
		later += t.hash(l.ID)
		return t.newRow(l)
	})
	if err != nil || all == t.sum+later {
		return err
	}
	parts := uint64(1 + t.end/maxCompared)
	for part := range parts {
		if err := t.compareRows(func(id storage.ID) bool { return t.hash(id)%parts == part }); err != nil {
			return err
		}
	}
	return nil
}

// maxCompared limits how many ids are in memory at once.
const maxCompared = 1 << 20

// compareRows looks for forged entries among the ids for which in is true.
func (t *tenantCheck) compareRows(in func(storage.ID) bool) error {
	seen := map[storage.ID]int{} // occurrences in the log minus occurrences in the tree
	rows := map[storage.ID]bool{}
	var failed error
	if err := t.follow(t.everything(), func(l *storage.Log) {
		if !in(l.ID) {
			return
		}
		old, err := t.isExpiring(l)
		if failed = errors.Join(failed, err); !old {
			seen[l.ID]++
			rows[l.ID] = true
		}
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	for from := t.state.Pruned; from < t.end; from += maxStep {
		part, err := t.l.c.Store.ReadTree(t.ctx, storage.TreeQuery{Tenant: t.tree.Tenant, From: from, To: min(from+maxStep, t.end)})
		if err != nil {
			return err
		}
		for i := range part.Leaves {
			for j, ref := range part.Leaves[i].Refs {
				if n := part.Leaves[i].First + int64(j); n >= from && n < from+maxStep && n < t.end {
					seen[ref.ID]--
				}
			}
		}
	}
	if err := t.unsequenced(func(l *storage.Log) error {
		delete(seen, l.ID)
		return nil
	}); err != nil {
		return err
	}
	for id, n := range seen {
		if n > 0 || n < 0 && rows[id] { // it has no leaf, or two leaves
			t.find(t.id, -1, uuid.UUID(id), evidence.Forged)
		}
	}
	return nil
}

// isExpiring reports whether an entry may be deleted at any moment. Its leaf
// may already be deleted.
func (t *tenantCheck) isExpiring(l *storage.Log) (bool, error) {
	if evidence.Millis(uuid.UUID(l.ID)) >= t.cutoff {
		return false, nil
	}
	if l.Mac == (storage.Hash{}) {
		return true, nil // an old or erased entry
	}
	e := EntryOf(l)
	mac, err := t.l.mac(t.ctx, t.id, &e)
	return evidence.Mac(l.Mac) == mac, err
}

// everything returns a query for all entries.
func (t *tenantCheck) everything() storage.LogFollowing {
	return storage.LogFollowing{From: beginning}
}

// unsequenced calls do for the entries that need not be in the tree yet.
func (t *tenantCheck) unsequenced(do func(*storage.Log) error) error {
	var failed error
	each := func(l *storage.Log) {
		if failed == nil {
			failed = do(l)
		}
	}
	f := storage.LogFollowing{After: t.state.Place}
	if f.After == nil {
		f = t.everything()
	}
	if err := t.follow(f, each); err != nil {
		return err
	}
	if t.state.Until != nil {
		f := storage.LogFollowing{After: t.state.Old, Until: t.state.Until}
		if f.After == nil {
			f.From = beginning
		}
		if err := t.follow(f, each); err != nil {
			return err
		}
	}
	return failed
}

// newRow judges an entry that is not in the tree yet.
func (t *tenantCheck) newRow(l *storage.Log) error {
	e := EntryOf(l)
	mac, err := t.l.mac(t.ctx, t.id, &e)
	if err != nil {
		return err
	}
	verdict := evidence.Unsequenced
	switch {
	case evidence.Mac(l.Mac) == mac:
		t.trusted(-1, &e)
	case l.Mac != (storage.Hash{}):
		verdict = evidence.Forged
	}
	t.find(t.id, -1, e.ID, verdict)
	return nil
}

// follow calls do for every entry that a query returns, page by page.
func (t *tenantCheck) follow(f storage.LogFollowing, do func(*storage.Log)) error {
	f.Tenant, f.Limit = t.tree.Tenant, maxStep
	for {
		page, next, err := t.l.c.Store.FollowLogs(t.ctx, f)
		if err != nil {
			return err
		}
		for i := range page {
			do(&page[i])
		}
		if f.After = next; len(page) == 0 {
			return nil
		}
	}
}
