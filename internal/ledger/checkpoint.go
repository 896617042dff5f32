package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// Checkpoint sequences the tenants that this node has written to and the given
// tenants. It records their tree heads and returns the newest note. It does not
// wait for anchors. A tenant with a manipulated tree does not block the others.
func (l *Ledger) Checkpoint(ctx context.Context, tenants ...uuid.UUID) ([]byte, error) {
	for _, tenant := range tenants {
		l.pending.markDirty(tenant)
	}
	if err := l.SequenceDirty(ctx); err != nil && !errors.Is(err, ErrTampered) {
		return nil, err
	}
	return l.sign(ctx, tenants)
}

// SequenceDirty sequences the tenants that this node has written to.
func (l *Ledger) SequenceDirty(ctx context.Context) error {
	var tampered error
	dirty := l.pending.takeDirty()
	for i, tenant := range dirty {
		_, err := l.Sequence(ctx, tenant)
		switch {
		case errors.Is(err, ErrTampered):
			tampered = err
		case errors.Is(err, ErrGone):
			l.Forget(tenant)
		case err != nil:
			for _, left := range dirty[i:] {
				l.pending.markDirty(left)
			}
			return err
		}
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

// eachTenant calls do for every tenant. A tenant with a manipulated tree does
// not block the others.
func (l *Ledger) eachTenant(ctx context.Context, do func(uuid.UUID) error) error {
	var tampered error
	for after := (uuid.UUID{}); ; {
		page, err := l.c.Tenants(ctx, after, maxTenants)
		if err != nil {
			return err
		}
		for _, tenant := range page {
			after = tenant
			err := do(tenant)
			switch {
			case errors.Is(err, ErrTampered):
				tampered = err
			case errors.Is(err, ErrGone):
				l.Forget(tenant)
			case err != nil:
				return err
			}
		}
		if len(page) < maxTenants {
			return tampered
		}
	}
}

// maxTenants is the maximum number of tenants in a page.
const maxTenants = 256

// sign records the heads of changed trees, signs a note and publishes it.
func (l *Ledger) sign(ctx context.Context, always []uuid.UUID) ([]byte, error) {
	heads, err := l.changed(ctx, always)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for attempt := 0; ; attempt++ {
		if _, err := l.record(ctx, false, func() []evidence.Event { return l.vault.fresh(heads) }); err != nil {
			return nil, err
		}
		msg, err := l.signTree(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue // another node has appended events
		}
		return msg, err
	}
}

// mayContinue compares the tree with the anchors' notes. This must happen
// before the tree grows: afterwards a restore would look like a fork.
func (l *Ledger) mayContinue(ctx context.Context) error {
	over, failing := time.After(anchorWait), false
	defer func() {
		if failing {
			l.alarms.raise(Alarm{Kind: AlarmAnchor, Text: "an anchor does not respond"})
		} else {
			l.alarms.over(AlarmAnchor)
		}
	}()
	for _, a := range l.anchors {
		a.wait(over)
		c, msg, err := a.newest()
		failing = failing || err != nil
		if c == nil || *c == a.compared {
			continue
		}
		if err := l.compare(ctx, c, msg); err != nil {
			return err
		}
		a.compared = *c
	}
	if l.vault.suspended != "" {
		return ErrSuspended
	}
	return nil
}

// signTree signs a note over the vault's tree, unless the newest note already
// covers it. The tree is already stored. The note is published after it is
// stored too.
func (l *Ledger) signTree(ctx context.Context) ([]byte, error) {
	v := &l.vault
	c := evidence.Checkpoint{Origin: v.origin, Size: v.tree.Size, Root: evidence.Hash(v.tree.Root)}
	if v.note != nil && c == v.signed {
		return v.note, nil
	}
	if v.state.Signed == c.Size { // another node has signed it
		if err := l.recallNote(ctx, c.Size+1); err != nil {
			return nil, err
		}
		if v.suspended != "" || c != v.signed {
			return nil, ErrSuspended
		}
		return v.note, nil
	}
	msg, err := c.Sign(l.signers()...)
	if err != nil {
		return nil, err
	}
	stored, st := storage.Checkpoint{Size: c.Size, Note: msg, At: l.c.Now().UTC()}, v.state
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
	for _, a := range l.anchors {
		a.kick(msg)
	}
	if l.c.Published != nil {
		l.c.Published(msg)
	}
	return msg, nil
}

// changed returns the trees whose newest head may be out of date, and the trees
// of always.
func (l *Ledger) changed(ctx context.Context, always []uuid.UUID) ([]storage.Tree, error) {
	var all []storage.Tree
	for after := (storage.ID{}); ; {
		page, err := l.c.Store.Trees(ctx, storage.TreeFilter{After: after, Limit: maxTenants})
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		for _, tree := range page {
			h, ok := l.vault.heads[uuid.UUID(tree.Tenant)]
			if ok && h.size > tree.Size {
				l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: uuid.UUID(tree.Tenant), Verdict: evidence.Truncated, Text: "a tree is smaller than its head"})
			}
			if !ok || h.size != tree.Size || h.state != stateHash(tree.State) || slices.Contains(always, uuid.UUID(tree.Tenant)) {
				all = append(all, tree)
			}
		}
		l.mu.Unlock()
		if len(page) < maxTenants {
			return l.genuine(ctx, all)
		}
		after = page[len(page)-1].Tenant
	}
}

// genuine returns the trees that the vault wrote. Other trees get no head, because
// a note must not vouch for data that the vault did not write.
func (l *Ledger) genuine(ctx context.Context, trees []storage.Tree) (all []storage.Tree, err error) {
	for i := range trees {
		err := l.openState(ctx, &trees[i], &state{})
		switch {
		case err == nil:
			all = append(all, trees[i])
		case !errors.Is(err, ErrTampered) && !errors.Is(err, ErrGone):
			return nil, err
		}
	}
	return all, nil
}

// fresh returns heads for the trees that have no head for their current state.
func (v *vaultTree) fresh(trees []storage.Tree) []evidence.Event {
	var events []evidence.Event
	for _, t := range trees {
		is := stateHash(t.State)
		if h, ok := v.heads[uuid.UUID(t.Tenant)]; ok && (h.size > t.Size || h.size == t.Size && h.state == is) {
			continue
		}
		events = append(events, evidence.Event{
			Kind: evidence.EventHead, Tenant: uuid.UUID(t.Tenant), Size: t.Size, Root: evidence.Hash(t.Root), State: is,
		})
	}
	return events
}
