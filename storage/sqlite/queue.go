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
	// One of these is set: a change, a function to run inside a transaction, or
	// a function to run outside of any. inside may run again if its transaction
	// is rolled back.
	change  *storage.Change
	inside  func(*writer) error
	outside func(*writer) error

	alone bool // shares its transaction with no other call
	lazy  bool // need not be synced at once
	rows  int
	since time.Time // when it arrived
	err   error
	done  chan struct{}
}

// relaxed reports whether the call need not be synced at once. It must have
// only log entries, and set Relaxed. Without this, GetToken was 78 % slower at
// 8 callers, and 47 % at 32 (BenchmarkGet).
func (c *call) relaxed() bool {
	return c.lazy || c.change != nil && c.change.Relaxed && c.change.Claim == nil && c.rows == len(c.change.Logs)
}

// group is a set of calls that share a transaction.
type group struct {
	calls []*call
	rows  int
	// more adds calls that have arrived since and reports whether there were
	// any. It is nil if the group must not grow.
	more func(*group) bool
}

// accepts reports whether a call may join the group. A group has limited size,
// or a single call that must be alone.
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

// giveUp ends the calls that arrived before a time.
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

// queue hands writes to the writer in groups. A caller that finds the queue
// idle runs a group itself. If other calls are then waiting, a goroutine runs
// them in groups until none are left.
//
// A call that arrives while the rows of a synced transaction are being written
// still joins it, unless it must be alone. A call that arrives during the
// commit joins the next transaction.
//
// With one transaction for all waiting calls, 32 callers create twice as many
// tokens as one caller.
type queue struct {
	writer *writer

	mu      sync.Mutex
	idle    sync.Cond
	waiting []*call
	group   group // running
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

// do runs a call and returns its outcome. Once the call is waiting, it will be
// written, even if the context ends.
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
	// The caller runs the first group itself. Starting a goroutine for it would make
	// GetToken 7 to 13 % slower at 1 caller, with no measurable effect at 8 and more
	// (BenchmarkGet).
	if first && q.next() {
		go func() {
			for q.next() { // until nothing is waiting
			}
		}()
	}
	<-c.done
	return unavailable(c.err)
}

// next runs the waiting calls, or as many as fit in a group, and reports
// whether there is more to do.
func (q *queue) next() bool {
	g := &q.group
	q.mu.Lock()
	if !q.synced(q.waiting[0]) {
		// No calls can join this group later, so let the callers woken by the
		// previous group run first. This makes GetToken 19 % faster at 32
		// callers, and 6 to 7 % at 8 and 128 (BenchmarkGet).
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
	clear(g.calls)
	g.calls, g.rows = g.calls[:0], 0
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return true
	}
	q.working = false
	q.idle.Broadcast()
	return false
}

// synced reports whether a transaction that starts with this call waits for the
// disk when it commits.
func (q *queue) synced(first *call) bool { return !first.relaxed() && !q.writer.file.memory }

// takeIn adds calls to a group that have arrived since its transaction began,
// which saves a sync. This makes CreateToken 15 to 20 % faster at 8 callers,
// and 7 to 10 % at 32 (BenchmarkCreate).
//
// It does not wait for calls, because the transaction blocks other processes
// from writing. A transaction in memory even blocks readers, and an unsynced
// transaction ends soon, so neither takes in more calls.
func (q *queue) takeIn(g *group) bool {
	if !q.synced(g.calls[0]) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fill(g)
}

// fill moves waiting calls to a group, in order of arrival, and reports whether
// there were any.
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

// stop rejects further calls and waits for running ones.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	for q.working {
		q.idle.Wait()
	}
}
