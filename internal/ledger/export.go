package ledger

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// exported is the state of a tenant's log at the time of a note.
type exported struct {
	l      *Ledger
	ctx    context.Context
	tenant uuid.UUID
	note   []byte
	at     evidence.Checkpoint
	index  int64 // of the tree head
	head   *evidence.Event
	state  state
	last   int64 // index of the newest event about the whole vault, plus one
	vault  *hashes
	log    *hashes
}

// export signs a note that covers the tenant's log, and reads the log's state.
func (l *Ledger) export(ctx context.Context, tenant uuid.UUID) (*exported, error) {
	msg, err := l.Checkpoint(ctx, tenant)
	if err != nil {
		return nil, err
	}
	x := &exported{l: l, ctx: ctx, tenant: tenant, vault: l.hashes(ctx, uuid.UUID{}), log: l.hashes(ctx, tenant)}
	l.mu.Lock()
	h, ok := l.vault.heads[tenant]
	x.note, x.at, x.index, x.last = msg, l.vault.signed, h.index, l.vault.state.Last
	l.mu.Unlock()
	if !ok {
		return nil, storage.ErrNotFound
	}
	tree, err := l.tree(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if err := l.openState(ctx, &tree, &x.state); err != nil {
		return nil, err
	}
	x.head, err = x.event(x.index)
	return x, err
}

// event returns an event of the vault's tree.
func (x *exported) event(index int64) (*evidence.Event, error) {
	events, err := x.l.c.Store.TreeEvents(x.ctx, index, index+1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: an event is missing", ErrTampered)
	}
	return evidence.ParseEvent(events[0].Body)
}

// proven returns an event with its inclusion proof.
func (x *exported) proven(index int64) (evidence.Proven, error) {
	events, err := x.l.c.Store.TreeEvents(x.ctx, index, index+1)
	if err != nil {
		return evidence.Proven{}, err
	}
	if len(events) == 0 {
		return evidence.Proven{}, fmt.Errorf("%w: an event is missing", ErrTampered)
	}
	proof, err := x.vault.prove(x.at.Size, index)
	return evidence.Proven{Body: string(events[0].Body), Index: index, Proof: proof}, err
}

// Proof returns the proof that an entry is in the tenant's log: see
// [evidence.OpenProof].
func (l *Ledger) Proof(ctx context.Context, tenant, id uuid.UUID) ([]byte, error) {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return nil, err
	}
	leaf, err := x.find(id)
	if err != nil {
		return nil, err
	}
	p := evidence.Proof{Index: leaf.N, Leaf: *leaf, HeadNote: x.note}
	if p.Hashes, err = x.log.prove(x.head.Size, leaf.N); err != nil {
		return nil, err
	}
	if p.Head, err = x.proven(x.index); err != nil {
		return nil, err
	}
	own := evidence.Checkpoint{Origin: evidence.TenantOrigin(x.at.Origin, tenant), Size: x.head.Size, Root: x.head.Root}
	if p.Note, err = own.Sign(l.signers()...); err != nil {
		return nil, err
	}
	return p.Text(), nil
}

// find returns the leaf of an entry. The leaf has the entry unless the entry
// was erased or deleted.
func (x *exported) find(id uuid.UUID) (*evidence.Leaf, error) {
	part, err := x.l.c.Store.ReadTree(x.ctx, storage.TreeQuery{Tenant: storage.ID(x.tenant), To: x.head.Size, Holding: storage.ID(id)})
	if err != nil {
		return nil, err
	}
	for i := range part.Leaves {
		batch := &part.Leaves[i]
		j := slices.IndexFunc(batch.Refs, func(r storage.LogRef) bool { return uuid.UUID(r.ID) == id })
		if j < 0 || batch.First+int64(j) >= x.head.Size {
			continue
		}
		leaves, err := x.withEntries(batch)
		if err != nil {
			return nil, err
		}
		leaf := &leaves[j]
		if leaf.Mac == nil {
			leaf.Entry = nil
		}
		return leaf, nil
	}
	return nil, ErrNotSequenced
}

// withEntries returns the leaves of a batch with their entries.
func (x *exported) withEntries(batch *storage.Leaves) ([]evidence.Leaf, error) {
	rows, err := x.l.c.Store.LogsByRef(x.ctx, storage.ID(x.tenant), batch.Refs)
	if err != nil {
		return nil, err
	}
	byID := make(map[storage.ID]*storage.Log, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	leaves := make([]evidence.Leaf, len(batch.Refs))
	for j, ref := range batch.Refs {
		leaf := evidence.Leaf{
			N: batch.First + int64(j), Kind: kindOf(batch), ID: uuid.UUID(ref.ID), C: evidence.Hash(batch.Hash[j]),
		}
		if row := byID[ref.ID]; row != nil {
			e := EntryOf(row)
			leaf.Entry = &e
			mac, err := x.mac(leaf.Kind, row, &e)
			if err != nil {
				return nil, err
			}
			leaf.Mac = mac
		}
		leaves[j] = leaf
	}
	return leaves, nil
}

// mac returns the MAC of a row. An entry of [evidence.KindOld] has no MAC in
// its row, so the vault computes it.
func (x *exported) mac(kind evidence.Kind, row *storage.Log, e *evidence.Entry) ([]byte, error) {
	if kind != evidence.KindOld {
		if row.Mac == (storage.Hash{}) {
			return nil, nil
		}
		return slices.Clone(row.Mac[:]), nil
	}
	mac, err := x.l.mac(x.ctx, x.tenant, e)
	return mac[:], err
}

// Consistency returns the size of the tenant's tree, and the proof that the
// tree continues its earlier state with from leaves.
func (l *Ledger) Consistency(ctx context.Context, tenant uuid.UUID, from int64) (to int64, hashes []evidence.Hash, err error) {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	if from < 0 || from > x.head.Size {
		return x.head.Size, nil, fmt.Errorf("evidence: the tree has %d leaves", x.head.Size)
	}
	if from == 0 || from == x.head.Size {
		return x.head.Size, []evidence.Hash{}, nil
	}
	proof, err := tlog.ProveTree(x.head.Size, from, x.log)
	return x.head.Size, append([]evidence.Hash{}, proof...), err
}

// TenantNote returns a signed note over the tenant's tree.
func (l *Ledger) TenantNote(ctx context.Context, tenant uuid.UUID) ([]byte, error) {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return nil, err
	}
	own := evidence.Checkpoint{Origin: evidence.TenantOrigin(x.at.Origin, tenant), Size: x.head.Size, Root: x.head.Root}
	return own.Sign(l.signers()...)
}

// Export writes the tenant's bundle.
func (l *Ledger) Export(ctx context.Context, tenant uuid.UUID, to io.Writer) error {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return err
	}
	w := evidence.NewWriter(to)
	erased, err := x.writeHead(w)
	if err != nil {
		return err
	}
	if err := x.writeLeaves(w, erased); err != nil {
		return err
	}
	return x.writeHistory(w)
}

// writeHead writes the header and the events. It returns the indexes of the
// events that erased entries.
func (x *exported) writeHead(w *evidence.Writer) (map[uuid.UUID]int64, error) {
	erased := map[uuid.UUID]int64{}
	var show []int64
	pruned := false
	err := x.chain(x.state.Last, func(index int64, e *evidence.Event) {
		switch {
		case e.Kind == evidence.EventErased:
			if _, ok := erased[e.Entry]; !ok {
				erased[e.Entry] = index
			}
		case e.Kind == evidence.EventPruned && pruned:
		default:
			pruned = pruned || e.Kind == evidence.EventPruned
			show = append(show, index)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := x.chain(x.last, func(index int64, _ *evidence.Event) { show = append(show, index) }); err != nil {
		return nil, err
	}
	slices.Sort(show)
	h := evidence.Header{Tenant: x.tenant, Note: x.note, Events: len(show)}
	if h.Head, err = x.proven(x.index); err != nil {
		return nil, err
	}
	if err := w.Header(&h); err != nil {
		return nil, err
	}
	for _, index := range show {
		p, err := x.proven(index)
		if err != nil {
			return nil, err
		}
		if err := w.Event(p); err != nil {
			return nil, err
		}
	}
	return erased, nil
}

// chain visits a chain of events from the newest on. Each event names the one
// before it.
func (x *exported) chain(last int64, do func(int64, *evidence.Event)) error {
	for last > 0 {
		index := last - 1
		e, err := x.event(index)
		if err != nil {
			return err
		}
		if e.Prev >= last {
			return fmt.Errorf("%w: events run in a circle", ErrTampered)
		}
		if index < x.at.Size {
			do(index, e)
		}
		last = e.Prev
	}
	return nil
}

func (x *exported) writeLeaves(w *evidence.Writer, erased map[uuid.UUID]int64) error {
	from := min(x.state.Pruned, x.head.Size)
	if from > 0 {
		roots, err := x.cover(x.log, 0, from)
		if err != nil {
			return err
		}
		if err := w.Pruned(from, roots); err != nil {
			return err
		}
	}
	for ; from < x.head.Size; from += storage.LeavesPerBlock - from%storage.LeavesPerBlock {
		end := min(x.head.Size, from+storage.LeavesPerBlock-from%storage.LeavesPerBlock)
		part, err := x.l.c.Store.ReadTree(x.ctx, storage.TreeQuery{Tenant: storage.ID(x.tenant), From: from, To: end})
		if err != nil {
			return err
		}
		for i := range part.Leaves {
			if err := x.writeBatch(w, &part.Leaves[i], erased); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exported) writeBatch(w *evidence.Writer, batch *storage.Leaves, erased map[uuid.UUID]int64) error {
	leaves, err := x.withEntries(batch)
	if err != nil {
		return err
	}
	for i := range leaves {
		leaf := &leaves[i]
		if leaf.N >= x.head.Size {
			return nil
		}
		if index, ok := erased[leaf.ID]; ok && leaf.Entry != nil && isErased(leaf) {
			p, err := x.proven(index)
			if err != nil {
				return err
			}
			leaf.Erased, leaf.Mac = &p, nil
		}
		if err := w.Leaf(leaf); err != nil {
			return err
		}
	}
	return nil
}

// isErased reports whether a leaf's row has nothing left to erase.
func isErased(leaf *evidence.Leaf) bool {
	return leaf.Entry.ActorName == "" && leaf.Entry.Origin == "" && (leaf.Mac == nil || leaf.Kind == evidence.KindOld)
}

func (x *exported) cover(h *hashes, from, to int64) ([]evidence.Hash, error) {
	var all []evidence.Hash
	for _, s := range merkle.Cover(from, to) {
		hash, err := h.subtree(s)
		if err != nil {
			return nil, err
		}
		all = append(all, hash)
	}
	return all, nil
}

const (
	// recentNotes is how many of the newest notes a bundle includes in its
	// history. Of older notes, it includes the newest of each day.
	recentNotes = 4096
	// maxNotes is the maximum number of notes that are read for the history.
	maxNotes = 100_000
)

// writeHistory writes how the vault's tree grew from note to note.
func (x *exported) writeHistory(w *evidence.Writer) error {
	sizes, err := x.noteSizes()
	if err != nil {
		return err
	}
	from := int64(0)
	for _, size := range sizes {
		if size <= from {
			continue
		}
		hashes, err := x.cover(x.vault, from, size)
		if err != nil {
			return err
		}
		if err := w.History(size, hashes); err != nil {
			return err
		}
		from = size
	}
	return nil
}

// noteSizes returns the sizes of the notes in a bundle's history, smallest
// first.
func (x *exported) noteSizes() ([]int64, error) {
	sizes := []int64{x.at.Size}
	day := int64(-1)
	for below, n := x.at.Size, 0; n < maxNotes; {
		page, err := x.l.c.Store.Checkpoints(x.ctx, below, 1000)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			n, below = n+1, c.Size
			if of := c.At.Unix() / 86400; n <= recentNotes || of != day {
				sizes, day = append(sizes, c.Size), of
			}
		}
		if len(page) == 0 {
			break
		}
	}
	slices.Sort(sizes)
	return sizes, nil
}
