package admission

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turns gives places to requests, and to those of one tenant only some of them.
// Tenants that wait come in rotation.
type turns struct {
	places, each int
	patience     time.Duration // how long a request waits; 0 for as long as it takes
	queued       atomic.Int32  // requests that wait

	mu      sync.Mutex
	busy    int
	tenants map[payer]*line // of those that have or want a turn
	next    []*line         // tenants that wait, the next one first
}

// line is the requests of one tenant.
type line struct {
	tenant  payer
	busy    int
	waiting []chan struct{}
}

// enter waits for a turn.
func (t *turns) enter(ctx context.Context, tenant payer) error {
	turn := t.line(tenant)
	var over <-chan time.Time
	if t.patience > 0 {
		timer := time.NewTimer(t.patience)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-turn:
		return nil
	case <-over:
		return t.giveUp(tenant, turn, ErrFull)
	case <-ctx.Done():
		return t.giveUp(tenant, turn, ctx.Err())
	}
}

// line puts a request at the end of its tenant's line, and returns what is
// closed when it has its turn.
func (t *turns) line(tenant payer) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tenants[tenant]
	if l == nil {
		l = &line{tenant: tenant}
		t.tenants[tenant] = l
	}
	turn := make(chan struct{})
	if l.waiting = append(l.waiting, turn); len(l.waiting) == 1 {
		t.next = append(t.next, l)
	}
	t.queued.Add(1)
	t.admit()
	return turn
}

// admit gives the places that are free.
func (t *turns) admit() {
	for t.busy < t.places {
		i := slices.IndexFunc(t.next, func(l *line) bool { return l.busy < t.each })
		if i < 0 {
			return
		}
		l := t.next[i]
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		t.next = slices.Delete(t.next, i, i+1)
		if len(l.waiting) > 0 {
			t.next = append(t.next, l)
		}
		l.busy++
		t.busy++
		t.queued.Add(-1)
	}
}

// leave ends a turn.
func (t *turns) leave(tenant payer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tenants[tenant]
	l.busy--
	t.busy--
	t.forget(l)
	t.admit()
}

// giveUp takes a request out of its line. A turn that came at the last moment is
// passed on.
func (t *turns) giveUp(tenant payer, turn chan struct{}, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tenants[tenant]
	i := slices.Index(l.waiting, turn)
	if i < 0 {
		l.busy--
		t.busy--
	} else {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		t.queued.Add(-1)
	}
	if len(l.waiting) == 0 {
		t.next = slices.DeleteFunc(t.next, func(other *line) bool { return other == l })
	}
	t.forget(l)
	t.admit()
	return err
}

// forget drops the line of a tenant that has and wants no turn.
func (t *turns) forget(l *line) {
	if l.busy == 0 && len(l.waiting) == 0 {
		delete(t.tenants, l.tenant)
	}
}

// wanted reports whether another tenant waits for a turn of this one.
func (t *turns) wanted(tenant payer) bool {
	if t.queued.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.next, func(l *line) bool { return l.tenant != tenant && l.busy < t.each })
}
