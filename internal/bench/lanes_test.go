package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// lanes spreads writes over connections. A caller that finds one free uses it,
// unless another is in use and fewer wait than half of those who are usually
// there; the others wait, and whoever is done wakes those of its group and
// passes the connection on, together with all that waits by then.
type lanes[C any] struct {
	// write writes a group, and what more returns, in one transaction.
	write func(conn C, group []*storage.Change, more func() []*storage.Change) error
	limit int           // of a group
	late  bool          // a group takes in who comes while it is written
	lull  time.Duration // how long one waits for the next of those who were woken

	mu      sync.Mutex
	free    []C
	used    int // connections
	here    int // callers
	usual   int // callers, in sixteenths
	last    int // jobs of the last group, and those that came since
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
	l.here++
	l.usual = max(l.usual, 16*l.here)
	if len(l.free) > 0 && (l.used == 0 || len(l.waiting)+1 >= l.enough()) {
		conn, group := l.start(own)
		l.mu.Unlock()
		return l.lead(conn, group)
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
	group = l.gather(group)
	err := l.write(conn, changesOf(group), func() []*storage.Change {
		before := len(group)
		if l.late {
			l.mu.Lock()
			group = l.join(group)
			l.mu.Unlock()
		}
		return changesOf(group[before:])
	})
	for _, j := range group[1:] {
		j.turn <- turn[C]{err: err}
	}
	l.pass(conn, group)
	return err
}

func changesOf[C any](jobs []*job[C]) []*storage.Change {
	changes := make([]*storage.Change, len(jobs))
	for i, j := range jobs {
		changes[i] = j.change
	}
	return changes
}

func (l *lanes[C]) pass(conn C, group []*job[C]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	l.here -= len(group)
	l.usual -= (l.usual + 63) / 64
	l.last = len(group) + len(l.waiting)
	l.free = append(l.free, conn)
	if len(l.waiting) == 0 || l.used > 0 && len(l.waiting) < l.enough() {
		return
	}
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	conn, group = l.start(first)
	first.turn <- turn[C]{conn: conn, group: group}
}

// enough is how many that wait are worth a second connection.
func (l *lanes[C]) enough() int { return min((l.usual+31)/32, 64) }

// start takes a connection for a job and those that wait.
func (l *lanes[C]) start(first *job[C]) (C, []*job[C]) {
	last := len(l.free) - 1
	conn := l.free[last]
	l.free = l.free[:last]
	l.used++
	return conn, l.join([]*job[C]{first})
}

// join moves jobs that wait to a group.
func (l *lanes[C]) join(group []*job[C]) []*job[C] {
	n := min(l.limit-len(group), len(l.waiting))
	group = append(group, l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	return group
}

// gather waits for those who were woken, as many as are enough.
func (l *lanes[C]) gather(group []*job[C]) []*job[C] {
	if l.lull == 0 {
		return group
	}
	l.mu.Lock()
	expected := min(l.last, l.enough())
	l.last = 0
	l.mu.Unlock()
	for since := time.Now(); len(group) < expected && time.Since(since) < l.lull; {
		runtime.Gosched()
		l.mu.Lock()
		before := len(group)
		group = l.join(group)
		l.mu.Unlock()
		if len(group) > before {
			since = time.Now()
		}
	}
	return group
}
