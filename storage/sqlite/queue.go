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
	// lull is how long the next call is waited for, a small part of the time
	// that a synced transaction takes.
	lull = 30 * time.Microsecond
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
	rows  int
	err   error
	done  chan struct{}
}

// relaxed reports whether the call need not be synced at once: it asks for that,
// and holds nothing but log entries.
func (c *call) relaxed() bool {
	return c.change != nil && c.change.Relaxed && c.change.Claim == nil && c.rows == len(c.change.Logs)
}

// queue hands writes to the writer in groups. The first to come runs a group
// itself. If others wait by then, a goroutine takes all that waits at once,
// again and again, and ends when nothing does: what comes while a transaction
// is under way is in the next one.
type queue struct {
	writer *writer

	mu      sync.Mutex
	idle    sync.Cond
	waiting []*call
	group   []*call // under way
	working bool    // somebody runs groups
	stopped bool

	// expected is how many calls the next group may have: those of the group
	// before, whose callers may have more to write, and those that came since.
	expected int
}

func newQueue(w *writer) *queue {
	q := &queue{writer: w}
	q.idle.L = &q.mu
	return q
}

var doneChannels = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// do runs a call and returns its outcome. The context counts only until the
// call waits for its turn: what waits is written.
func (q *queue) do(ctx context.Context, c call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
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
	return c.err
}

// start begins to work. The caller runs the first group itself, which is sooner
// than a goroutine would be at work.
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
	q.gather()
	q.mu.Lock()
	group := q.take()
	q.mu.Unlock()
	q.writer.run(group)
	for i, c := range group {
		group[i] = nil
		c.done <- struct{}{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expected = len(group) + len(q.waiting)
	if len(q.waiting) > 0 {
		return true
	}
	q.working = false
	q.idle.Broadcast()
	return false
}

// gather lets those come who are about to write, often because the group before
// has just set them free: to sync once for all of them takes less time than to
// wait for them. It stops when as many wait as wrote or waited before, or when
// nobody has come for a while.
func (q *queue) gather() {
	runtime.Gosched()
	q.mu.Lock()
	expected, waiting := q.expected, len(q.waiting)
	if waiting > 0 && q.waiting[0].relaxed() {
		expected = 0 // a commit that is not synced is not worth the wait
	}
	q.expected = 0
	q.mu.Unlock()
	for since := time.Now(); waiting < expected && time.Since(since) < lull; {
		runtime.Gosched()
		q.mu.Lock()
		if len(q.waiting) > waiting {
			waiting, since = len(q.waiting), time.Now()
		}
		q.mu.Unlock()
	}
}

// take moves the next group out of the queue: as many calls as fit in a
// transaction of bounded size, or one that must be alone.
func (q *queue) take() []*call {
	rows, group := 0, q.group[:0]
	for _, c := range q.waiting {
		full := len(group) == maxGroupCalls || rows+c.rows > maxGroupRows || c.alone
		if len(group) > 0 && full {
			break
		}
		group = append(group, c)
		rows += c.rows
		if c.alone {
			break
		}
	}
	kept := copy(q.waiting, q.waiting[len(group):])
	clear(q.waiting[kept:])
	q.waiting, q.group = q.waiting[:kept], group
	return group
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
