//go:build !race

package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// grouping distributes writes over connections. A caller uses a free
// connection, unless another connection is in use and fewer than half of the
// usual number of callers wait. Otherwise it waits. When a caller has finished,
// it wakes the callers of its group. If enough jobs wait, it passes the
// connection and these jobs to the first of their callers.
type grouping[C any] struct {
	// write writes a group, and everything that more returns, in one
	// transaction.
	write func(conn C, group []*storage.Change, more func() []*storage.Change) error
	limit int           // jobs in a group
	late  bool          // jobs that arrive during the write join the group
	gap   time.Duration // time to wait for the next woken caller

	mu      sync.Mutex
	free    []C
	used    int // connections in use
	here    int // callers inside do
	usual   int // number of callers, in sixteenths
	last    int // jobs in the last group, plus later arrivals
	waiting []*job[C]
}

type job[C any] struct {
	change *storage.Change
	wake   chan wake[C]
}

// wake ends a job's wait. If it has a group, the job's caller must write the
// group. Otherwise the job is done.
type wake[C any] struct {
	conn  C
	group []*job[C]
	err   error
}

func (g *grouping[C]) do(c *storage.Change) error {
	own := &job[C]{change: c}
	g.mu.Lock()
	g.here++
	g.usual = max(g.usual, 16*g.here)
	if len(g.free) > 0 && (g.used == 0 || len(g.waiting)+1 >= g.enough()) {
		conn, group := g.start(own)
		g.mu.Unlock()
		return g.lead(conn, group)
	}
	own.wake = make(chan wake[C], 1)
	g.waiting = append(g.waiting, own)
	g.mu.Unlock()
	t := <-own.wake
	if t.group != nil {
		return g.lead(t.conn, t.group)
	}
	return t.err
}

// lead writes a group whose first job is the caller's.
func (g *grouping[C]) lead(conn C, group []*job[C]) error {
	group = g.gather(group)
	err := g.write(conn, changesOf(group), func() []*storage.Change {
		before := len(group)
		if g.late {
			g.mu.Lock()
			group = g.join(group)
			g.mu.Unlock()
		}
		return changesOf(group[before:])
	})
	for _, j := range group[1:] {
		j.wake <- wake[C]{err: err}
	}
	g.pass(conn, group)
	return err
}

func changesOf[C any](jobs []*job[C]) []*storage.Change {
	changes := make([]*storage.Change, len(jobs))
	for i, j := range jobs {
		changes[i] = j.change
	}
	return changes
}

func (g *grouping[C]) pass(conn C, group []*job[C]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used--
	g.here -= len(group)
	g.usual -= (g.usual + 63) / 64
	g.last = len(group) + len(g.waiting)
	g.free = append(g.free, conn)
	if len(g.waiting) == 0 || g.used > 0 && len(g.waiting) < g.enough() {
		return
	}
	first := g.waiting[0]
	g.waiting = g.waiting[1:]
	conn, group = g.start(first)
	first.wake <- wake[C]{conn: conn, group: group}
}

// enough returns the number of waiting callers that justifies a second
// connection.
func (g *grouping[C]) enough() int { return min((g.usual+31)/32, 64) }

// start takes a connection for a job and the waiting jobs.
func (g *grouping[C]) start(first *job[C]) (C, []*job[C]) {
	last := len(g.free) - 1
	conn := g.free[last]
	g.free = g.free[:last]
	g.used++
	return conn, g.join([]*job[C]{first})
}

// join moves waiting jobs to a group, up to the limit.
func (g *grouping[C]) join(group []*job[C]) []*job[C] {
	n := min(g.limit-len(group), len(g.waiting))
	group = append(group, g.waiting[:n]...)
	g.waiting = append(g.waiting[:0], g.waiting[n:]...)
	return group
}

// gather waits for woken callers to return, until the group is large enough.
func (g *grouping[C]) gather(group []*job[C]) []*job[C] {
	if g.gap == 0 {
		return group
	}
	g.mu.Lock()
	expected := min(g.last, g.enough())
	g.last = 0
	g.mu.Unlock()
	for since := time.Now(); len(group) < expected && time.Since(since) < g.gap; {
		runtime.Gosched()
		g.mu.Lock()
		before := len(group)
		group = g.join(group)
		g.mu.Unlock()
		if len(group) > before {
			since = time.Now()
		}
	}
	return group
}
