package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxStep is the maximum number of entries that one change appends.
const maxStep = 2048

// Expect remembers entries that are about to be written: see [Pending].
func (l *Ledger) Expect(tenant uuid.UUID, entries ...Expected) {
	l.pending.Expect(l.c.Now(), tenant, entries...)
}

// Written reports that entries are in the database. If they do not reach the
// tree, an alarm is raised.
func (l *Ledger) Written(tenant uuid.UUID, entries ...Expected) {
	for _, id := range l.pending.Written(l.c.Now(), tenant, entries...) {
		l.altered(tenant, id)
	}
}

// Failed reports that entries were not written.
func (l *Ledger) Failed(tenant uuid.UUID, entries ...Expected) {
	l.pending.Failed(tenant, entries...)
}

// Sequence appends the tenant's new entries to its tree and returns the tree.
func (l *Ledger) Sequence(ctx context.Context, tenant uuid.UUID) (storage.Tree, error) {
	for attempt := 0; ; {
		tree, more, err := l.step(ctx, tenant)
		switch {
		case errors.Is(err, storage.ErrStale) && attempt < maxAttempts:
			attempt++ // another node was faster
		case errors.Is(err, storage.ErrMalformed):
			return tree, l.tampered(ctx, tenant, evidence.Altered, "a row of the log or its tree cannot be read")
		case err != nil || !more:
			return tree, err
		}
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
	page, next, err := l.c.Store.FollowLogs(ctx, following(tenant, s.state.Place, nil, true))
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
	// The newest head and the cache are read before the row. Both are written
	// after it, so the row cannot be older, however many callers append at once.
	h, err := l.headOf(tenant)
	if err != nil {
		return nil, err
	}
	known := l.cachedTree(tenant)
	tree, err := l.tree(ctx, tenant)
	if err != nil {
		return nil, err
	}
	s := &growth{l: l, tenant: tenant, was: tree}
	if err := l.openState(ctx, &tree, &s.state); err != nil {
		return nil, err
	}
	if s.frontier, err = l.catchUp(ctx, &tree, &s.state, known, h); err != nil {
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

// tampered raises an alarm about a tenant's tree, and returns ErrTampered. If another
// node has deleted the tenant, and with it the tree, it returns ErrGone instead.
func (l *Ledger) tampered(ctx context.Context, tenant uuid.UUID, verdict evidence.Verdict, what string) error {
	if err := l.exists(ctx, tenant); err != nil {
		return err
	}
	l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Verdict: verdict, Text: what})
	return fmt.Errorf("%w: %s", ErrTampered, what)
}

// isOlder reports whether a tree's row is older than its newest head, or than the
// row that this node knew. The size does not tell: a row may change without leaves.
func isOlder(tree *storage.Tree, st *state, known *cached, h head) bool {
	return h.index >= 0 && (st.Revision < h.revision || st.Revision == h.revision && stateHash(tree.State) != h.state) ||
		known != nil && st.Revision < known.revision
}

// catchUp returns the frontier of a stored tree. The tree must extend the
// tenant's newest head, so that a tree never begins twice, and the tree that
// this node knew before it read the row. Its row must not be older than either.
// Otherwise catchUp raises an alarm.
func (l *Ledger) catchUp(ctx context.Context, tree *storage.Tree, st *state, known *cached, h head) (*merkle.Frontier, error) {
	f, err := l.frontier(ctx, tree, known, h)
	if err != nil {
		return nil, err
	}
	tenant := uuid.UUID(tree.Tenant)
	if isOlder(tree, st, known, h) {
		return nil, l.tampered(ctx, tenant, evidence.Altered, "the row of a tree is an older one")
	}
	l.cacheTree(tenant, f.Clone(), st.Revision)
	return f, nil
}

// frontier returns the frontier of a stored tree that extends the newest head and
// the tree that this node knew.
func (l *Ledger) frontier(ctx context.Context, tree *storage.Tree, known *cached, h head) (*merkle.Frontier, error) {
	tenant := uuid.UUID(tree.Tenant)
	if tree.Size < h.size || tree.State == nil && h.index >= 0 {
		return nil, l.tampered(ctx, tenant, evidence.Truncated, "a tree is smaller than its newest head")
	}
	if known != nil && known.size <= tree.Size {
		f := known.frontier.Clone()
		err := l.readNew(ctx, tenant, f, tree.Size, h)
		if err == nil && (tree.Size == 0 || f.Root() == merkle.Hash(tree.Root)) {
			return f, nil
		}
		if err != nil && !errors.Is(err, ErrTampered) {
			return nil, err
		}
	}
	if known != nil {
		return nil, l.tampered(ctx, tenant, evidence.Forked, "the tree does not continue the one this node knows")
	}
	f, err := l.hashes(ctx, tenant).frontier(tree.Size)
	if errors.Is(err, ErrTampered) || err == nil && tree.Size > 0 && f.Root() != merkle.Hash(tree.Root) {
		return nil, l.tampered(ctx, tenant, evidence.Altered, "a root does not fit its leaves")
	}
	if err != nil {
		return nil, err
	}
	return f, l.extends(ctx, tenant, f, h)
}

// extends returns ErrTampered if a tree does not extend a head.
func (l *Ledger) extends(ctx context.Context, tenant uuid.UUID, f *merkle.Frontier, h head) error {
	if h.size <= 0 {
		return nil
	}
	root, err := f.Root(), error(nil)
	if f.Size() != h.size {
		root, err = l.hashes(ctx, tenant).root(h.size)
	}
	if errors.Is(err, ErrTampered) || err == nil && root != h.root {
		return l.tampered(ctx, tenant, evidence.Forked, "the tree does not extend its newest head")
	}
	return err
}

// readNew adds the leaves up to index to, exclusive, to a frontier. It compares
// the tree with a head on the way.
func (l *Ledger) readNew(ctx context.Context, tenant uuid.UUID, f *merkle.Frontier, to int64, h head) error {
	for x, err := range l.leaves(ctx, storage.ID(tenant), f.Size(), to) {
		if err != nil {
			return err
		}
		if x.index() != f.Size() {
			continue
		}
		f.Add(x.hash())
		if f.Size() == h.size && f.Root() != h.root {
			return fmt.Errorf("%w: the tree does not extend its newest head", ErrTampered)
		}
		l.arrived(tenant, storage.Leaves{Refs: x.batch.Refs[x.j : x.j+1], Hash: x.batch.Hash[x.j : x.j+1]})
	}
	if f.Size() != to {
		return fmt.Errorf("%w: leaves are missing", ErrTampered)
	}
	return nil
}

// arrived records that entries are in the tree. It raises an alarm for each of which
// the tree has another version.
func (l *Ledger) arrived(tenant uuid.UUID, batches ...storage.Leaves) {
	altered := l.pending.Sequenced(tenant, func(yield func(uuid.UUID, evidence.Hash) bool) {
		for i := range batches {
			for j, ref := range batches[i].Refs {
				if !yield(uuid.UUID(ref.ID), evidence.Hash(batches[i].Hash[j])) {
					return
				}
			}
		}
	})
	for _, id := range altered {
		l.altered(tenant, id)
	}
}

// altered raises an alarm about an entry that the tree does not have as this node
// wrote it.
func (l *Ledger) altered(tenant, id uuid.UUID) {
	l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: tenant, Entry: id, Verdict: evidence.Altered, Text: "an entry was altered before it was sequenced"})
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
		return s.l.tampered(ctx, s.tenant, evidence.Truncated, "a tree is gone, and its leaves are not")
	}
	if s.l.importsNothing(s.tenant) {
		return nil
	}
	_, now, err := s.l.c.Store.FollowLogs(ctx, storage.LogFollowing{Tenant: storage.ID(s.tenant), Limit: 1})
	if err != nil {
		return err
	}
	s.state.Place, s.state.Until, s.state.Imports = now, now, true
	return nil
}

// beginning is the earliest time that a row can have, so that a query returns rows with
// times that no entry has, too.
var beginning = time.UnixMicro(math.MinInt64)

// following returns a query for the entries after a place, or from the first on, or
// for their ids alone.
func following(tenant uuid.UUID, after, until []byte, ids bool) storage.LogFollowing {
	f := storage.LogFollowing{Tenant: storage.ID(tenant), After: after, Until: until, Limit: maxStep, IDsOnly: ids}
	if after == nil {
		f.From = beginning
	}
	return f
}

// append adds entries to the tree. It reads only the rows of entries whose
// commitments this node does not have.
func (s *growth) append(ctx context.Context, page []storage.Log, kind evidence.Kind) error {
	page = slices.DeleteFunc(page, func(l storage.Log) bool { _, ok := s.seen[l.ID]; return ok })
	mine, twice := s.l.pending.Expected(s.tenant, len(page), func(i int) uuid.UUID { return uuid.UUID(page[i].ID) })
	for _, id := range twice {
		s.l.altered(s.tenant, id)
	}
	rows, err := s.others(ctx, page, mine)
	if err != nil {
		return err
	}
	for i := range page {
		is, commit, ref := kind, mine[i].Commit, storage.LogRef{ID: page[i].ID, Seq: page[i].Seq}
		switch of := rows[ref.ID]; {
		case len(of) > 0:
			rows[ref.ID] = of[1:]
			if is, commit, err = s.judge(ctx, of[0], kind); err != nil {
				return err
			}
		case !mine[i].Known():
			continue // the row was deleted
		case mine[i].Own:
			is = evidence.KindVault
		}
		if is.Valid() {
			s.add(is, ref, commit)
		}
	}
	return nil
}

// others returns the rows of the entries whose commitments this node does not have.
// On SQLite, a manipulated log may have two rows with one id.
func (s *growth) others(ctx context.Context, page []storage.Log, mine []Expected) (map[storage.ID][]*storage.Log, error) {
	var refs []storage.LogRef
	for i := range page {
		if !mine[i].Known() {
			refs = append(refs, storage.LogRef{ID: page[i].ID, Seq: page[i].Seq})
		}
	}
	if refs == nil {
		return nil, nil
	}
	found, err := s.l.c.Store.LogsByRef(ctx, s.was.Tenant, refs)
	rows := make(map[storage.ID][]*storage.Log, len(found))
	for i := range found {
		rows[found[i].ID] = append(rows[found[i].ID], &found[i])
	}
	return rows, err
}

// judge returns the kind of an entry and the commitment to it. The kind is zero
// for a row that the vault did not write. Such a row stays out of the tree.
func (s *growth) judge(ctx context.Context, row *storage.Log, kind evidence.Kind) (evidence.Kind, evidence.Hash, error) {
	e := EntryOf(row)
	kind, mac, err := s.l.kindOf(ctx, s.tenant, row, &e, kind)
	if err == nil && !kind.Valid() {
		s.l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: s.tenant, Entry: e.ID, Verdict: evidence.Forged, Text: "the vault did not write an entry"})
	}
	return kind, e.Commit(s.tenant, mac), err
}

// kindOf returns the kind of an entry that is in no tree, and its MAC. The kind is
// zero if the vault did not write the entry: every entry has a valid MAC, and a type that
// the vault knows.
func (l *Ledger) kindOf(ctx context.Context, tenant uuid.UUID, row *storage.Log, e *evidence.Entry, kind evidence.Kind) (evidence.Kind, evidence.Mac, error) {
	if l.c.KnownType != nil && !l.c.KnownType(e.EntityType) {
		return 0, evidence.Mac{}, nil
	}
	for _, is := range []evidence.Kind{kind, evidence.KindVault} {
		mac, err := l.macAs(ctx, is, tenant, e)
		if err != nil || mac == evidence.Mac(row.Mac) {
			return is, mac, err
		}
	}
	mac := evidence.Mac(row.Mac)
	if ok, err := l.otherMac(ctx, tenant, e.AppendMacFields(nil), func(m evidence.Mac) bool { return m == mac }); ok || err != nil {
		return kind, mac, err
	}
	return 0, evidence.Mac{}, nil
}

// entryLabel begins the data for MACs under the vault's own keys. No entry's data
// begins with it.
const entryLabel = "vault/entry/1"

// macAs returns the MAC of an entry of a kind.
func (l *Ledger) macAs(ctx context.Context, kind evidence.Kind, tenant uuid.UUID, e *evidence.Entry) (evidence.Mac, error) {
	data := make([]byte, 0, usualFields)
	if kind == evidence.KindVault {
		return l.c.Mac(ctx, uuid.UUID{}, AppendVaultMacFields(data, tenant, *e))
	}
	return l.c.Mac(ctx, tenant, e.AppendMacFields(data))
}

// AppendVaultMacFields appends the data for the MAC of an entry under the vault's
// own keys.
func AppendVaultMacFields(data []byte, tenant uuid.UUID, e evidence.Entry) []byte {
	return e.AppendMacFields(append(append(data, entryLabel...), tenant[:]...))
}

// add appends a leaf. All leaves of a batch have the same kind and are in the
// same block.
func (s *growth) add(kind evidence.Kind, ref storage.LogRef, commit evidence.Hash) {
	n := s.frontier.Size()
	if kind == evidence.KindImported {
		s.state.Imported++
	}
	batches := s.change.Leaves
	if len(batches) == 0 || batches[len(batches)-1].Kind != int(kind) || n%storage.LeavesPerBlock == 0 {
		batches = append(batches, storage.Leaves{First: n, Kind: int(kind)})
	}
	batch := &batches[len(batches)-1]
	batch.Refs = append(batch.Refs, ref)
	batch.Hash = append(batch.Hash, storage.Key(commit))
	s.change.Leaves = batches
	s.frontier.Add(evidence.LeafHash(kind, uuid.UUID(ref.ID), commit))
}

// write stores the grown tree.
func (s *growth) write(ctx context.Context) (storage.Tree, error) {
	s.change.Nodes = *s.nodes
	s.change.Tree = storage.Tree{Tenant: s.was.Tenant, Size: s.frontier.Size(), Root: storage.Key(s.frontier.Root())}
	s.state.Revision++
	var err error
	if s.change.Tree.State, err = s.l.sealState(ctx, &s.change.Tree, &s.state); err != nil {
		return storage.Tree{}, err
	}
	if err := s.l.c.Store.WriteTree(ctx, s.change); err != nil {
		return storage.Tree{}, s.blocked(ctx, err)
	}
	s.l.arrived(s.tenant, s.change.Leaves...)
	s.l.cacheTree(s.tenant, s.frontier.Clone(), s.state.Revision)
	if len(s.change.Leaves) > 0 {
		s.l.noteRecent(s.tenant, s.was.Size)
	}
	return s.change.Tree, nil
}

// findSeen finds the entries that are already in the tree. Log positions of
// another server are meaningless here, so FollowLogs returns some entries
// again.
func (s *growth) findSeen(ctx context.Context) error {
	s.seen = map[storage.ID]struct{}{}
	for x, err := range s.l.leaves(ctx, s.was.Tenant, s.state.Pruned, s.was.Size) {
		if err != nil {
			return err
		}
		s.seen[x.ref().ID] = struct{}{}
	}
	return nil
}

// blocked returns ErrTampered for a change that failed because rows are already
// behind the end of the tree. Other errors stay.
func (s *growth) blocked(ctx context.Context, err error) error {
	if errors.Is(err, storage.ErrStale) {
		return err
	}
	part, failed := s.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: s.was.Tenant, From: s.was.Size, To: s.frontier.Size()})
	if failed != nil || len(part.Leaves) == 0 {
		return err
	}
	if now, failed := s.l.tree(ctx, s.tenant); failed != nil || !bytes.Equal(now.State, s.was.State) {
		return err
	}
	return s.l.tampered(ctx, s.tenant, evidence.Forged, "leaves are behind the end of a tree")
}
