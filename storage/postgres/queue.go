package postgres

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// queue hands changes and readings to the connections that write.
//
// There is no writing goroutine. A caller that may start a statement takes a
// free connection and writes. The others wait: the caller that ends a statement
// passes its connection to the first of them that may start one, and that one
// writes everything that waits and fits into its statement.
//
// Two rules say what may start a statement while a connection is free:
//
//   - A create may while no other create is being written, or when half of the
//     callers that create tokens wait. Then two statements alternate: while the
//     server works on one, the callers of the other prepare what they create
//     next. A create that has waited for createWait may start one in any case.
//     To start a statement whenever a connection is free would cost 30 % of
//     CreateToken at 8 and at 32 callers (BenchmarkCreate).
//   - Readings, and changes that hold nothing but log entries of reads, run one
//     statement at a time, on a connection of their own if there is one. Their
//     commits are not synced, so one is fast enough.
//
// Where tables are distributed, only changes of one tenant share a statement, and
// the rules hold for each tenant by itself.
type queue struct {
	mu      sync.Mutex
	free    []*slot    // connections for changes
	forLogs *slot      // the connection for readings and logs of reads; nil when they use a free one
	waiting []*pending // in the order of arrival
	lanes   map[storage.ID]*lane
	busy    sync.WaitGroup
	closed  bool

	// flush writes a batch and sets the errors of what is in it.
	flush func(*slot, []*pending)
}

// setSchema says where the tables are that the connections write to.
func (q *queue) setSchema(schema schemaName) {
	for _, s := range q.free {
		s.schema = schema
	}
	if q.forLogs != nil {
		q.forLogs.schema = schema
	}
}

// lane is what may share statements: everything, or what one tenant asks for.
type lane struct {
	running [classes]int // statements, by class
	writing int          // creates in the running statements
	enough  int          // how many creates that wait may start another statement
}

// laneOf returns the lane of a change.
func (q *queue) laneOf(p *pending) *lane {
	l := q.lanes[p.lane]
	if l == nil {
		if q.lanes == nil {
			q.lanes = map[storage.ID]*lane{}
		}
		l = &lane{}
		q.lanes[p.lane] = l
	}
	return l
}

// leaveLane forgets the lane of a tenant when nothing runs or waits in it.
func (q *queue) leaveLane(p *pending) {
	if !p.lane.IsZero() && q.laneOf(p).running == [classes]int{} && !slices.ContainsFunc(q.waiting, func(w *pending) bool { return w.lane == p.lane }) {
		delete(q.lanes, p.lane)
	}
}

// pending is a change, or a reading, on its way through the queue.
type pending struct {
	change  *storage.Change // nil for a reading
	reading *reading        // nil for a change
	class   class
	lane    storage.ID // the tenant, where only its changes share a statement
	overdue bool       // a create that has waited for createWait
	err     error
	// locked says that another transaction held what the change needs, and
	// deadline until when it is tried again.
	locked   bool
	deadline time.Time
	// ambiguous says that a connection was lost after the change had been sent:
	// it may have been applied.
	ambiguous bool
	// refused says that a statement for several changes has passed this one
	// over, for a reason that is still to be found.
	refused bool
	// turn ends the wait: with a slot, to write with, or with nil when the
	// outcome is set. It is nil itself when there was nothing to wait for.
	turn chan *slot
}

// class says what may share a statement.
type class uint8

const (
	alone    class = iota // with nothing
	creates               // with others that create a token, or only log
	reads                 // with others that only log reads
	readings              // with other readings
	classes
)

// most is how many of a class share a statement.
func (c class) most() int {
	if c == readings {
		return maxReadings
	}
	return maxBatch
}

const (
	// maxBatch bounds the changes that share a statement.
	maxBatch = 100
	// createWait bounds how long a create waits while a connection is free, so
	// that a statement that hangs does not hold up the others. Without it,
	// CreateToken was 41 % slower at 8 callers on a slow disk, where the server
	// syncs several commits at once, and as fast on a quick one, and at 32 and 128
	// callers (BenchmarkCreate).
	createWait = time.Millisecond
)

// write writes a change. When the context ends, a change that still waits is
// given up; one that is being written is waited for.
func (q *queue) write(ctx context.Context, p *pending) error {
	s, err := q.enter(p)
	if err != nil {
		return err
	}
	defer q.busy.Done()
	if s == nil {
		if s, err = q.await(ctx, p); err != nil {
			return err
		}
	}
	if s != nil {
		q.lead(s, p)
	}
	return p.err
}

// enter returns a slot to write with, or nil when the change has to wait.
func (q *queue) enter(p *pending) (*slot, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, storage.ErrClosed
	}
	q.busy.Add(1)
	q.waiting = append(q.waiting, p)
	s := q.start(p)
	if s == nil {
		p.turn = make(chan *slot, 1)
	}
	return s, nil
}

// await waits for the turn of a change.
func (q *queue) await(ctx context.Context, p *pending) (*slot, error) {
	var late <-chan time.Time
	if p.class == creates {
		timer := time.NewTimer(createWait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case s := <-p.turn:
			return s, nil
		case <-ctx.Done():
			if q.leave(p) {
				return nil, ctx.Err()
			}
			return <-p.turn, nil // a statement already has it
		case <-late:
			if s := q.startOverdue(p); s != nil {
				return s, nil
			}
		}
	}
}

// startOverdue starts a create that has waited for createWait, now or, when no
// connection is free, as soon as one is.
func (q *queue) startOverdue(p *pending) *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.overdue = true
	if !slices.Contains(q.waiting, p) {
		return nil // a statement already has it
	}
	return q.start(p)
}

// start gives a change that waits a slot to write with. It returns nil when the
// change has to wait on.
func (q *queue) start(p *pending) *slot {
	s := q.slotFor(p)
	if s == nil || p.class == creates && !q.mayCreate(p) {
		return nil
	}
	if s != q.forLogs {
		q.free = slices.DeleteFunc(q.free, func(f *slot) bool { return f == s })
	}
	q.laneOf(p).running[p.class]++
	q.waiting = slices.DeleteFunc(q.waiting, func(w *pending) bool { return w == p })
	return s
}

// slotFor returns a slot that is free for a change; nil when there is none.
func (q *queue) slotFor(p *pending) *slot {
	logs, l := p.class == reads || p.class == readings, q.laneOf(p)
	switch {
	case logs && l.running[reads]+l.running[readings] > 0:
		return nil
	case logs && q.forLogs != nil:
		return q.forLogs
	case len(q.free) == 0:
		return nil
	default:
		return q.free[len(q.free)-1]
	}
}

// mayCreate reports whether a create may start a statement.
func (q *queue) mayCreate(p *pending) bool {
	l := q.laneOf(p)
	return l.running[creates] == 0 || p.overdue || q.creates(p.lane) >= l.enough
}

// creates returns how many creates wait in a lane.
func (q *queue) creates(lane storage.ID) (n int) {
	for _, p := range q.waiting {
		if p.class == creates && p.lane == lane {
			n++
		}
	}
	return n
}

// gather returns the batch of a change: itself, and everything that waits and
// may share its statement.
//
// Callers that a statement of readings has woken are about to ask for their next
// token, so they may run first. That wins 24 % of GetToken at 8 callers, and
// nothing at 1, 32 and 128 (BenchmarkGet). For creates it would be a loss.
func (q *queue) gather(first *pending) []*pending {
	if first.class == readings {
		runtime.Gosched()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, rule := []*pending{first}, newBatchRule(first)
	q.waiting = slices.DeleteFunc(q.waiting, func(p *pending) bool {
		fits := len(batch) < first.class.most() && rule.accepts(p)
		if fits {
			batch = append(batch, p)
		}
		return fits
	})
	if first.class == creates {
		q.laneOf(first).writing += len(batch)
	}
	return batch
}

// leave removes a change from those that wait. It returns false when a
// statement already has it.
func (q *queue) leave(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, p)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.leaveLane(p)
	return true
}

// lead writes a change, and what may share its statement, wakes the callers of
// the others, and passes the slot on. A panic is an error of the batch; the slot
// then begins with a new connection.
func (q *queue) lead(s *slot, first *pending) {
	batch := q.gather(first)
	defer func() {
		if p := recover(); p != nil {
			s.reset()
			for _, c := range batch {
				c.err = fmt.Errorf("postgres: panic in a statement (%T); its changes may or may not have been applied", p)
			}
		}
		for _, p := range batch[1:] {
			p.turn <- nil
		}
		q.pass(s, batch)
	}()
	q.flush(s, batch)
}

// pass frees the slot of a batch that is written, and starts what may start now.
func (q *queue) pass(s *slot, batch []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := batch[0]
	l := q.laneOf(first)
	l.running[first.class]--
	if first.class == creates {
		callers := l.writing + q.creates(first.lane)
		l.enough = min((callers+1)/2, maxBatch)
		l.writing -= len(batch)
	}
	q.leaveLane(first)
	if s != q.forLogs {
		q.free = append(q.free, s)
	}
	for _, p := range slices.Clone(q.waiting) {
		if s := q.start(p); s != nil {
			p.turn <- s
		}
	}
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
