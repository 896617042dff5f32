package bench

import (
	"runtime"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// lanes spreads writes over connections. A caller that finds one free uses it;
// the others wait, and whoever is done wakes those of its group and passes the
// connection on, together with all that waits by then.
type lanes[C any] struct {
	write func(conn C, group []*storage.Change) error
	limit int  // of a group
	yield bool // lets those who were woken come back before the next group starts

	mu      sync.Mutex
	free    []C
	waiting []*job[C]
}

type job[C any] struct {
	change *storage.Change
	turn   chan turn[C]
}

// turn wakes a job: it is written, or, with a group, it is its turn to write
// that.
type turn[C any] struct {
	conn  C
	group []*job[C]
	err   error
}

func (l *lanes[C]) do(c *storage.Change) error {
	own := &job[C]{change: c}
	l.mu.Lock()
	if last := len(l.free) - 1; last >= 0 {
		conn := l.free[last]
		l.free = l.free[:last]
		l.mu.Unlock()
		return l.lead(conn, []*job[C]{own})
	}
	own.turn = make(chan turn[C], 1)
	l.waiting = append(l.waiting, own)
	l.mu.Unlock()
	t := <-own.turn
	if t.group != nil {
		return l.lead(t.conn, t.group)
	}
	return t.err
}

// lead writes a group whose first job is the caller's own.
func (l *lanes[C]) lead(conn C, group []*job[C]) error {
	changes := make([]*storage.Change, len(group))
	for i, j := range group {
		changes[i] = j.change
	}
	err := l.write(conn, changes)
	for _, j := range group[1:] {
		j.turn <- turn[C]{err: err}
	}
	if l.yield {
		runtime.Gosched()
	}
	l.pass(conn)
	return err
}

func (l *lanes[C]) pass(conn C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free = append(l.free, conn)
		return
	}
	n := min(l.limit, len(l.waiting))
	group := append([]*job[C](nil), l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	group[0].turn <- turn[C]{conn: conn, group: group}
}
