package ledger

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// VerifyOptions select what to verify.
type VerifyOptions struct {
	Tenants []uuid.UUID // nil for all
	// Since are further notes that the vault's tree must continue. The anchors'
	// notes are always checked.
	Since [][]byte
}

// Verify verifies the database in place. It compares the vault's tree with the
// notes and the anchors. It reads the log of each tenant as a bundle and verifies
// it with [evidence.Checker]. It also looks for rows that are in no tree, and
// compares rows with the log. Any difference is tampering, except entries that
// are too new to be in a tree. Verify signs nothing.
func (l *Ledger) Verify(ctx context.Context, o VerifyOptions) (*evidence.Report, error) {
	if err := l.beforeVerify(ctx, &o); err != nil {
		return nil, err
	}
	v := &verification{l: l, ctx: ctx, report: &evidence.Report{}}
	if err := v.vault(&o); err != nil {
		return nil, err
	}
	if o.Tenants == nil {
		if err := v.tenants(uuid.UUID{}, func(uuid.UUID) error { return nil }); err != nil {
			return nil, err
		}
		l.setVerified(l.c.Now(), v.report.OK(), v.report)
	}
	for _, tenant := range o.Tenants {
		if err := v.tenant(tenant); err != nil {
			return nil, err
		}
	}
	v.alarm()
	return v.report, nil
}

// setVerified stores the result of this node's verification of everything, unless
// there is a newer one.
func (l *Ledger) setVerified(at time.Time, ok bool, r *evidence.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.Before(l.vault.verified) {
		return
	}
	l.vault.verified, l.vault.verifiedOK, l.vault.compared = at, ok, r.Summary()
	l.vault.findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f evidence.Finding) bool { return !f.Verdict.Tampering() })
}

// beforeVerify sequences all entries that it can, so that it finds fewer that are
// in no tree, and reads the anchors.
func (l *Ledger) beforeVerify(ctx context.Context, o *VerifyOptions) error {
	for _, a := range l.anchors {
		a.kick(nil)
	}
	var err error
	if o.Tenants == nil {
		err = l.SequenceAll(ctx)
	}
	for _, tenant := range o.Tenants {
		_, failed := l.Sequence(ctx, tenant)
		err = errors.Join(err, failed)
	}
	if errors.Is(err, ErrSuspended) || errors.Is(err, ErrTampered) || errors.Is(err, ErrGone) {
		return nil // the verification says why
	}
	return err
}

// verification compares the rows of the database with each other.
type verification struct {
	l      *Ledger
	ctx    context.Context //nolint:containedctx // of one call
	report *evidence.Report
	state  vaultState
	keys   []string // that the newest event about signing keys names
	pause  func()   // may be nil
}

// alarm raises an alarm for each finding that means tampering.
func (v *verification) alarm() {
	for _, f := range v.report.Findings {
		if f.Verdict.Tampering() {
			v.l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: f.Tenant, Entry: f.EntryID, Verdict: f.Verdict, Text: "verification found tampering: " + string(f.Verdict)})
		}
	}
}

func (v *verification) find(tenant uuid.UUID, index int64, verdict evidence.Verdict) {
	v.report.Add(evidence.Finding{Tenant: tenant, Index: index, Verdict: verdict})
}

func (v *verification) findVault(verdict evidence.Verdict) {
	v.find(uuid.UUID{}, -1, verdict)
}

// vault verifies the vault's tree.
func (v *verification) vault(o *VerifyOptions) error {
	tree, st, err := v.l.readVault(v.ctx)
	switch v.state = st; {
	case errors.Is(err, ErrTampered):
		v.findVault(evidence.Altered)
	case err != nil:
		return err
	case tree.State == nil:
		v.findVault(evidence.Truncated)
		return nil
	}
	is, err := v.l.instance(v.ctx)
	if err != nil {
		return err
	}
	if is.ID != v.state.Instance { // a restore that was not accepted, or an altered state
		v.findVault(evidence.Altered)
	}
	v.report.Origin, v.report.Size = evidence.OriginAfter(v.l.c.Name, v.state.Restores), tree.Size
	v.report.Key = evidence.KeyName(v.l.keys()[0])
	return v.events(&tree, o)
}

// events hashes the events, and compares the tree with the notes at each size.
func (v *verification) events(tree *storage.Tree, o *VerifyOptions) error {
	w := &walk{v: v}
	next, stop := iter.Pull2(v.l.notes(v.ctx, storage.CheckpointQuery{Below: v.state.Signed + 1, Oldest: true}))
	defer stop()
	w.stored = next
	w.others(o)
	nodes := nodesOf(&w.f)
	for e, err := range v.l.events(v.ctx, storage.EventQuery{To: tree.Size}) {
		if err != nil {
			return err
		}
		if e.N != w.f.Size() {
			break
		}
		if err := w.compare(); err != nil {
			return err
		}
		w.f.Add(tlog.RecordHash(e.Body))
		v.event(e)
		if w.f.Size()%maxStep == 0 {
			if err := v.nodes(uuid.UUID{}, nodes); err != nil {
				return err
			}
			if v.pause != nil {
				v.pause()
			}
		}
	}
	if w.f.Size() != tree.Size {
		v.find(uuid.UUID{}, w.f.Size(), evidence.Missing)
		return nil
	}
	if err := v.nodes(uuid.UUID{}, nodes); err != nil {
		return err
	}
	if err := w.finish(tree); err != nil {
		return err
	}
	if err := v.signingKeys(); err != nil {
		return err
	}
	if err := v.afterEvents(tree.Size); err != nil {
		return err
	}
	return v.afterNodes(uuid.UUID{}, tree.Size)
}

// event evaluates an event of the vault's tree.
func (v *verification) event(stored *storage.TreeEvent) {
	e, err := evidence.ParseEvent(stored.Body)
	if err != nil || uuid.UUID(stored.About) != e.Tenant {
		v.find(uuid.UUID{}, stored.N, evidence.Altered)
		return
	}
	switch e.Kind {
	case evidence.EventKeyChanged:
		v.keys = e.Keys
	case evidence.EventRestored:
		v.report.Restores = append(v.report.Restores, evidence.Restore{Time: e.Time, Reason: e.Reason, Index: stored.N, Origin: e.Origin})
	default:
	}
}

// signingKeys compares the signing keys in the database with the log.
func (v *verification) signingKeys() error {
	if !v.l.hasKeys(v.keys) {
		v.findVault(evidence.Altered)
		return nil
	}
	if v.l.c.Stored == nil {
		return nil
	}
	err := v.l.c.Stored(v.ctx)
	if errors.Is(err, ErrTampered) {
		v.findVault(evidence.Altered)
		return nil
	}
	return err
}

// afterEvents looks for events that are behind the end of the tree.
func (v *verification) afterEvents(size int64) error {
	events, err := v.l.c.Store.TreeEvents(v.ctx, storage.EventQuery{From: size, To: newest, Limit: maxStep})
	if err != nil || len(events) == 0 {
		return err
	}
	now, err := v.l.tree(v.ctx, uuid.UUID{}) // it may have grown
	if last := events[len(events)-1].N; err == nil && last >= now.Size {
		v.find(uuid.UUID{}, last, evidence.Forged)
	}
	return err
}

// nodes compares the stored nodes of a tree with computed nodes, and forgets
// these.
func (v *verification) nodes(tenant uuid.UUID, computed *[]storage.Node) error {
	if len(*computed) == 0 {
		return nil
	}
	q := storage.TreeQuery{Tenant: storage.ID(tenant)}
	for _, level := range levels {
		r := storage.NodeRange{Level: level, From: newest}
		for _, n := range *computed {
			if n.Level == level {
				r.From, r.To = min(r.From, n.N), n.N+1
			}
		}
		if r.From < r.To {
			q.Nodes = append(q.Nodes, r)
		}
	}
	part, err := v.l.c.Store.ReadTree(v.ctx, q)
	if err != nil {
		return err
	}
	for _, n := range *computed {
		if !slices.Contains(part.Nodes, n) {
			v.find(tenant, n.N<<n.Level, evidence.Altered)
		}
	}
	*computed = (*computed)[:0]
	return nil
}

// afterNodes looks for nodes that are behind the end of the tree.
func (v *verification) afterNodes(tenant uuid.UUID, size int64) error {
	q := storage.TreeQuery{Tenant: storage.ID(tenant)}
	for _, level := range levels {
		q.Nodes = append(q.Nodes, storage.NodeRange{Level: level, From: size >> level, To: newest})
	}
	part, err := v.l.c.Store.ReadTree(v.ctx, q)
	if err != nil || len(part.Nodes) == 0 {
		return err
	}
	now, err := v.l.tree(v.ctx, tenant) // it may have grown
	if err == nil && slices.ContainsFunc(part.Nodes, func(n storage.Node) bool { return n.N >= now.Size>>n.Level }) {
		v.find(tenant, -1, evidence.Forged)
	}
	return err
}

// tenants verifies the tenants that have a tree or a head, in order, from the tenant
// after the given id on. It calls done after each.
func (v *verification) tenants(after uuid.UUID, done func(uuid.UUID) error) error {
	v.l.mu.Lock()
	all := slices.Collect(maps.Keys(v.l.vault.tenants.heads))
	v.l.mu.Unlock()
	for tree, err := range v.l.storedTrees(v.ctx) {
		if err != nil {
			return err
		}
		all = append(all, uuid.UUID(tree.Tenant))
	}
	slices.SortFunc(all, compareIDs)
	for _, tenant := range slices.Compact(all) {
		if bytes.Compare(tenant[:], after[:]) <= 0 {
			continue
		}
		if err := v.tenant(tenant); err != nil {
			return err
		}
		if err := done(tenant); err != nil {
			return err
		}
	}
	return v.living()
}

// living looks for tenants that exist although their deletion is signed.
func (v *verification) living() error {
	if v.l.c.Living == nil {
		return nil
	}
	found := map[uuid.UUID]bool{}
	return v.l.c.Living(v.ctx, func(tenant uuid.UUID) error {
		if !found[tenant] && v.l.isBack(tenant) {
			found[tenant] = true
			v.find(tenant, -1, evidence.Forged)
		}
		return nil
	})
}
