package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// queue hands changes to the connections that write.
//
// There is no writing goroutine and no timer. A caller that finds a free
// connection takes it and writes; the others wait, and whoever is done with a
// connection passes it, with everything that waits and fits into one statement,
// to the first of them. So changes share a commit exactly when connections are
// scarce, and a lone caller pays for nothing.
//
// The log entries of reads use one connection at a time: their commits are not
// synced, so one is fast enough, and entries that share a statement cost the
// server a fraction of what they cost alone. It is a connection of their own if
// there can be one.
type queue struct {
	mu      sync.Mutex
	free    []*slot // while one is free, nothing but logs of reads waits
	forLogs *slot   // nil when the logs of reads use what is free
	waiting []*pending
	reading bool           // logs of reads are being written
	busy    sync.WaitGroup // calls under way
	closed  bool

	// flush writes the changes of a batch and sets their errors.
	flush func(*slot, []*pending)
}

// pending is a change that waits for its outcome.
type pending struct {
	change *storage.Change
	class  class
	err    error
	// ambiguous says that a connection was lost after the change had been sent:
	// it may have been applied.
	ambiguous bool
	// refused says that a statement for several changes has passed this one
	// over, for a reason that is still to be found.
	refused bool
	turn    chan turn // nil when the change never waited
}

// turn wakes a waiting change: its error is set, or, with a slot, it is its
// turn to write the batch.
type turn struct {
	slot  *slot
	batch []*pending
}

// class says which changes may share a statement.
type class uint8

const (
	alone   class = iota // with none
	creates              // with others that create a token, or only log
	reads                // with others that only log reads
)

// maxBatch bounds the changes that share a statement.
const maxBatch = 100

func (q *queue) write(ctx context.Context, p *pending) error {
	s, err := q.enter(p)
	if err != nil {
		return err
	}
	defer q.busy.Done()
	if s != nil {
		q.lead(s, []*pending{p})
		return p.err
	}
	var t turn
	select {
	case t = <-p.turn:
	case <-ctx.Done():
		if q.leave(p) {
			return ctx.Err()
		}
		t = <-p.turn // somebody has already taken the change
	}
	if t.slot != nil {
		q.lead(t.slot, t.batch)
	}
	return p.err
}

// enter returns a free slot, or nil when the change has to wait.
func (q *queue) enter(p *pending) (*slot, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, storage.ErrClosed
	}
	q.busy.Add(1)
	if s := q.slotFor(p); s != nil {
		q.reading = q.reading || p.class == reads
		return s, nil
	}
	p.turn = make(chan turn, 1)
	q.waiting = append(q.waiting, p)
	return nil, nil
}

// slotFor takes a free slot for a change; nil when there is none.
func (q *queue) slotFor(p *pending) *slot {
	last := len(q.free) - 1
	switch {
	case p.class == reads && q.reading:
		return nil
	case p.class == reads && q.forLogs != nil:
		return q.forLogs
	case last < 0:
		return nil
	}
	s := q.free[last]
	q.free = q.free[:last]
	return s
}

// mayUse reports whether a change that waits may use a slot that is free now.
func (q *queue) mayUse(s *slot, p *pending) bool {
	if q.forLogs != nil {
		return (p.class == reads) == (s == q.forLogs)
	}
	return p.class != reads || !q.reading
}

// leave takes a change out of the queue, unless it is no longer in it.
func (q *queue) leave(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, p)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// lead writes a batch whose first change is the caller's own, wakes the
// others, and passes the slot on.
func (q *queue) lead(s *slot, batch []*pending) {
	q.flush(s, batch)
	for _, p := range batch[1:] {
		p.turn <- turn{}
	}
	q.mu.Lock()
	if batch[0].class == reads {
		q.reading = false
	}
	next := q.take(s)
	if next == nil && s != q.forLogs {
		q.free = append(q.free, s)
	}
	q.mu.Unlock()
	if next != nil {
		next[0].turn <- turn{s, next}
	}
}

// take removes the first waiting change that may use a slot, and all that may
// share a statement with it, from the queue.
func (q *queue) take(s *slot) []*pending {
	first := slices.IndexFunc(q.waiting, func(p *pending) bool { return q.mayUse(s, p) })
	if first < 0 {
		return nil
	}
	batch := []*pending{q.waiting[first]}
	q.reading = q.reading || batch[0].class == reads
	rest := q.waiting[:first]
	with := newCompany(batch[0])
	for _, p := range q.waiting[first+1:] {
		if len(batch) < maxBatch && with.accepts(p) {
			batch = append(batch, p)
		} else {
			rest = append(rest, p)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	return batch
}

// close refuses further changes, waits for those under way, and returns the
// slots, once.
func (q *queue) close() []*slot {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.busy.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	slots := q.free
	if q.forLogs != nil {
		slots = append(slots, q.forLogs)
	}
	q.free, q.forLogs = nil, nil
	return slots
}
