package sqlite

import (
	"context"
	"runtime"
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
	c.done = doneChannels.Get().(chan struct{})
	defer doneChannels.Put(c.done)
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return storage.ErrClosed
	}
	q.waiting = append(q.waiting, &c)
	if q.working {
		q.mu.Unlock()
		<-c.done
		return c.err
	}
	q.working = true
	q.mu.Unlock()
	q.lead()
	<-c.done
	return c.err
}

// lead runs the group of the caller that came first, and leaves what has come
// in the meantime to a goroutine.
func (q *queue) lead() {
	if q.next(nil) {
		go q.drain()
	}
}

// drain runs groups until nothing waits.
func (q *queue) drain() {
	group := make([]*call, 0, maxGroupCalls)
	for q.next(group) {
	}
}

// next runs what waits, or as much of it as fits in a group, and reports
// whether there is more to do.
//
// It lets other goroutines run first: those that are about to write, often
// because the group before has just set them free, then share this group.
func (q *queue) next(group []*call) bool {
	runtime.Gosched()
	q.mu.Lock()
	group = q.take(group)
	q.mu.Unlock()
	q.writer.run(group)
	for _, c := range group {
		c.done <- struct{}{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return true
	}
	q.working = false
	q.idle.Broadcast()
	return false
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
