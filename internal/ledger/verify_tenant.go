package ledger

import (
	"bytes"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxRuns is how often the log of a tenant is verified if something is wrong. The
// log may change during a verification, as when old entries are deleted, and a
// later run knows the signed events about that.
const maxRuns = 3

// tenant verifies the log of a tenant. A tenant whose keys were altered or removed
// does not hide the findings about the others.
func (v *verification) tenant(tenant uuid.UUID) error {
	for run := 1; ; run++ {
		t := &tenantCheck{
			verification: &verification{l: v.l, ctx: v.ctx, report: &evidence.Report{}, pause: v.pause},
			id:           tenant, seed: maphash.MakeSeed(),
		}
		same, err := t.run()
		if errors.Is(err, storage.ErrMalformed) { // the other rows stay unverified
			t.find(tenant, -1, evidence.Altered)
			v.report.Merge(t.report)
			return nil
		}
		if errors.Is(err, ErrGone) || err == nil && t.report.OK() || run == maxRuns || err == nil && same && run > 1 {
			if errors.Is(err, ErrGone) {
				return v.gone(tenant)
			}
			v.report.Merge(t.report)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := v.l.Sequence(v.ctx, tenant); err != nil && !errors.Is(err, ErrTampered) && !errors.Is(err, ErrSuspended) && !errors.Is(err, ErrGone) {
			return err
		}
	}
}

// gone judges a tenant without keys. It was deleted, or its keys were removed.
func (v *verification) gone(tenant uuid.UUID) error {
	if err := v.l.learn(v.ctx); err != nil {
		return err
	}
	if !v.l.Deleted(tenant) {
		v.find(tenant, -1, evidence.Altered)
	}
	return nil
}

// tenantCheck verifies the log of a tenant.
type tenantCheck struct {
	*verification
	id    uuid.UUID
	at    evidence.Checkpoint // the vault's tree, read before the tenant's tree
	tree  storage.Tree
	state state

	rowsOf Comparison // nil if only the log is verified

	f     merkle.Frontier
	nodes *[]storage.Node
	seed  maphash.Seed
	sum   uint64 // over the ids of entries in both the tree and the log
	bad   bool   // leaves are missing, so that hashes mean nothing
}

// run verifies the log once. It reports whether the tree was the same before and
// after.
func (t *tenantCheck) run() (same bool, err error) {
	h, err := t.l.headOf(t.id)
	if err != nil && !errors.Is(err, ErrSuspended) {
		return false, err
	}
	// The vault's tree is read first, so that the tenant's tree covers all of its
	// heads there.
	vault, _, err := t.l.readVault(t.ctx)
	if errors.Is(err, ErrTampered) {
		t.findVault(evidence.Altered)
		vault = storage.Tree{}
	} else if err != nil {
		return false, err
	}
	t.at = evidence.Checkpoint{Size: vault.Size, Root: evidence.Hash(vault.Root)}
	if t.tree, err = t.l.tree(t.ctx, t.id); err != nil {
		return false, err
	}
	err = t.l.openState(t.ctx, &t.tree, &t.state)
	if errors.Is(err, ErrTampered) {
		t.find(t.id, -1, evidence.Altered)
	} else if err != nil {
		return false, err
	}
	genuine := err == nil
	if t.l.c.Compare != nil {
		if t.rowsOf, err = t.l.c.Compare(t.ctx, t.id); err != nil {
			return false, err
		}
	}
	if !genuine {
		t.tree.Size = h.size // the row may say anything
	}
	if genuine && isOlder(&t.tree, &t.state, nil, h) {
		t.find(t.id, -1, evidence.Altered)
	}
	if err := t.log(); err != nil {
		return false, t.keys(err)
	}
	if genuine {
		if err := t.beyond(); err != nil {
			return false, t.keys(err)
		}
	}
	now, err := t.l.tree(t.ctx, t.id)
	return bytes.Equal(now.State, t.tree.State), err
}

// keys turns an error about the tenant's keys into a finding.
func (t *tenantCheck) keys(err error) error {
	if !errors.Is(err, ErrTampered) {
		return err
	}
	t.find(t.id, -1, evidence.Altered)
	return nil
}

// log reads the log as a bundle, and checks it.
func (t *tenantCheck) log() error {
	t.nodes = nodesOf(&t.f)
	check := &evidence.Checker{Report: t.report, Vault: t.at}
	x := &exported{
		l: t.l, ctx: t.ctx, tenant: t.id, at: t.at, log: t.l.hashes(t.ctx, t.id), vault: t.l.hashes(t.ctx, uuid.UUID{}),
		inPlace: true, size: t.tree.Size, row: t.leaf, pause: t.pause,
	}
	if first := min(t.state.Pruned, t.tree.Size); first > 0 {
		f, err := t.l.hashes(t.ctx, t.id).frontier(first)
		if err == nil {
			f.Complete, t.f = t.f.Complete, *f
		} else if !errors.Is(err, ErrTampered) {
			return err
		}
	}
	if err := x.stream(check); err != nil {
		return err
	}
	return check.Finish()
}

// leaf compares a leaf with its row in ways that an auditor cannot, and hashes
// it.
func (t *tenantCheck) leaf(leaf *evidence.Leaf, ref storage.LogRef, row *storage.Log) error {
	if leaf.N == t.f.Size() {
		t.f.Add(evidence.LeafHash(leaf.Kind, leaf.ID, leaf.C))
	} else {
		t.bad = true
	}
	if len(*t.nodes) >= nodesAtOnce && !t.bad {
		if err := t.verification.nodes(t.id, t.nodes); err != nil {
			return err
		}
	}
	if row == nil {
		return nil
	}
	t.sum += t.hash(ref.ID)
	if row.Seq != ref.Seq {
		t.report.Add(evidence.Finding{Tenant: t.id, Index: leaf.N, EntryID: leaf.ID, Verdict: evidence.Reordered, Entry: leaf.Entry})
	}
	if t.rowsOf != nil && leaf.Mac != nil && leaf.Entry.Commit(t.id, evidence.Mac(leaf.Mac)) == leaf.C {
		t.rowsOf.Entry(leaf.N, leaf.Entry)
	}
	return nil
}

// nodesAtOnce is how many nodes are compared with one query.
const nodesAtOnce = 8

// beyond makes the checks that only the database allows: the row of the tree, the
// rows behind its end, rows in no tree, and rows that contradict the log.
func (t *tenantCheck) beyond() error {
	if !t.bad && t.f.Size() == t.tree.Size {
		if t.f.Size() > 0 && t.f.Root() != merkle.Hash(t.tree.Root) {
			t.find(t.id, -1, evidence.Altered)
		}
		if err := t.verification.nodes(t.id, t.nodes); err != nil {
			return err
		}
	}
	if err := t.afterTree(); err != nil {
		return err
	}
	if err := t.rows(); err != nil {
		return err
	}
	if t.rowsOf == nil {
		return nil
	}
	found, err := t.rowsOf.Behind(t.ctx)
	for _, f := range found {
		t.report.Add(f)
	}
	return err
}

// afterTree looks for leaves and nodes after the end of the tree.
func (t *tenantCheck) afterTree() error {
	part, err := t.l.c.Store.ReadTree(t.ctx, storage.TreeQuery{Tenant: t.tree.Tenant, From: t.tree.Size, To: newest})
	if err != nil {
		return err
	}
	if len(part.Leaves) > 0 {
		now, err := t.l.tree(t.ctx, t.id) // the tree may have grown
		if err != nil {
			return err
		}
		if last := &part.Leaves[len(part.Leaves)-1]; last.First+int64(len(last.Refs)) > now.Size {
			t.find(t.id, last.First, evidence.Forged)
		}
	}
	return t.afterNodes(t.id, t.tree.Size)
}

func (t *tenantCheck) hash(id storage.ID) uint64 { return maphash.Bytes(t.seed, id[:]) }

// rows looks for entries that are in the log but not in the tree. It first
// compares sums over the ids of both, which needs no memory. Only if the sums
// differ does it compare the ids one by one.
func (t *tenantCheck) rows() error {
	// No entry has this id, and a query for the entries after it does not return it.
	first, err := t.l.c.Store.LogsByRef(t.ctx, t.tree.Tenant, []storage.LogRef{{Seq: math.MinInt64}})
	if err != nil {
		return err
	}
	if len(first) > 0 {
		t.find(t.id, -1, evidence.Forged)
	}
	var all, later uint64
	if err := t.follow(following(t.id, nil, nil, true), func(l *storage.Log) { all += t.hash(l.ID) }); err != nil {
		return err
	}
	// These entries are read last. A new entry can then not be in all and
	// missing here.
	err = t.unsequenced(func(l *storage.Log, kind evidence.Kind) error {
		later += t.hash(l.ID)
		return t.newRow(l, kind)
	})
	if err != nil || all == t.sum+later {
		return err
	}
	parts := uint64(1 + t.tree.Size/maxCompared)
	for part := range parts {
		if err := t.compareRows(func(id storage.ID) bool { return t.hash(id)%parts == part }); err != nil {
			return err
		}
	}
	return nil
}

// maxCompared limits how many ids are in memory at once.
const maxCompared = 1 << 18

// compareRows looks for forged entries among the ids for which in is true.
func (t *tenantCheck) compareRows(in func(storage.ID) bool) error {
	seen := map[storage.ID]int{} // occurrences in the log minus occurrences in the tree
	rows := map[storage.ID]bool{}
	if err := t.follow(following(t.id, nil, nil, true), func(l *storage.Log) {
		if in(l.ID) {
			seen[l.ID]++
			rows[l.ID] = true
		}
	}); err != nil {
		return err
	}
	f, err := t.l.hashes(t.ctx, t.id).frontier(min(t.state.Pruned, t.tree.Size))
	if err != nil {
		return err
	}
	for x, err := range t.l.leaves(t.ctx, t.tree.Tenant, f.Size(), t.tree.Size) {
		if err != nil {
			return err
		}
		f.Add(x.hash())
		if in(x.ref().ID) {
			seen[x.ref().ID]--
		}
	}
	if f.Root() != merkle.Hash(t.tree.Root) { // the leaves have changed since they were verified
		t.find(t.id, -1, evidence.Altered)
	}
	if err := t.unsequenced(func(l *storage.Log, _ evidence.Kind) error {
		delete(seen, l.ID)
		return nil
	}); err != nil {
		return err
	}
	var forged []storage.LogRef
	for id, n := range seen {
		if n > 0 || n < 0 && rows[id] { // it has no leaf, or two leaves
			forged = append(forged, storage.LogRef{ID: id, Seq: storage.AnySeq})
		}
	}
	return t.forged(forged)
}

// forged reports entries that the vault did not write.
func (t *tenantCheck) forged(refs []storage.LogRef) error {
	for some := range slices.Chunk(refs, maxStep) {
		rows, err := t.l.c.Store.LogsByRef(t.ctx, t.tree.Tenant, some)
		if err != nil {
			return err
		}
		known := map[storage.ID]*evidence.Entry{}
		for i := range rows {
			e := EntryOf(&rows[i])
			known[rows[i].ID] = &e
		}
		for _, ref := range some {
			t.report.Add(evidence.Finding{Tenant: t.id, Index: -1, EntryID: uuid.UUID(ref.ID), Verdict: evidence.Forged, Entry: known[ref.ID]})
		}
	}
	return nil
}

// unsequenced calls do for the entries that need not be in the tree yet, with the
// kind that they get there.
func (t *tenantCheck) unsequenced(do func(*storage.Log, evidence.Kind) error) error {
	var failed error
	each := func(kind evidence.Kind) func(*storage.Log) {
		return func(l *storage.Log) {
			if failed == nil {
				failed = do(l, kind)
			}
		}
	}
	if err := t.follow(following(t.id, t.state.Place, nil, false), each(evidence.KindEntry)); err != nil {
		return err
	}
	if t.state.Until != nil {
		if err := t.follow(following(t.id, t.state.Old, t.state.Until, false), each(evidence.KindImported)); err != nil {
			return err
		}
	}
	return failed
}

// newRow judges an entry that is not in the tree yet.
func (t *tenantCheck) newRow(l *storage.Log, kind evidence.Kind) error {
	e := EntryOf(l)
	is, _, err := t.l.kindOf(t.ctx, t.id, l, &e, kind)
	if err != nil {
		return err
	}
	verdict := evidence.Unsequenced
	if !is.Valid() {
		verdict = evidence.Forged
	} else if t.rowsOf != nil {
		t.rowsOf.Entry(-1, &e)
	}
	t.report.Add(evidence.Finding{Tenant: t.id, Index: -1, EntryID: e.ID, Verdict: verdict, Entry: &e})
	return nil
}

// follow calls do for every entry that a query returns, page by page.
func (t *tenantCheck) follow(f storage.LogFollowing, do func(*storage.Log)) error {
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
		if t.pause != nil {
			t.pause()
		}
	}
}
