package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// exported is the state of a tenant's log at the time of a note.
type exported struct {
	l      *Ledger
	ctx    context.Context
	tenant uuid.UUID
	note   []byte
	at     evidence.Checkpoint
	head   head
	vault  *hashes
	log    *hashes

	// size is the number of leaves.
	size int64
	// inPlace means that nothing is signed: heads have no proofs, and the rest of the
	// vault's tree is left out.
	inPlace bool
	// row, if not nil, receives each leaf with the row of its entry, or nil if the
	// row is missing. It may change the leaf.
	row func(*evidence.Leaf, storage.LogRef, *storage.Log) error
	// pause, if not nil, is called after each chunk of leaves.
	pause func()

	pruned int64 // leaves below this index may be deleted
}

// export signs a note that covers the tenant's log, and reads the log's state.
func (l *Ledger) export(ctx context.Context, tenant uuid.UUID) (*exported, error) {
	x := &exported{l: l, ctx: ctx, tenant: tenant, vault: l.hashes(ctx, uuid.UUID{}), log: l.hashes(ctx, tenant)}
	for range maxAttempts {
		if _, err := l.Checkpoint(ctx, tenant); err != nil {
			return nil, err
		}
		l.mu.Lock() // no head comes between the note and the newest head
		h, err := l.vault.headOf(tenant)
		x.note, x.at, x.head = l.vault.note, l.vault.signed, h
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if h.index < 0 {
			return nil, storage.ErrNotFound
		}
		if x.size = h.size; h.index < x.at.Size {
			return x, nil
		}
	}
	return nil, ErrNotSequenced // unreachable: a note follows each head
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
	if p.Hashes, err = x.log.prove(x.head.size, leaf.N); err != nil {
		return nil, err
	}
	if p.Head, err = x.vault.proven(x.at.Size, x.head.index); err != nil {
		return nil, err
	}
	p.Note, err = x.ownNote()
	return p.Text(), err
}

// ownNote returns a signed note over the tenant's tree. It is signed once for each
// head.
func (x *exported) ownNote() ([]byte, error) {
	l, own := x.l, evidence.Checkpoint{Origin: evidence.TenantOrigin(x.at.Origin, x.tenant), Size: x.head.size, Root: x.head.root}
	l.treesMu.Lock()
	known := l.signed[x.tenant]
	l.treesMu.Unlock()
	if known.at == own {
		return known.note, nil
	}
	msg, err := own.Sign(l.signers()...)
	if err != nil {
		return nil, err
	}
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	l.signed.Put(maxCached, x.tenant, tenantNote{own, msg})
	return msg, nil
}

// tenantNote is the newest signed note over a tenant's tree.
type tenantNote struct {
	at   evidence.Checkpoint
	note []byte
}

// find returns the leaf of an entry. The leaf has the entry unless the entry
// was erased or deleted.
func (x *exported) find(id uuid.UUID) (*evidence.Leaf, error) {
	found, err := x.l.find(x.ctx, x.tenant, id, x.head.size)
	if err != nil {
		return nil, err
	}
	if found.batch == nil {
		return nil, ErrNotSequenced
	}
	rows, err := x.l.c.Store.LogsByRef(x.ctx, storage.ID(x.tenant), []storage.LogRef{found.ref()})
	if err != nil {
		return nil, err
	}
	of := entryLeaf{leaf: found}
	if len(rows) == 1 {
		of.row = &rows[0]
	}
	leaf := of.exported()
	if leaf.Mac == nil {
		leaf.Entry = nil
	}
	return &leaf, nil
}

// exported returns a leaf of a bundle with its entry. The mac is the one in the row,
// never a computed one, with which an altered row would be genuine.
func (l *entryLeaf) exported() evidence.Leaf {
	leaf := evidence.Leaf{N: l.index(), Kind: kindOf(l.batch), ID: l.id(), C: l.commit()}
	if l.row == nil {
		return leaf
	}
	e := EntryOf(l.row)
	leaf.Entry = &e
	if l.row.Mac != (storage.Hash{}) {
		leaf.Mac = slices.Clone(l.row.Mac[:])
	}
	return leaf
}

// Consistency returns the size of the tenant's tree, and the proof that the
// tree continues its earlier state with from leaves.
func (l *Ledger) Consistency(ctx context.Context, tenant uuid.UUID, from int64) (to int64, hashes []evidence.Hash, err error) {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	if from < 0 || from > x.head.size {
		return x.head.size, nil, fmt.Errorf("evidence: the tree has %d leaves", x.head.size)
	}
	if from == 0 || from == x.head.size {
		return x.head.size, []evidence.Hash{}, nil
	}
	proof, err := tlog.ProveTree(x.head.size, from, x.log)
	return x.head.size, append([]evidence.Hash{}, proof...), err
}

// Export writes the tenant's bundle. It writes what the database has, even if the
// tree was manipulated, because the verifier reports what is wrong.
func (l *Ledger) Export(ctx context.Context, tenant uuid.UUID, to io.Writer) error {
	x, err := l.export(ctx, tenant)
	if err != nil {
		return err
	}
	return x.stream(evidence.NewWriter(to))
}

// stream passes the log on in the order of a bundle.
func (x *exported) stream(to evidence.Log) error {
	if err := x.events(to); err != nil {
		return err
	}
	from := min(x.pruned, x.size)
	if from > 0 {
		if err := to.Pruned(from, x.cover(x.log, 0, from)); err != nil {
			return err
		}
	}
	return x.trees(to, from)
}

// events passes the header and the events on.
func (x *exported) events(to evidence.Log) error {
	var show []int64
	pruned := -1
	tenant := storage.ID(x.tenant)
	take := func(index int64, e *evidence.Event) {
		switch e.Kind {
		case evidence.EventHead, evidence.EventSummary, evidence.EventVerified:
		case evidence.EventPruned:
			x.pruned = max(x.pruned, e.Below)
			if pruned < 0 {
				pruned, show = len(show), append(show, index)
			}
			show[pruned] = index // the newest replaces the others
		default:
			show = append(show, index)
		}
	}
	for _, about := range []*storage.ID{&tenant, {}} {
		if err := x.l.eachEvent(x.ctx, storage.EventQuery{To: x.at.Size, About: about}, take); err != nil {
			return err
		}
	}
	slices.Sort(show)
	if err := to.Header(&evidence.Header{Tenant: x.tenant, Note: x.note, Events: len(show)}); err != nil {
		return err
	}
	for _, index := range show {
		p, err := x.vault.proven(x.at.Size, index)
		if errors.Is(err, ErrTampered) && !x.inPlace {
			continue // the verifier misses it
		}
		if errors.Is(err, ErrTampered) {
			err = nil // the verifier finds no proof
		}
		if err != nil {
			return err
		}
		if err := to.Event(p); err != nil {
			return err
		}
	}
	return nil
}

// trees passes on the leaves from an index on, each head after the leaves that it
// covers, and the vault's tree around the heads.
func (x *exported) trees(to evidence.Log, from int64) error {
	grown := &growing{x: x, to: to}
	if err := grown.readNotes(); err != nil {
		return err
	}
	next, stop := iter.Pull2(x.l.headsOf(x.ctx, x.tenant, 0))
	defer stop()
	head, err, more := next()
	heads := func(size int64) error { // of trees up to this size
		for ; more && err == nil && head.index < x.at.Size && min(head.Size, x.size) <= size; head, err, more = next() {
			if err := grown.upTo(head.index); err != nil {
				return err
			}
			if err := to.Head(head.index, head.body); err != nil {
				return err
			}
			grown.size = head.index + 1
		}
		return err
	}
	for leaf, err := range x.readAhead(from) {
		if err == nil {
			err = heads(leaf.index())
		}
		if err == nil {
			err = x.passLeaf(to, leaf)
		}
		if err != nil {
			return err
		}
	}
	if err := heads(x.size); err != nil {
		return err
	}
	return grown.upTo(x.at.Size)
}

// growing is the vault's tree as far as it was passed on.
type growing struct {
	x     *exported
	to    evidence.Log
	size  int64
	notes []int64 // sizes of notes, at which the tree must stop
}

// upTo passes the vault's tree on, up to a size, in pieces that end at notes.
func (g *growing) upTo(size int64) error {
	for !g.x.inPlace && g.size < size {
		end := size
		for len(g.notes) > 0 && g.notes[0] <= g.size {
			g.notes = g.notes[1:]
		}
		if len(g.notes) > 0 {
			end = min(end, g.notes[0])
		}
		if err := g.to.Grow(end, g.x.cover(g.x.vault, g.size, end)); err != nil {
			return err
		}
		g.size = end
	}
	return nil
}

const (
	// recentNotes is how many of the newest notes a bundle can be compared with.
	// Of older notes, it can be compared with the newest of each day.
	recentNotes = 4096
	// maxNotes is the maximum number of notes that are read.
	maxNotes = 100_000
)

// readNotes reads the sizes of the notes that a bundle can be compared with,
// smallest first.
func (g *growing) readNotes() error {
	x := g.x
	if x.inPlace {
		return nil
	}
	day, n := int64(-1), 0
	for c, err := range x.l.notes(x.ctx, storage.CheckpointQuery{Below: x.at.Size}) {
		if err != nil {
			return err
		}
		if n++; n > maxNotes {
			break
		}
		if of := c.At.Unix() / 86400; n <= recentNotes || of != day {
			g.notes, day = append(g.notes, c.Size), of
		}
	}
	slices.Reverse(g.notes)
	return nil
}

// cover returns the roots of the subtrees over a range of leaves, as far as the
// database has them. A verifier notices if some are missing.
func (x *exported) cover(h *hashes, from, to int64) []evidence.Hash {
	all := []evidence.Hash{}
	for _, s := range merkle.Cover(from, to) {
		hash, err := h.subtree(s)
		if err != nil {
			break
		}
		all = append(all, hash)
	}
	return all
}

// passLeaf passes a leaf on.
func (x *exported) passLeaf(to evidence.Log, l entryLeaf) error {
	if l.row != nil && l.row.Seq != l.ref().Seq && !x.inPlace {
		l.row = nil // the entry was moved, and may have another leaf
	}
	leaf := l.exported()
	if x.row != nil {
		if err := x.row(&leaf, l.ref(), l.row); err != nil {
			return err
		}
	}
	return to.Leaf(&leaf)
}
