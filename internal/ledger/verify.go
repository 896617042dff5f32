package ledger

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// VerifyOptions select what to verify.
type VerifyOptions struct {
	Tenants []uuid.UUID // nil for all
	// Since are further notes that the vault's tree must continue. The anchors'
	// notes are always checked.
	Since [][]byte
}

// Verify compares the log with the trees, the trees with the notes, and the
// notes with the anchors, row by row. Any difference is tampering, except
// entries that are too new to be in a tree.
func (l *Ledger) Verify(ctx context.Context, o VerifyOptions) (*evidence.Report, error) {
	if err := l.beforeVerify(ctx, &o); err != nil && !errors.Is(err, ErrSuspended) && !errors.Is(err, ErrTampered) {
		return nil, err
	}
	v := &verification{l: l, ctx: ctx, report: &evidence.Report{}, heads: map[uuid.UUID]*evidence.Event{}, deleted: map[uuid.UUID]bool{}}
	if err := v.vault(&o); err != nil {
		return nil, err
	}
	if err := v.tenants(&o); err != nil {
		return nil, err
	}
	for _, f := range v.report.Findings {
		if f.Verdict.Tampering() {
			l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: f.Tenant, Entry: f.EntryID, Verdict: f.Verdict, Text: "verification found tampering"})
		}
	}
	if o.Tenants == nil {
		l.mu.Lock()
		l.vault.verified, l.vault.verifiedOK = l.c.Now(), v.report.OK()
		l.mu.Unlock()
	}
	return v.report, nil
}

// beforeVerify sequences all entries that it can, and signs a note over them.
func (l *Ledger) beforeVerify(ctx context.Context, o *VerifyOptions) error {
	var errs []error
	if o.Tenants == nil {
		errs = append(errs, l.SequenceAll(ctx))
	}
	_, err := l.Checkpoint(ctx, o.Tenants...)
	return errors.Join(append(errs, err)...)
}

// verification compares the rows of the database with each other.
type verification struct {
	l       *Ledger
	ctx     context.Context
	report  *evidence.Report
	heads   map[uuid.UUID]*evidence.Event // the newest of each tenant
	deleted map[uuid.UUID]bool
	state   vaultState
}

func (v *verification) find(tenant uuid.UUID, index int64, id uuid.UUID, verdict evidence.Verdict) {
	v.report.Add(evidence.Finding{Tenant: tenant, Index: index, EntryID: id, Verdict: verdict})
}

func (v *verification) findVault(verdict evidence.Verdict) {
	v.find(uuid.UUID{}, -1, uuid.UUID{}, verdict)
}

// noteAt is a checkpoint and its source.
type noteAt struct {
	at     evidence.Checkpoint
	stored bool // from the database
}

// vault verifies the vault's tree.
func (v *verification) vault(o *VerifyOptions) error {
	tree, stored, err := v.snapshot()
	if err != nil {
		return err
	}
	if tree.State == nil {
		v.findVault(evidence.Truncated)
		return nil
	}
	err = v.l.openState(v.ctx, &tree, &v.state)
	if err != nil && !errors.Is(err, ErrTampered) {
		return err
	}
	if err != nil {
		v.findVault(evidence.Altered)
	}
	is, err := v.l.instance(v.ctx)
	if err != nil {
		return err
	}
	if is.ID != v.state.Instance { // a restore that was not accepted, or an altered state
		v.findVault(evidence.Altered)
	}
	v.report.Origin, v.report.Size = evidence.OriginAfter(v.l.c.Name, v.state.Restores), tree.Size
	return v.events(&tree, v.notes(o, stored))
}

// snapshot returns the vault's tree and the notes over it, as of one moment.
func (v *verification) snapshot() (storage.Tree, []storage.Checkpoint, error) {
	for attempt := 0; ; attempt++ {
		tree, err := v.l.tree(v.ctx, uuid.UUID{})
		if err != nil {
			return tree, nil, err
		}
		stored, err := v.stored()
		if err != nil {
			return tree, nil, err
		}
		again, err := v.l.tree(v.ctx, uuid.UUID{})
		if err != nil || bytes.Equal(again.State, tree.State) || attempt == maxAttempts {
			return tree, stored, err
		}
	}
}

// notes returns the notes that the tree must continue, smallest first.
func (v *verification) notes(o *VerifyOptions, stored []storage.Checkpoint) []noteAt {
	var all []noteAt
	add := func(msg []byte, size int64, stored bool) {
		c, err := evidence.OpenCheckpoint(msg, v.l.keys()...)
		if err != nil || stored && c.Size != size {
			v.findVault(evidence.BadSignature)
			return
		}
		all = append(all, noteAt{*c, stored})
	}
	var st vaultState
	for i := range stored {
		add(stored[i].Note, stored[i].Size, true)
		st.addNote(&stored[i])
	}
	if st.Signed != v.state.Signed || !bytes.Equal(st.Notes, v.state.Notes) {
		v.findVault(evidence.Altered)
	}
	for _, msg := range o.Since {
		add(msg, 0, false)
	}
	for _, a := range v.l.anchors {
		if c, _, _ := a.newest(); c != nil {
			all = append(all, noteAt{*c, false})
		}
	}
	v.l.mu.Lock()
	if v.l.vault.note != nil {
		all = append(all, noteAt{v.l.vault.signed, true})
	}
	v.l.mu.Unlock()
	slices.SortFunc(all, func(a, b noteAt) int { return int(a.at.Size - b.at.Size) })
	return all
}

// stored returns the stored notes, smallest first.
func (v *verification) stored() ([]storage.Checkpoint, error) {
	var all []storage.Checkpoint
	for below := int64(newest); ; {
		page, err := v.l.c.Store.Checkpoints(v.ctx, below, 1000)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			slices.Reverse(all)
			return all, nil
		}
		all, below = append(all, page...), page[len(page)-1].Size
	}
}

// events hashes the events and compares the tree with the notes at each size.
func (v *verification) events(tree *storage.Tree, notes []noteAt) error {
	var last int64
	w := &walk{v: v, notes: notes}
	nodes := nodesOf(&w.f)
	for w.f.Size() < tree.Size {
		from, to := w.f.Size(), min(tree.Size, w.f.Size()+maxStep)
		events, err := v.l.c.Store.TreeEvents(v.ctx, from, to)
		if err != nil {
			return err
		}
		for _, stored := range events {
			if stored.N != w.f.Size() {
				break
			}
			w.compare()
			w.f.Add(tlog.RecordHash(stored.Body))
			e := v.event(stored.N, stored.Body)
			if e != nil && isOfVault(e.Kind) {
				last = stored.N + 1
			}
		}
		if w.f.Size() != to {
			v.find(uuid.UUID{}, w.f.Size(), uuid.UUID{}, evidence.Missing)
			return nil
		}
	}
	w.compare()
	origin := v.l.c.Name
	if n := len(v.report.Restores); n > 0 {
		origin = v.report.Restores[n-1].Origin
	}
	if w.f.Root() != merkle.Hash(tree.Root) || v.state.Last != last || v.report.Origin != origin {
		v.findVault(evidence.Altered)
	}
	w.rest()
	if err := v.afterEvents(tree.Size); err != nil {
		return err
	}
	return v.nodes(uuid.UUID{}, *nodes)
}

// afterEvents looks for events that are behind the end of the tree.
func (v *verification) afterEvents(size int64) error {
	events, err := v.l.c.Store.TreeEvents(v.ctx, size, newest)
	if err != nil || len(events) == 0 {
		return err
	}
	now, err := v.l.tree(v.ctx, uuid.UUID{}) // it may have grown
	if last := events[len(events)-1].N; err == nil && last >= now.Size {
		v.find(uuid.UUID{}, last, uuid.UUID{}, evidence.Forged)
	}
	return err
}

// isOfVault reports whether events of a kind are about the whole vault.
func isOfVault(k evidence.EventKind) bool {
	return slices.Contains([]evidence.EventKind{
		evidence.EventStarted, evidence.EventStopped, evidence.EventRestored, evidence.EventKeyChanged,
	}, k)
}

// event evaluates an event of the vault's tree.
func (v *verification) event(n int64, body []byte) *evidence.Event {
	e, err := evidence.ParseEvent(body)
	if err != nil {
		v.find(uuid.UUID{}, n, uuid.UUID{}, evidence.Altered)
		return nil
	}
	switch e.Kind {
	case evidence.EventHead:
		v.heads[e.Tenant] = e
		delete(v.deleted, e.Tenant)
	case evidence.EventTenantDeleted:
		delete(v.heads, e.Tenant)
		v.deleted[e.Tenant] = true
	case evidence.EventRestored:
		v.report.Restores = append(v.report.Restores, evidence.Restore{Time: e.Time, Reason: e.Reason, Index: n, Origin: e.Origin})
	default:
	}
	return e
}

// walk grows the vault's tree event by event and compares it with the notes.
type walk struct {
	v     *verification
	f     merkle.Frontier
	notes []noteAt
	left  []noteAt // contradicting notes from elsewhere; judged at the end
	wrong bool
}

// compare compares the tree with the notes of its current size.
func (w *walk) compare() {
	for len(w.notes) > 0 && w.notes[0].at.Size <= w.f.Size() {
		n := w.notes[0]
		w.notes = w.notes[1:]
		if n.at.Root == w.f.Root() {
			continue
		}
		if n.stored {
			w.fork()
		} else {
			w.left = append(w.left, n)
		}
	}
}

// fork reports once that the tree contradicts a note.
func (w *walk) fork() {
	if !w.wrong {
		w.v.findVault(evidence.Forked)
	}
	w.wrong = true
}

// rest judges the notes that the tree does not reach or contradicts. If a
// restore was accepted, notes of an earlier origin may be larger than the tree
// at the restore.
func (w *walk) rest() {
	for _, n := range append(w.left, w.notes...) {
		past, err := evidence.Restores(w.v.l.c.Name, n.at.Origin)
		next, ok := w.v.report.NextRestore(w.v.l.c.Name, past)
		switch {
		case err != nil:
			w.fork()
		case ok && n.at.Size > next.Index:
		case n.at.Size > w.f.Size():
			w.v.findVault(evidence.Truncated)
		default:
			w.fork()
		}
	}
}

// nodes compares the stored nodes of a tree with the computed nodes.
func (v *verification) nodes(tenant uuid.UUID, want []storage.Node) error {
	counts := map[int]int64{}
	for _, n := range want {
		counts[n.Level] = max(counts[n.Level], n.N+1)
	}
	for _, level := range levels {
		if err := v.nodesOf(tenant, level, counts[level], want); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) nodesOf(tenant uuid.UUID, level int, count int64, want []storage.Node) error {
	computed := map[int64]storage.Key{}
	for _, n := range want {
		if n.Level == level {
			computed[n.N] = n.Hash
		}
	}
	for from := int64(0); from < count; from += maxStep {
		to := min(from+maxStep, count)
		part, err := v.l.c.Store.ReadTree(v.ctx, storage.TreeQuery{
			Tenant: storage.ID(tenant), Nodes: []storage.NodeRange{{Level: level, From: from, To: to}},
		})
		if err != nil {
			return err
		}
		stored := map[int64]storage.Key{}
		for _, n := range part.Nodes {
			stored[n.N] = n.Hash
		}
		for n := from; n < to; n++ {
			// Nodes over pruned leaves are read, not computed.
			if hash, ok := computed[n]; ok && stored[n] != hash {
				v.find(tenant, n<<level, uuid.UUID{}, evidence.Altered)
			}
		}
	}
	return v.afterNodes(tenant, level, count)
}

// afterNodes looks for nodes that are behind the end of the tree.
func (v *verification) afterNodes(tenant uuid.UUID, level int, count int64) error {
	part, err := v.l.c.Store.ReadTree(v.ctx, storage.TreeQuery{
		Tenant: storage.ID(tenant), Nodes: []storage.NodeRange{{Level: level, From: count, To: newest}},
	})
	if err != nil || len(part.Nodes) == 0 {
		return err
	}
	now, err := v.l.tree(v.ctx, tenant) // it may have grown
	if last := part.Nodes[len(part.Nodes)-1].N; err == nil && last >= now.Size>>level {
		v.find(tenant, -1, uuid.UUID{}, evidence.Forged)
	}
	return err
}

// tenants verifies the trees of tenants.
func (v *verification) tenants(o *VerifyOptions) error {
	wanted := func(id uuid.UUID) bool { return o.Tenants == nil || slices.Contains(o.Tenants, id) }
	seen := map[uuid.UUID]bool{}
	for after := (storage.ID{}); ; {
		page, err := v.l.c.Store.Trees(v.ctx, storage.TreeFilter{After: after, Limit: maxTenants})
		if err != nil {
			return err
		}
		for i := range page {
			id := uuid.UUID(page[i].Tenant)
			seen[id], after = true, page[i].Tenant
			if wanted(id) {
				if err := v.each(&page[i]); err != nil {
					return err
				}
			}
		}
		if len(page) < maxTenants {
			break
		}
	}
	for id := range v.heads {
		if wanted(id) && !seen[id] {
			v.find(id, 0, uuid.UUID{}, evidence.Truncated)
		}
	}
	return nil
}

// each verifies the log of a tenant. A tenant whose keys were altered or removed
// does not hide the findings about the others.
func (v *verification) each(tree *storage.Tree) error {
	tenant := uuid.UUID(tree.Tenant)
	err := v.tenant(tree)
	switch {
	case errors.Is(err, ErrTampered):
		v.find(tenant, -1, uuid.UUID{}, evidence.Altered)
		return nil
	case errors.Is(err, ErrGone):
		deleted, err := v.deletedSince(tenant)
		if err == nil && !deleted {
			v.find(tenant, -1, uuid.UUID{}, evidence.Altered)
		}
		return err
	default:
		return err
	}
}

// deletedSince reports whether a tenant was deleted after this verification read
// the vault's tree.
func (v *verification) deletedSince(tenant uuid.UUID) (bool, error) {
	tree, err := v.l.tree(v.ctx, uuid.UUID{})
	if err != nil {
		return false, err
	}
	for from := v.report.Size; from < tree.Size; from += maxStep {
		events, err := v.l.c.Store.TreeEvents(v.ctx, from, min(tree.Size, from+maxStep))
		if err != nil {
			return false, err
		}
		for _, stored := range events {
			e, err := evidence.ParseEvent(stored.Body)
			if err == nil && e.Kind == evidence.EventTenantDeleted && e.Tenant == tenant {
				return true, nil
			}
		}
	}
	return false, nil
}
