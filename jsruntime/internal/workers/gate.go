package workers

import (
	"context"
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

const (
	// maxNested is how deep runs may be nested.
	maxNested = 3
	// nestedWidth is how many runs below one outermost run may run
	// concurrently, on each level.
	nestedWidth = 4
)

// gates admit runs, with a separate gate for each depth. A run waits only for
// places of its own depth, and no run needs a place further out to finish. So
// runs that wait for each other cannot deadlock.
type gates [maxNested]*gate

// gate admits runs of one depth. It limits the runs in total, the runs of each
// tenant, and the runs that wait. Runs caused by strangers
// ([script.Program].Stranger) may use half of their tenant's places. The other
// half stays free for the tenant's own runs.
type gate struct {
	max, perTenant  int
	queue, perQueue int
	strangersQueue  int // limit of each tenant's waiting runs by strangers

	mu        sync.Mutex
	closed    bool
	total     int
	running   map[string]int // by tenant
	strangers map[string]int // runs caused by strangers, by tenant
	waiting   []*waiter
}

// visitor is a run that needs a place.
type visitor struct {
	tenant   string
	stranger bool
}

type waiter struct {
	visitor
	ready chan struct{}
	in    bool // was admitted
}

// fits reports whether a run may take a free place.
func (g *gate) fits(v visitor) bool {
	if v.stranger && g.strangers[v.tenant] >= max(1, g.perTenant/2) {
		return false
	}
	return g.running[v.tenant] < g.perTenant
}

// queueFull reports whether the queue has no room for a run.
func (g *gate) queueFull(v visitor) bool {
	mine, strangers := 0, 0
	for _, w := range g.waiting {
		if w.tenant == v.tenant {
			mine++
			if w.stranger {
				strangers++
			}
		}
	}
	return len(g.waiting) >= g.queue || mine >= g.perQueue || v.stranger && strangers >= g.strangersQueue
}

// lineage identifies the run that a context comes from. It is in the context of
// Host.Call.
type lineage struct {
	depth  int // 0 outside of runs
	family *family
}

// family holds the state that all runs below one outermost run share.
type family struct {
	mu     sync.Mutex
	levels [maxNested]chan struct{} // by depth of the caller
}

// level returns the places of one depth.
func (f *family) level(depth int) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.levels[depth] == nil {
		f.levels[depth] = make(chan struct{}, nestedWidth)
	}
	return f.levels[depth]
}

type lineageKey struct{}

// enter waits for a place. It returns a context for the host calls of the run
// and a function that releases the place.
func (g *gates) enter(ctx context.Context, p *script.Program) (context.Context, func(), error) {
	origin, nested := ctx.Value(lineageKey{}).(lineage)
	if !nested {
		origin.family = &family{}
	}
	leaveFamily, err := origin.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	gate, v := g[origin.depth], visitor{p.Tenant, p.Stranger}
	if err := gate.take(ctx, v); err != nil {
		leaveFamily()
		return nil, nil, err
	}
	origin.depth++
	return context.WithValue(ctx, lineageKey{}, origin), func() {
		gate.leave(v)
		leaveFamily()
	}, nil
}

// enter waits for siblings if there are too many to run concurrently.
func (l lineage) enter(ctx context.Context) (leave func(), err error) {
	switch l.depth {
	case 0:
		return func() {}, nil
	case maxNested:
		return nil, node.StopError(script.Depth)
	}
	level := l.family.level(l.depth)
	select {
	case level <- struct{}{}:
		return func() { <-level }, nil
	case <-ctx.Done():
		return nil, script.ErrBusy
	}
}

// take takes a place, or waits for one in the queue.
func (g *gate) take(ctx context.Context, v visitor) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return script.ErrClosed
	}
	if g.total < g.max && g.fits(v) {
		g.admit(v)
		g.mu.Unlock()
		return nil
	}
	if g.queueFull(v) {
		g.mu.Unlock()
		return script.ErrBusy
	}
	w := &waiter{visitor: v, ready: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.ready:
		if !w.in {
			return script.ErrClosed
		}
		return nil
	case <-ctx.Done():
		return g.abandon(ctx, w)
	}
}

// abandon removes a waiter whose context has ended from the queue. If its
// deadline passed, the caller may try again later.
func (g *gate) abandon(ctx context.Context, w *waiter) error {
	g.mu.Lock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 && w.in {
		g.leave(w.visitor)
	}
	if ctx.Err() == context.Canceled {
		return ctx.Err()
	}
	return script.ErrBusy
}

func (g *gate) admit(v visitor) {
	if g.running == nil {
		g.running, g.strangers = map[string]int{}, map[string]int{}
	}
	g.total++
	g.running[v.tenant]++
	if v.stranger {
		g.strangers[v.tenant]++
	}
}

// leave releases a place and admits the next run: the oldest run of the waiting
// tenant with the fewest running ones.
func (g *gate) leave(v visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	countDown(g.running, v.tenant)
	if v.stranger {
		countDown(g.strangers, v.tenant)
	}
	best := -1
	for i, w := range g.waiting {
		if g.fits(w.visitor) && (best < 0 || g.running[w.tenant] < g.running[g.waiting[best].tenant]) {
			best = i
		}
	}
	if best >= 0 && g.total < g.max {
		w := g.waiting[best]
		g.waiting = slices.Delete(g.waiting, best, best+1)
		g.admit(w.visitor)
		w.in = true
		close(w.ready)
	}
}

// countDown lowers a counter and removes it at zero.
func countDown(counters map[string]int, tenant string) {
	if counters[tenant]--; counters[tenant] == 0 {
		delete(counters, tenant)
	}
}

func (g *gates) close() {
	for _, gate := range g {
		gate.close()
	}
}

// waiting counts the waiting runs of all depths.
func (g *gates) waiting() int {
	n := 0
	for _, gate := range g {
		gate.mu.Lock()
		n += len(gate.waiting)
		gate.mu.Unlock()
	}
	return n
}

// close rejects all runs from now on, including waiting ones.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, w := range g.waiting {
		close(w.ready)
	}
	g.waiting = nil
}
