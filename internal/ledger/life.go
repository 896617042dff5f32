package ledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// about appends events about a tenant, and then makes the change of the tenant's
// tree that they allow. If a crash happens between the two steps, the events
// allow what did not happen.
func (l *Ledger) about(ctx context.Context, tenant uuid.UUID, events []evidence.Event, amend func(*growth)) error {
	if err := l.Record(ctx, events...); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		s, err := l.open(ctx, tenant)
		if err != nil {
			return err
		}
		amend(s)
		_, err = s.write(ctx)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return err
	}
}

// Retain allows the deletion of a tenant's entries that are older than a time.
// It returns the cutoff: before, rounded down to a full hour, or a later cutoff
// of an earlier call. With full hours, each hour needs at most one event. The
// caller must not delete newer entries. Retain also deletes the leaves of
// complete blocks whose entries were deleted after an earlier call.
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
	below, checked, err := s.prunable(ctx)
	if err != nil {
		return time.Time{}, err
	}
	e := evidence.Event{Kind: evidence.EventPruned, Tenant: tenant, Below: below, Cutoff: cutoff.UnixMilli()}
	err = l.about(ctx, tenant, []evidence.Event{e}, func(s *growth) {
		s.state.Cutoff = max(s.state.Cutoff, cutoff.UnixMilli())
		if s.state.Pruned < below {
			s.state.Pruned, s.state.Checked = below, checked
			s.change.PruneBelow = below
		}
	})
	return cutoff, err
}

// prunable returns the first leaf of the first block that must stay: it is
// incomplete, has an entry at or after the cutoff, or an entry that still
// exists. It compares the heads below this leaf with the leaves, because that is
// impossible later. checked is the index after the last of these heads.
func (s *growth) prunable(ctx context.Context) (below, checked int64, err error) {
	below, checked = s.state.Pruned, s.state.Checked
	f, err := s.l.hashes(ctx, s.tenant).frontier(below)
	if err != nil {
		return 0, 0, err
	}
	next, stop := iter.Pull2(s.l.headsOf(ctx, s.tenant, checked))
	defer stop()
	head, err, more := next()
	if err != nil {
		return 0, 0, err
	}
	for ; below+storage.LeavesPerBlock <= s.was.Size; below += storage.LeavesPerBlock {
		part, err := s.l.c.Store.ReadTree(ctx, storage.TreeQuery{Tenant: s.was.Tenant, From: below, To: below + storage.LeavesPerBlock})
		if err != nil {
			return 0, 0, err
		}
		if gone, err := s.isGone(ctx, part.Leaves); err != nil || !gone {
			return below, checked, err
		}
		for i := range part.Leaves {
			for j := range part.Leaves[i].Refs {
				f.Add(leaf{&part.Leaves[i], j}.hash())
				for ; more && err == nil && head.Size <= f.Size(); head, err, more = next() {
					if head.Size == f.Size() && head.Root != f.Root() {
						return 0, 0, s.l.tampered(ctx, s.tenant, evidence.Forked, "the tree does not extend an earlier head")
					}
					checked = head.index + 1
				}
				if err != nil {
					return 0, 0, err
				}
			}
		}
	}
	return below, checked, err
}

// isGone reports whether the entries of leaves are older than the cutoff, and
// deleted.
func (s *growth) isGone(ctx context.Context, leaves []storage.Leaves) (bool, error) {
	var refs []storage.LogRef
	for i := range leaves {
		refs = append(refs, leaves[i].Refs...)
	}
	for _, ref := range refs {
		if evidence.Millis(uuid.UUID(ref.ID)) >= s.state.Cutoff {
			return false, nil
		}
	}
	rows, err := s.l.c.Store.LogsByRef(ctx, s.was.Tenant, refs)
	return len(rows) == 0, err
}

// RecordErasure records that a person's tokens were erased. An erasure that may have been
// recorded already, at since or later, is recorded once. A zero time means that it is new.
func (l *Ledger) RecordErasure(ctx context.Context, e evidence.Event, since time.Time) error {
	e.Kind = evidence.EventErasure
	if !since.IsZero() {
		if known, err := l.hasErasure(ctx, &e, since); known || err != nil {
			return err
		}
	}
	return l.Record(ctx, e)
}

// hasErasure reports whether the vault's tree has an erasure, since a time.
func (l *Ledger) hasErasure(ctx context.Context, e *evidence.Event, since time.Time) (bool, error) {
	if err := l.learn(ctx); err != nil {
		return false, err
	}
	l.mu.Lock()
	vault := l.vault.tree
	l.mu.Unlock()
	from, err := l.eventsSince(ctx, vault.Size, since.Add(-maxClockAhead))
	if err != nil {
		return false, err
	}
	about := storage.ID(e.Tenant)
	return l.has(ctx, vault, storage.EventQuery{From: from, About: &about}, func(other *evidence.Event) bool {
		return other.Kind == e.Kind && other.ID == e.ID && other.Entry == e.Entry
	})
}

// eventsSince returns the index of the first event of the vault's tree of a size at a
// time or later.
func (l *Ledger) eventsSince(ctx context.Context, size int64, at time.Time) (index int64, err error) {
	found := sort.Search(int(size), func(i int) bool {
		later := true // if the event cannot be read
		failed := l.eachEvent(ctx, storage.EventQuery{From: int64(i), To: int64(i) + 1}, func(_ int64, e *evidence.Event) {
			later = !e.Time.Before(at)
		})
		err = cmp.Or(err, failed)
		return later
	})
	return int64(found), err
}

// ErasedAgain records that the erasures which a restore had undone were applied
// again. count is the number of erased tokens.
func (l *Ledger) ErasedAgain(ctx context.Context, count int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.setStatus() // while a note is signed, callers see the last one
	return l.record(ctx, func() []evidence.Event {
		l.vault.state.Lacks = false
		return []evidence.Event{{Kind: evidence.EventErasedAgain, Count: count}}
	})
}

// DeleteTenant records the last head of a tenant whose log is about to be deleted.
// The tenant never gets another tree.
func (l *Ledger) DeleteTenant(ctx context.Context, tenant uuid.UUID) error {
	tree, err := l.Sequence(ctx, tenant)
	if errors.Is(err, ErrGone) && l.Deleted(tenant) {
		return nil
	}
	if err != nil {
		return err
	}
	e := evidence.Event{Kind: evidence.EventTenantDeleted, Tenant: tenant, Size: tree.Size, Root: evidence.Hash(tree.Root)}
	if err := l.Record(ctx, e); err != nil {
		return err
	}
	l.Forget(tenant)
	return nil
}

// Forget removes everything that this node remembers about a deleted tenant.
func (l *Ledger) Forget(tenant uuid.UUID) {
	l.pending.Forget(tenant)
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	delete(l.trees, tenant)
}

// Watch looks for acknowledged entries that did not reach the tree in time, and
// raises alarms. Entries of reads that a database crash lost are recorded
// instead. A tenant with a manipulated tree, or one whose tree cannot be written, does
// not block the others.
func (l *Ledger) Watch(ctx context.Context) error {
	now := l.c.Now()
	late := l.pending.Late(now)
	failed := l.each(slices.Values(sortedIDs(late)), func(tenant uuid.UUID) error {
		_, err := l.Sequence(ctx, tenant)
		if errors.Is(err, ErrTampered) || errors.Is(err, ErrGone) || err != nil && concernsAll(err) {
			return err
		}
		return cmp.Or(l.watchTenant(ctx, tenant, late[tenant]), err)
	})
	if failed != nil && !isOfSome(failed) {
		return failed
	}
	if lag, _ := l.pending.Lag(now); lag >= lagAfter {
		l.alarms.raise(Alarm{Kind: AlarmLag, Text: "entries wait for more than a minute for their place in the tree"})
	} else {
		l.alarms.over(AlarmLag)
	}
	return failed
}

// lagAfter is how far the tree may fall behind the log.
const lagAfter = time.Minute

// watchTenant decides whether late entries are only held back or were deleted.
func (l *Ledger) watchTenant(ctx context.Context, tenant uuid.UUID, late []Waiting) error {
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	var lost []uuid.UUID
	crash := l.pending.LastBefore(is.Started)
	for some := range slices.Chunk(late, maxStep) {
		held, err := l.written(ctx, tenant, some)
		if err != nil {
			return err
		}
		for _, w := range some {
			switch {
			case !l.pending.Waits(tenant, w.ID): // it has arrived
			case held[storage.ID(w.ID)]: // another transaction holds it back
			case w.Relaxed && is.Started.After(w.Since) && crash.Sub(w.Since) <= lostBefore:
				lost = append(lost, w.ID)
			default:
				if err := l.exists(ctx, tenant); err != nil {
					return err
				}
				l.alarms.raise(Alarm{Kind: AlarmMissing, Tenant: tenant, Entry: w.ID, Verdict: evidence.Missing, Text: "an acknowledged entry is gone"})
				l.Failed(tenant, w.Expected)
			}
		}
	}
	return l.recordLost(ctx, tenant, lost)
}

// lostBefore is how long before a crash a read was acknowledged at most, if the
// crash lost its entry.
const lostBefore = 2 * time.Second

// written returns the ids of those entries that are in the log.
func (l *Ledger) written(ctx context.Context, tenant uuid.UUID, entries []Waiting) (map[storage.ID]bool, error) {
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
	for some := range slices.Chunk(lost, maxLost) {
		if err := l.Record(ctx, evidence.Event{Kind: evidence.EventLost, Tenant: tenant, Entries: some}); err != nil {
			return err
		}
		for _, id := range some {
			l.Failed(tenant, Expected{ID: id})
		}
	}
	return nil
}
