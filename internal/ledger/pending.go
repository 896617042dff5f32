package ledger

import (
	"iter"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
)

const (
	// MissingAfter is how long an acknowledged entry may take to reach the
	// tree.
	MissingAfter = 30 * time.Second
	// UnsureFor is how long the commitment of an unacknowledged entry is kept.
	// Its transaction may be the application's, or may have failed.
	UnsureFor = 10 * time.Minute
	// maxPending is the maximum number of entries that a node remembers, about 32
	// MB. Further entries are sequenced from their rows alone.
	maxPending = 1 << 18
)

// Expected is an entry that is about to be written.
type Expected struct {
	ID     uuid.UUID
	Commit evidence.Hash
	// Relaxed is set if a database crash may lose the entry.
	Relaxed bool
	// Own is set if the MAC is under the vault's own keys.
	Own bool
	// Untyped is set for a read whose entity type is not known before the write.
	// Commit is then set in the call of [Pending.Written].
	Untyped bool
}

// Known reports whether the commitment is set.
func (e *Expected) Known() bool { return e.ID != uuid.UUID{} && !e.Untyped }

// Waiting is an entry of this node that is not in the tree yet.
type Waiting struct {
	Expected
	Since time.Time // of its acknowledgement, or of its creation
	acked bool
	as    *evidence.Hash // the leaf's commitment to an untyped entry, if the entry is in the tree
	call  uint64         // of Entries.Expected that last returned it
}

// Pending are this node's entries that are not in a tree yet. The zero value is ready
// for use. Methods are safe for concurrent use.
type Pending struct {
	mu    sync.Mutex
	n     int
	calls uint64                               // of Expected
	by    map[uuid.UUID]map[uuid.UUID]*Waiting // by tenant and id
	dirty map[uuid.UUID]struct{}               // tenants with entries to sequence
	acks  [64]time.Time                        // the last acknowledgement of each of the latest seconds
}

// Expect remembers entries that are about to be written. They then enter the
// tree as this node wrote them, even if their rows are changed. Call it before
// the write begins. Report the outcome with [Pending.Written] or
// [Pending.Failed]; if you never learn the outcome, call neither.
func (p *Pending) Expect(now time.Time, tenant uuid.UUID, entries ...Expected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by, p.dirty = map[uuid.UUID]map[uuid.UUID]*Waiting{}, map[uuid.UUID]struct{}{}
	}
	p.dirty[tenant] = struct{}{}
	of := p.by[tenant]
	if of == nil {
		of = map[uuid.UUID]*Waiting{}
		p.by[tenant] = of
	}
	for _, e := range entries {
		if of[e.ID] == nil { // a write of unknown outcome is tried again
			if p.n >= maxPending {
				continue
			}
			p.n++
		}
		of[e.ID] = &Waiting{Expected: e, Since: now}
	}
}

// Written reports that entries are in the database. If they do not reach the
// tree, an alarm is raised. It returns the entries of which the tree already has
// another version.
func (p *Pending) Written(now time.Time, tenant uuid.UUID, entries ...Expected) (altered []uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty == nil {
		return nil
	}
	p.dirty[tenant] = struct{}{}
	p.acks[now.Unix()%int64(len(p.acks))] = now
	of := p.by[tenant]
	for _, e := range entries {
		w, ok := of[e.ID]
		switch {
		case !ok:
			continue
		case w.as != nil:
			if p.remove(tenant, e.ID); *w.as != e.Commit {
				altered = append(altered, e.ID)
			}
			continue
		case w.Untyped:
			w.Untyped, w.Commit = false, e.Commit
		}
		w.acked, w.Since = true, now
	}
	return altered
}

// LastBefore returns when the last entry before a time was acknowledged, in the
// last minute.
func (p *Pending) LastBefore(t time.Time) (last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.acks {
		if at.Before(t) && at.After(last) {
			last = at
		}
	}
	return last
}

// Len returns the number of entries.
func (p *Pending) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// Failed reports that entries were not written.
func (p *Pending) Failed(tenant uuid.UUID, entries ...Expected) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		p.remove(tenant, e.ID)
	}
}

func (p *Pending) remove(tenant, id uuid.UUID) {
	of := p.by[tenant]
	if _, ok := of[id]; !ok {
		return
	}
	delete(of, id)
	p.n--
	if len(of) == 0 {
		delete(p.by, tenant)
	}
}

// Waits reports whether an entry that this node wrote is not in the tree yet.
func (p *Pending) Waits(tenant, id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[tenant][id] != nil
}

// Expected returns which of n entries this node wrote. The ID of the others is zero.
// It also returns the ids of such entries that occur twice.
func (p *Pending) Expected(tenant uuid.UUID, n int, id func(i int) uuid.UUID) (found []Expected, twice []uuid.UUID) {
	found = make([]Expected, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	of := p.by[tenant]
	for i := range n {
		w := of[id(i)]
		if w == nil {
			continue
		}
		if found[i] = w.Expected; w.call == p.calls {
			twice = append(twice, w.ID)
		}
		w.call = p.calls
	}
	return found, twice
}

// Sequenced forgets entries whose leaves are in the tree, with these commitments. It
// returns the entries that the tree does not have as this node wrote them. It keeps
// an untyped entry until Written can compare it.
func (p *Pending) Sequenced(tenant uuid.UUID, leaves iter.Seq2[uuid.UUID, evidence.Hash]) (altered []uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, commit := range leaves {
		w := p.by[tenant][id]
		switch {
		case w == nil:
		case w.Untyped:
			w.as = &commit
		default:
			if p.remove(tenant, id); w.Commit != commit {
				altered = append(altered, id)
			}
		}
	}
	return altered
}

// TakeDirty returns the tenants with entries to sequence, in order. Tenants with pending
// entries stay in the set.
func (p *Pending) TakeDirty() []uuid.UUID {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := sortedIDs(p.dirty)
	clear(p.dirty)
	for tenant := range p.by { // their entries may be held back
		p.dirty[tenant] = struct{}{}
	}
	return all
}

// MarkDirty adds a tenant to those with entries to sequence.
func (p *Pending) MarkDirty(tenant uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty == nil {
		p.by, p.dirty = map[uuid.UUID]map[uuid.UUID]*Waiting{}, map[uuid.UUID]struct{}{}
	}
	p.dirty[tenant] = struct{}{}
}

// Forget drops everything about a tenant.
func (p *Pending) Forget(tenant uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n -= len(p.by[tenant])
	delete(p.by, tenant)
	delete(p.dirty, tenant)
}

// Late returns the overdue acknowledged entries by tenant. It forgets entries
// that were not acknowledged for UnsureFor.
func (p *Pending) Late(now time.Time) map[uuid.UUID][]Waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := map[uuid.UUID][]Waiting{}
	for tenant, of := range p.by {
		for _, id := range sortedIDs(of) {
			w := of[id]
			age := now.Sub(w.Since)
			switch {
			case w.acked && age >= MissingAfter:
				late[tenant] = append(late[tenant], *w)
			case !w.acked && age >= UnsureFor:
				p.remove(tenant, id)
			}
		}
	}
	return late
}

// Lag returns the age of the oldest acknowledged entry and the number of
// acknowledged entries.
func (p *Pending) Lag(now time.Time) (lag time.Duration, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.by {
		for _, w := range of {
			if w.acked {
				lag = max(lag, now.Sub(w.Since))
				n++
			}
		}
	}
	return lag, n
}
