package sqlstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// maxShared bounds the reads that share a transaction, so that those beyond it
// use another connection meanwhile.
const maxShared = 32

// line is where reads of single rows wait that share transactions
// ([Dialect].SharePoints). The first of them leads: it takes a connection, and
// reads for those who wait by then. Whoever is first after them leads next.
type line struct {
	inside atomic.Int64 // how many read, or wait, or write

	mu      sync.Mutex
	waiting []*sharer // the first of them leads
}

// sharer is one who waits in a line.
type sharer struct {
	read func(*lane) error
	err  error
	// turn gets true when the read is done, and false when it is the first now
	// and leads. It is nil for one who was first when it came.
	turn chan bool
}

var errShared = errors.New("storage: a read that shared the transaction has panicked")

// share runs a read in a transaction with others that come at the same time.
// The context counts until the transaction begins, and then the whole of it is
// waited for.
func (s *Store) share(ctx context.Context, read func(*lane) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	n, r := &s.line, &sharer{read: read}
	others := n.inside.Add(1) > 1
	defer n.inside.Add(-1)
	if leads := n.join(r); !leads {
		if done, err := n.await(ctx, r); done {
			return err
		}
	} else if others {
		runtime.Gosched() // lets those join who are about to
	}
	defer n.leave(r) // unless it was taken
	l, err := s.points.take(ctx)
	if err != nil {
		return err
	}
	keep := false
	defer func() { s.points.give(l, keep) }()
	keep = l.readAll(n.take(), r) == nil
	return r.err
}

// Writing tells a Store that somebody writes, until it calls the function that
// is returned: those who write at the same time will go on to read at the same
// time, so that a read which finds nobody else yields once, to let them come.
func Writing(s *Store) (done func()) {
	s.line.inside.Add(1)
	return func() { s.line.inside.Add(-1) }
}

// join puts a read in the line and reports whether it leads.
func (n *line) join(r *sharer) (leads bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, r)
	if len(n.waiting) == 1 {
		return true
	}
	r.turn = make(chan bool, 1)
	return false
}

// await waits until a read is done or leads.
func (n *line) await(ctx context.Context, r *sharer) (done bool, err error) {
	select {
	case done = <-r.turn:
	case <-ctx.Done():
		if n.leave(r) {
			return true, ctx.Err()
		}
		done = <-r.turn // somebody reads for it
	}
	return done, r.err
}

// leave takes a read out of the line. It returns false when that is too late.
func (n *line) leave(r *sharer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.waiting, r)
	if i < 0 {
		return false
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	if i == 0 {
		n.lead()
	}
	return true
}

// take takes those who share the next transaction out of the line.
func (n *line) take() []*sharer {
	n.mu.Lock()
	defer n.mu.Unlock()
	group := n.waiting
	if len(group) <= maxShared {
		n.waiting = nil
		return group
	}
	n.waiting = slices.Clone(group[maxShared:])
	n.lead()
	return group[:maxShared]
}

// lead tells whoever has become the first.
func (n *line) lead() {
	if len(n.waiting) > 0 {
		n.waiting[0].turn <- false
	}
}

// readAll reads for a group in one transaction, which one alone does without,
// and sets what became of each. After an error the transaction may be open: the
// lane must be closed. That a commit failed is no reader's concern.
func (l *lane) readAll(group []*sharer, leader *sharer) (failed error) {
	read := 0
	defer func() {
		for i, r := range group {
			if i >= read {
				r.err = errShared
			}
			if r != leader {
				r.turn <- true
			}
		}
	}()
	if len(group) > 1 {
		failed = l.run(pointBegin)
	}
	for _, r := range group {
		if r.err = failed; failed == nil {
			r.err = r.read(l)
		}
		read++
	}
	for _, r := range group {
		failed = errors.Join(failed, r.err)
	}
	if len(group) > 1 && failed == nil {
		failed = l.run(pointCommit)
	}
	return failed
}

// run runs a prepared statement that returns nothing.
func (l *lane) run(p point) error {
	_, err := l.prepared[p].Exec(context.Background())
	return err
}
