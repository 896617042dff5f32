package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// about appends events about a tenant, each of which names the one before it, and
// then changes the tenant's tree row, which names the last. amend sets what else
// the change does. After a crash between the two, the events have no effect.
func (l *Ledger) about(ctx context.Context, tenant uuid.UUID, events []evidence.Event, amend func(*growth)) error {
	for attempt := 0; ; attempt++ {
		s, err := l.open(ctx, tenant)
		if err != nil {
			return err
		}
		prev := s.state.Last
		last, err := l.recordAbout(ctx, prev, events)
		if err != nil {
			return err
		}
		err = l.linkEvents(ctx, tenant, prev, last, amend)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return err
	}
}

// recordAbout appends events to the vault's tree, and returns one more than the
// index of the last.
func (l *Ledger) recordAbout(ctx context.Context, prev int64, events []evidence.Event) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, err := l.record(ctx, false, func() []evidence.Event {
		next := l.vault.tree.Size
		for i := range events {
			if events[i].Prev = prev; i > 0 {
				events[i].Prev = next + int64(i)
			}
		}
		return events
	})
	return index + int64(len(events)), err
}

// linkEvents changes the row of a tenant's tree, however it has grown meanwhile.
// ErrStale means that another event has come between.
func (l *Ledger) linkEvents(ctx context.Context, tenant uuid.UUID, prev, last int64, amend func(*growth)) error {
	for attempt := 0; ; attempt++ {
		s, err := l.open(ctx, tenant)
		if err != nil {
			return err
		}
		if s.state.Last != prev {
			return storage.ErrStale
		}
		s.state.Last = last
		amend(s)
		_, err = s.write(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return err
	}
}

// Retain allows the deletion of a tenant's entries from before a time, and deletes
// the leaves of the blocks that hold no others. It returns the time before which
// entries may be deleted: whole hours, so that an hour needs one event at most.
// The caller deletes no entry of a later time.
func (l *Ledger) Retain(ctx context.Context, tenant uuid.UUID, before time.Time) (time.Time, error) {
	cutoff := before.UTC().Truncate(time.Hour)
	if _, err := l.Sequence(ctx, tenant); err != nil {
		return time.Time{}, err
	}
	s, err := l.open(ctx, tenant)
	if err != nil {
		return time.Time{}, err
	}
	if s.state.Cutoff >= cutoff.UnixMilli() {
		return time.UnixMilli(s.state.Cutoff).UTC(), nil
	}
	below, err := s.prunable(ctx, cutoff.UnixMilli())
	if err != nil {
		return time.Time{}, err
	}
	e := evidence.Event{Kind: evidence.EventPruned, Tenant: tenant, Below: below, Cutoff: cutoff.UnixMilli()}
	err = l.about(ctx, tenant, []evidence.Event{e}, func(s *growth) {
		s.state.Pruned, s.state.Cutoff = max(s.state.Pruned, below), max(s.state.Cutoff, cutoff.UnixMilli())
		s.change.PruneBelow = below
	})
	return cutoff, err
}

// prunable returns the index of the first block that has an entry of a time or
// later, or is not complete.
func (s *growth) prunable(ctx context.Context, cutoff int64) (int64, error) {
	first := s.state.Pruned
	for first+storage.LeavesPerBlock <= s.was.Size {
		part, err := s.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: s.was.Tenant, From: first, To: first + storage.LeavesPerBlock})
		if err != nil {
			return 0, err
		}
		for _, batch := range part.Leaves {
			for _, ref := range batch.Refs {
				if evidence.Millis(uuid.UUID(ref.ID)) >= cutoff {
					return first, nil
				}
			}
		}
		first += storage.LeavesPerBlock
	}
	return first, nil
}

// Erase removes the names and origins from entries of a tenant, and records that.
func (l *Ledger) Erase(ctx context.Context, tenant uuid.UUID, ids ...uuid.UUID) error {
	if _, err := l.Sequence(ctx, tenant); err != nil {
		return err
	}
	refs := make([]storage.LogRef, len(ids))
	for i, id := range ids {
		refs[i] = storage.LogRef{ID: storage.ID(id), Seq: storage.AnySeq}
	}
	rows, err := l.c.Store.LogsByRef(ctx, storage.ID(tenant), refs)
	if err != nil {
		return err
	}
	if len(rows) != len(ids) {
		return storage.ErrNotFound
	}
	var events []evidence.Event
	for i := range rows {
		left := EntryOf(&rows[i]).Redacted()
		events = append(events, evidence.Event{
			Kind: evidence.EventErased, Tenant: tenant, Entry: left.ID, After: left.Commit(tenant, evidence.Mac{}),
		})
		refs[i] = storage.LogRef{ID: rows[i].ID, Seq: rows[i].Seq}
	}
	return l.about(ctx, tenant, events, func(s *growth) { s.change.Erase = refs })
}

// RecordErasure records that a person's tokens were erased.
func (l *Ledger) RecordErasure(ctx context.Context, tenant, id uuid.UUID, reason string, count int64) error {
	e := evidence.Event{Kind: evidence.EventErasure, Tenant: tenant, ID: id, Reason: reason, Count: count}
	return l.about(ctx, tenant, []evidence.Event{e}, func(*growth) {})
}

// ErasedAgain records that the erasures which a restore had undone were applied
// again, to so many tokens.
func (l *Ledger) ErasedAgain(ctx context.Context, count int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.record(ctx, false, func() []evidence.Event {
		l.vault.state.Lacks = false
		return []evidence.Event{{Kind: evidence.EventErasedAgain, Count: count}}
	})
	return err
}

// DeleteTenant records the last head of a tenant whose log is about to be deleted.
func (l *Ledger) DeleteTenant(ctx context.Context, tenant uuid.UUID) error {
	tree, err := l.Sequence(ctx, tenant)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := evidence.Event{Kind: evidence.EventTenantDeleted, Tenant: tenant, Size: tree.Size, Root: evidence.Hash(tree.Root)}
	if _, err := l.record(ctx, false, func() []evidence.Event { return []evidence.Event{e} }); err != nil {
		return err
	}
	l.Forget(tenant)
	return nil
}

// Forget lets go of what this node knows of a tenant that is deleted.
func (l *Ledger) Forget(tenant uuid.UUID) {
	l.pending.forget(tenant)
	l.forgetTree(tenant)
}

// Watch looks for acknowledged entries that have not come into the tree in time,
// and raises alarms. Entries of reads that a crash of the database has lost are
// recorded instead.
func (l *Ledger) Watch(ctx context.Context) error {
	now := l.c.Now()
	for tenant, late := range l.pending.late(now) {
		_, err := l.Sequence(ctx, tenant)
		if errors.Is(err, ErrGone) {
			l.Forget(tenant)
			continue
		}
		if err != nil {
			return err
		}
		if err := l.watchTenant(ctx, tenant, late); err != nil {
			return err
		}
	}
	if lag, _ := l.pending.lag(now); lag >= lagAfter {
		l.alarms.raise(Alarm{Kind: AlarmLag, Text: "entries wait for more than a minute for their place in the tree"})
	} else {
		l.alarms.over(AlarmLag)
	}
	return nil
}

// watchTenant tells entries that are held back from those that are gone.
func (l *Ledger) watchTenant(ctx context.Context, tenant uuid.UUID, late []waiting) error {
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	var lost []uuid.UUID
	for _, w := range late {
		if _, waits := l.pending.commitment(tenant, w.ID); !waits {
			continue // it has come
		}
		rows, err := l.c.Store.LogsByRef(ctx, storage.ID(tenant), []storage.LogRef{{ID: storage.ID(w.ID), Seq: storage.AnySeq}})
		if err != nil {
			return err
		}
		switch {
		case len(rows) > 0: // another transaction holds it back
		case w.Relaxed && is.Started.After(w.since):
			lost = append(lost, w.ID)
		default:
			l.alarms.raise(Alarm{Kind: AlarmMissing, Tenant: tenant, Entry: w.ID, Verdict: evidence.Missing, Text: "an acknowledged entry is gone"})
			l.Failed(tenant, w.Expected)
		}
	}
	return l.recordLost(ctx, tenant, lost)
}

// maxLost bounds the entries of one event.
const maxLost = 1000

func (l *Ledger) recordLost(ctx context.Context, tenant uuid.UUID, lost []uuid.UUID) error {
	for len(lost) > 0 {
		n := min(len(lost), maxLost)
		e := evidence.Event{Kind: evidence.EventLost, Tenant: tenant, Entries: lost[:n]}
		if err := l.about(ctx, tenant, []evidence.Event{e}, func(*growth) {}); err != nil {
			return err
		}
		for _, id := range lost[:n] {
			l.Failed(tenant, Expected{ID: id})
		}
		lost = lost[n:]
	}
	return nil
}
