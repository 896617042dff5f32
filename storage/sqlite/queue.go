package sqlite

import (
	"context"
	"sync"

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
	rows  int
	err   error
	done  chan struct{}
}

// queue hands writes to the writer in groups. Whoever comes while nobody is at
// work does the work: a caller that is alone runs its own write. What has come
// in the meantime is left to a goroutine that takes all that waits at once, and
// ends when nothing does.
type queue struct {
	writer *writer

	mu      sync.Mutex
	idle    sync.Cond
	waiting []*call
	working bool
	stopped bool
}

func newQueue(w *writer) *queue {
	q := &queue{writer: w}
	q.idle.L = &q.mu
	return q
}

var doneChannels = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// do runs a call and returns its outcome. The context counts until then.
func (q *queue) do(ctx context.Context, c call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return storage.ErrClosed
	}
	if !q.working {
		q.working = true
		q.mu.Unlock()
		q.writer.run([]*call{&c})
		q.handOver()
		return c.err
	}
	c.done = doneChannels.Get().(chan struct{})
	q.waiting = append(q.waiting, &c)
	q.mu.Unlock()
	<-c.done
	doneChannels.Put(c.done)
	return c.err
}

// handOver leaves what waits to a goroutine.
func (q *queue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		go q.drain()
		return
	}
	q.rest()
}

// rest ends the work. The lock is held.
func (q *queue) rest() {
	q.working = false
	q.idle.Broadcast()
}

func (q *queue) drain() {
	var group []*call
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.rest()
			q.mu.Unlock()
			return
		}
		group = q.take(group[:0])
		q.mu.Unlock()
		q.writer.run(group)
		for _, c := range group {
			c.done <- struct{}{}
		}
	}
}

// take moves the next group out of the queue: as many calls as fit in a
// transaction of bounded size, or one that must be alone.
func (q *queue) take(group []*call) []*call {
	rows := 0
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
	q.waiting = q.waiting[:kept]
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
