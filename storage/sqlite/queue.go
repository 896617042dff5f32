package sqlite

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

const (
	maxGroupCalls = 512
	maxGroupRows  = 1024
)

// call is one caller's write.
type call struct {
	// One of these says what to do: a change, something else inside a
	// transaction, which may be run again when that had to be rolled back, or
	// something outside of any.
	change  *storage.Change
	inside  func(*writer) error
	outside func(*writer) error

	alone bool // shares its transaction with no other call
	lazy  bool // need not be synced at once
	rows  int
	since time.Time // when it came
	err   error
	done  chan struct{}
}

// relaxed reports whether the call need not be synced at once: it asks for that,
// and holds nothing but log entries. Without it, GetToken was 78 % slower at 8
// callers, and 47 % at 32 (BenchmarkGet).
func (c *call) relaxed() bool {
	return c.lazy || c.change != nil && c.change.Relaxed && c.change.Claim == nil && c.rows == len(c.change.Logs)
}

// group is the calls that share a transaction.
type group struct {
	calls []*call
	rows  int
	// more adds calls that have arrived since, and reports whether there were
	// any; nil when a group is to stay as it is.
	more func(*group) bool
}

// accepts reports whether a call may be in the group: one of bounded size, or
// of one call that must be alone.
func (g *group) accepts(c *call) bool {
	switch {
	case len(g.calls) == 0:
		return true
	case c.alone || g.calls[0].alone:
		return false
	default:
		return len(g.calls) < maxGroupCalls && g.rows+c.rows <= maxGroupRows
	}
}

// empty makes room for the next group.
func (g *group) empty() {
	clear(g.calls)
	g.calls, g.rows = g.calls[:0], 0
}

// giveUp lets go of the calls that came before a time.
func (g *group) giveUp(before time.Time, err error) {
	kept := g.calls[:0]
	for _, c := range g.calls {
		if c.since.After(before) {
			kept = append(kept, c)
			continue
		}
		c.err = err
		c.done <- struct{}{}
	}
	clear(g.calls[len(kept):])
	g.calls = kept
}

// fail sets the error of every call.
func (g *group) fail(err error) {
	for _, c := range g.calls {
		c.err = err
	}
}

// queue hands writes to the writer in groups. A caller that finds it idle runs a
// group itself. If other calls wait after that, a goroutine takes all that waits
// at once, again and again, and ends when nothing does. A call that arrives while
// the rows of a synced transaction are being written still joins it, unless it
// must be alone; one that arrives during the commit is in the next one.
//
// One transaction for all calls that wait makes 32 callers create twice as many
// tokens as one does (BenchmarkGrouping).
type queue struct {
	writer *writer

	mu      sync.Mutex
	idle    sync.Cond
	waiting []*call
	group   group // under way
	working bool  // a caller or a goroutine runs groups
	stopped bool
}

func newQueue(w *writer) *queue {
	q := &queue{writer: w}
	q.idle.L = &q.mu
	q.group.more = q.takeIn
	return q
}

var doneChannels = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// do runs a call and returns its outcome. The context counts only until the
// call waits for its turn: what waits is written.
func (q *queue) do(ctx context.Context, c call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.since = time.Now()
	c.done = doneChannels.Get().(chan struct{})
	defer doneChannels.Put(c.done)
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return storage.ErrClosed
	}
	q.waiting = append(q.waiting, &c)
	first := !q.working
	q.working = true
	q.mu.Unlock()
	if first {
		q.start()
	}
	<-c.done
	return unavailable(c.err)
}

// start begins to work. The caller runs the first group itself: to start a
// goroutine for it would cost 7 to 13 % of GetToken at 1 caller, and nothing
// that could be measured at 8 and more (BenchmarkGet).
func (q *queue) start() {
	if q.next() {
		go q.drain()
	}
}

// drain runs groups until nothing waits.
func (q *queue) drain() {
	for q.next() {
	}
}

// next runs what waits, or as much of it as fits in a group, and reports
// whether there is more to do.
func (q *queue) next() bool {
	g := &q.group
	q.mu.Lock()
	if !q.synced(q.waiting[0]) {
		// It takes in no calls later, so the callers that the group before has
		// woken may run first. That wins 19 % of GetToken at 32 callers, and 6 to
		// 7 % at 8 and 128 (BenchmarkGet).
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	q.fill(g)
	q.mu.Unlock()
	q.writer.run(g)
	for _, c := range g.calls {
		c.done <- struct{}{}
	}
	g.empty()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return true
	}
	q.working = false
	q.idle.Broadcast()
	return false
}

// synced reports whether a transaction that begins with a call waits for the
// disk when it commits.
func (q *queue) synced(first *call) bool { return !first.relaxed() && !q.writer.file.memory }

// takeIn adds the calls to a group that have arrived since its transaction
// began, which saves a sync: it wins 15 to 20 % of CreateToken at 8 callers, and
// 7 to 10 % at 32 (BenchmarkCreate). It does not wait for any: the transaction
// keeps other processes from writing. One in memory even keeps others from
// reading, and what is not synced is soon done, so both stay as they were.
func (q *queue) takeIn(g *group) bool {
	if !q.synced(g.calls[0]) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fill(g)
}

// fill moves what waits to a group, in the order in which it came, and reports
// whether it was anything.
func (q *queue) fill(g *group) bool {
	n := 0
	for n < len(q.waiting) && g.accepts(q.waiting[n]) {
		g.calls = append(g.calls, q.waiting[n])
		g.rows += q.waiting[n].rows
		n++
	}
	kept := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[kept:])
	q.waiting = q.waiting[:kept]
	return n > 0
}

// stop refuses calls from now on and waits for those under way.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	for q.working {
		q.idle.Wait()
	}
}
