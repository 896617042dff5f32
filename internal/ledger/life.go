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

// about appends events about a tenant, each with a link to the one before it.
// It then links the last event in the tenant's tree row. amend makes the other
// changes of that row. If a crash happens between the two steps, the events
// have no effect.
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

// recordAbout appends events to the vault's tree. It returns the index of the
// last event, plus one.
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

// linkEvents changes the row of a tenant's tree, even if the tree has grown
// since it was read. ErrStale means that another event was linked first.
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

// Retain allows the deletion of a tenant's entries that are older than a time.
// It deletes the leaves of complete blocks with only such entries. It returns
// the cutoff: before, rounded down to a full hour, or a later cutoff of an
// earlier call. With full hours, each hour needs at most one event. The caller
// must not delete newer entries.
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

// prunable returns the first leaf of the first block that is incomplete, or has
// an entry at or after the cutoff.
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

// Erase removes names and origins from entries of a tenant, and records this in
// an event.
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
// again. count is the number of erased tokens.
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

// Forget removes everything that this node remembers about a deleted tenant.
func (l *Ledger) Forget(tenant uuid.UUID) {
	l.pending.forget(tenant)
	l.forgetTree(tenant)
}

// Watch looks for acknowledged entries that did not reach the tree in time, and
// raises alarms. Entries of reads that a database crash lost are recorded
// instead. A tenant with a manipulated tree does not block the others.
func (l *Ledger) Watch(ctx context.Context) error {
	var tampered error
	now := l.c.Now()
	for tenant, late := range l.pending.late(now) {
		_, err := l.Sequence(ctx, tenant)
		if err == nil {
			err = l.watchTenant(ctx, tenant, late)
		}
		switch {
		case errors.Is(err, ErrTampered):
			tampered = err
		case errors.Is(err, ErrGone):
			l.Forget(tenant)
		case err != nil:
			return err
		}
	}
	if lag, _ := l.pending.lag(now); lag >= lagAfter {
		l.alarms.raise(Alarm{Kind: AlarmLag, Text: "entries wait for more than a minute for their place in the tree"})
	} else {
		l.alarms.over(AlarmLag)
	}
	return tampered
}

// watchTenant decides whether late entries are only held back or were deleted.
func (l *Ledger) watchTenant(ctx context.Context, tenant uuid.UUID, late []waiting) error {
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	var lost []uuid.UUID
	for some := range slices.Chunk(late, maxStep) {
		held, err := l.written(ctx, tenant, some)
		if err != nil {
			return err
		}
		for _, w := range some {
			_, waits := l.pending.commitment(tenant, w.ID)
			switch {
			case !waits: // it has arrived
			case held[storage.ID(w.ID)]: // another transaction holds it back
			case w.Relaxed && is.Started.After(w.since):
				lost = append(lost, w.ID)
			default:
				l.alarms.raise(Alarm{Kind: AlarmMissing, Tenant: tenant, Entry: w.ID, Verdict: evidence.Missing, Text: "an acknowledged entry is gone"})
				l.Failed(tenant, w.Expected)
			}
		}
	}
	return l.recordLost(ctx, tenant, lost)
}

// written returns the ids of those entries that are in the log.
func (l *Ledger) written(ctx context.Context, tenant uuid.UUID, entries []waiting) (map[storage.ID]bool, error) {
	refs := make([]storage.LogRef, len(entries))
	for i := range entries {
		refs[i] = storage.LogRef{ID: storage.ID(entries[i].ID), Seq: storage.AnySeq}
	}
	rows, err := l.c.Store.LogsByRef(ctx, storage.ID(tenant), refs)
	found := make(map[storage.ID]bool, len(rows))
	for i := range rows {
		found[rows[i].ID] = true
	}
	return found, err
}

// maxLost is the maximum number of entries in one event.
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
