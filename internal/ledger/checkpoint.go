package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// SequenceDirty sequences the tenants that this node has written to.
func (l *Ledger) SequenceDirty(ctx context.Context) error {
	dirty, tried := l.pending.TakeDirty(), 0
	err := l.each(slices.Values(dirty), func(tenant uuid.UUID) error {
		tried++
		_, err := l.Sequence(ctx, tenant)
		if err != nil && !errors.Is(err, ErrTampered) && !errors.Is(err, ErrGone) {
			l.pending.MarkDirty(tenant)
		}
		return err
	})
	for _, left := range dirty[tried:] {
		l.pending.MarkDirty(left)
	}
	return err
}

// tenantsError holds the errors of some tenants, which do not concern the others.
type tenantsError map[uuid.UUID]error

func (e tenantsError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the errors, in the order of the tenants.
func (e tenantsError) Unwrap() (all []error) {
	for _, tenant := range sortedIDs(e) {
		all = append(all, e[tenant])
	}
	return all
}

// of returns the error of one of the tenants; any error if there are no tenants.
func (e tenantsError) of(tenants []uuid.UUID) error {
	if len(tenants) == 0 && len(e) > 0 {
		return e
	}
	for _, tenant := range tenants {
		if e[tenant] != nil {
			return e[tenant]
		}
	}
	return nil
}

// concernsAll reports whether an error is not about one tenant alone.
func concernsAll(err error) bool {
	return slices.ContainsFunc([]error{ErrSuspended, storage.ErrUnavailable, storage.ErrClosed, context.Canceled, context.DeadlineExceeded},
		func(all error) bool { return errors.Is(err, all) })
}

// isOfSome reports whether an error is about some tenants alone.
func isOfSome(err error) bool {
	_, ok := errors.AsType[tenantsError](err)
	return ok || errors.Is(err, ErrTampered)
}

// each calls do for tenants. A tenant with a manipulated tree, or one whose tree cannot
// be written, does not block the others, and a deleted one is forgotten.
func (l *Ledger) each(tenants iter.Seq[uuid.UUID], do func(uuid.UUID) error) error {
	var tampered error
	failed := tenantsError{}
	for tenant := range tenants {
		switch err := do(tenant); {
		case errors.Is(err, ErrTampered):
			tampered = err
		case errors.Is(err, ErrGone):
			l.Forget(tenant)
		case err != nil && concernsAll(err):
			return err
		case err != nil:
			failed[tenant] = err
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return tampered
}

// SequenceAll sequences all tenants.
func (l *Ledger) SequenceAll(ctx context.Context) error {
	return l.eachTenant(ctx, func(tenant uuid.UUID) error {
		_, err := l.Sequence(ctx, tenant)
		return err
	})
}

// eachTenant calls do for every tenant, as each does.
func (l *Ledger) eachTenant(ctx context.Context, do func(uuid.UUID) error) error {
	var after uuid.UUID
	var failed error
	err := l.each(func(yield func(uuid.UUID) bool) {
		for tenant, err := range pages(maxTenants, func(*uuid.UUID) ([]uuid.UUID, error) { return l.c.Tenants(ctx, after, maxTenants) }) {
			if failed = err; err != nil {
				return
			}
			if after = *tenant; !yield(after) {
				return
			}
		}
	}, do)
	return cmp.Or(failed, err)
}

// maxTenants is the maximum number of tenants in a page.
const maxTenants = 256

// sign records the heads of changed trees, signs a note and publishes it.
func (l *Ledger) sign(ctx context.Context, heads []grown) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	want := int64(-1) // the size that the note must have at least
	for attempt := 0; ; attempt++ {
		if err := l.record(ctx, func() []evidence.Event { return l.fresh(heads) }); err != nil {
			return nil, err
		}
		if want < 0 {
			want = l.vault.tree.Size
		}
		if wait := l.tooSoon(want); wait > 0 {
			l.mu.Unlock()
			err := l.rounds.sleep(wait)
			l.mu.Lock()
			if err != nil {
				return nil, err
			}
			continue
		}
		msg, err := l.signTree(ctx, want)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue // another node has appended events
		}
		return msg, err
	}
}

// tooSoon returns how long to wait because another node has signed a note that is
// too small.
func (l *Ledger) tooSoon(want int64) time.Duration {
	st := &l.vault.state
	if st.Signed == l.vault.signed.Size || st.Signed >= want {
		return 0
	}
	l.rounds.mu.Lock()
	defer l.rounds.mu.Unlock()
	return time.Until(l.rounds.signed.Add(l.rounds.pace))
}

// mayContinue compares the tree with the anchors' notes. This must happen
// before the tree grows: afterwards a restore would look like a fork.
func (l *Ledger) mayContinue(ctx context.Context) error {
	over, failing := time.After(anchorWait), false
	for _, a := range l.anchors {
		a.wait(over)
		msg, err := a.newest()
		failing = failing || err != nil
		if msg == nil {
			continue
		}
		if err := l.judge(ctx, a, msg); err != nil {
			return err
		}
	}
	if failing {
		l.alarms.raise(Alarm{Kind: AlarmAnchor, Text: "an anchor does not respond"})
	} else {
		l.alarms.over(AlarmAnchor)
	}
	if l.vault.suspended != "" {
		return ErrSuspended
	}
	return nil
}

// judge compares the tree with an anchor's note. A note that this vault did not
// sign suspends the ledger.
func (l *Ledger) judge(ctx context.Context, a *anchored, msg []byte) error {
	if bytes.Equal(msg, a.compared) {
		return nil
	}
	c, err := evidence.OpenCheckpoint(msg, l.keys()...)
	if err == nil {
		_, err = evidence.Restores(l.c.Name, c.Origin)
	}
	if err == nil {
		err = l.compare(ctx, c, msg)
	} else if known, failed := l.explained(ctx, l.vault.tree, msg); known || failed != nil {
		err = failed
	} else {
		l.suspend(AlarmForked, "an anchor has a note that the keys of this database did not sign; accept the restore, or correct the anchor", msg)
		err = nil
	}
	if err == nil {
		a.compared = msg
	}
	return err
}

// mayFollow reports whether the tree continues a note of an anchor.
func (l *Ledger) mayFollow(ctx context.Context, a *anchored, msg []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.judge(ctx, a, msg) == nil && l.vault.suspended == ""
}

// explained reports whether an accepted restore in the vault's tree names a note.
func (l *Ledger) explained(ctx context.Context, vault storage.Tree, msg []byte) (bool, error) {
	return l.has(ctx, vault, storage.EventQuery{About: &storage.ID{}}, func(e *evidence.Event) bool {
		return e.Kind == evidence.EventRestored && slices.Contains(e.Notes, string(msg))
	})
}

// signTree signs a note over the vault's tree, unless the newest note already
// covers it up to a size. The tree is already stored. The note is published after it is
// stored too.
func (l *Ledger) signTree(ctx context.Context, want int64) ([]byte, error) {
	v := &l.vault
	c := evidence.Checkpoint{Origin: v.origin, Size: v.tree.Size, Root: evidence.Hash(v.tree.Root)}
	covered := v.state.Signed >= want
	if covered && c != v.signed { // another process may have signed it
		if err := l.recallNote(ctx, v.state.Signed+1); err != nil {
			return nil, err
		}
		if v.suspended != "" || v.signed.Size != v.state.Signed {
			return nil, ErrSuspended
		}
	}
	if v.note != nil && (covered || c == v.signed) {
		l.publish()
		return v.note, nil
	}
	msg, err := c.Sign(l.signers()...)
	if err != nil {
		return nil, err
	}
	stored, st := storage.Checkpoint{Size: c.Size, Note: msg, At: l.c.Now().UTC()}, v.state
	st.Revision++
	st.addNote(&stored)
	change := &storage.TreeChange{Was: v.tree, Tree: v.tree, Checkpoint: &stored}
	if change.Tree.State, err = l.sealState(ctx, &v.tree, &st); err != nil {
		return nil, err
	}
	if err := l.c.Store.WriteTree(ctx, change); err != nil {
		return nil, err
	}
	v.tree, v.state = change.Tree, st
	v.signed, v.note, v.signedAt = c, msg, stored.At
	l.rounds.hasSigned()
	l.publish()
	return msg, nil
}

// publish sends the newest note to the anchors that do not have it, whichever node
// signed it.
func (l *Ledger) publish() {
	for _, a := range l.anchors {
		if msg, _ := a.newest(); !bytes.Equal(msg, l.vault.note) {
			a.kick(l.vault.note)
		}
	}
}

// grown is a tree that needs a new head, with its state.
type grown struct {
	storage.Tree
	state state
}

// changed returns the trees whose newest head may be out of date, and the trees
// of always. A tree that does not extend its newest head is left out, with an
// alarm, because a note must not vouch for it.
func (l *Ledger) changed(ctx context.Context, always []uuid.UUID) (all []grown, err error) {
	for tree, err := range l.storedTrees(ctx) {
		if err != nil {
			return nil, err
		}
		tenant := uuid.UUID(tree.Tenant)
		h, err := l.headOf(tenant)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if h.begun && h.size == tree.Size && h.state == stateHash(tree.State) && !slices.Contains(always, tenant) {
			continue
		}
		// The row is read after the head and the cache: see open.
		t, known := grown{}, l.cachedTree(tenant)
		if t.Tree, err = l.tree(ctx, tenant); err == nil {
			err = l.openState(ctx, &t.Tree, &t.state)
		}
		if err == nil {
			_, err = l.catchUp(ctx, &t.Tree, &t.state, known, h)
		}
		switch {
		case err == nil:
			all = append(all, t)
		case !errors.Is(err, ErrTampered) && !errors.Is(err, ErrGone):
			return nil, err
		}
	}
	return all, nil
}

// fresh returns the events for trees whose newest heads do not have their current
// state.
func (l *Ledger) fresh(trees []grown) (events []evidence.Event) {
	for i := range trees {
		t := &trees[i]
		tenant, is := uuid.UUID(t.Tenant), stateHash(t.State)
		h := l.vault.tenants.head(tenant)
		if _, gone := l.vault.tenants.deleted[tenant]; gone || h.begun && h.revision >= t.state.Revision {
			continue
		}
		if !h.begun {
			events = append(events, evidence.Event{Kind: evidence.EventBegun, Tenant: tenant, Import: t.state.Imports})
			h.closed = !t.state.Imports
		}
		if !h.closed && t.state.Until == nil {
			events = append(events, evidence.Event{Kind: evidence.EventImported, Tenant: tenant, Count: t.state.Imported})
		}
		events = append(events, evidence.Event{
			Kind: evidence.EventHead, Tenant: tenant, Size: t.Size, Root: evidence.Hash(t.Root), Revision: t.state.Revision, State: is,
		})
	}
	return events
}
