package postgres

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
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
// each tenant has one for creates and one for reads under way.
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
	callers [classes]int // there were when the last statement ended
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

// maxLanes bounds the lanes that are remembered when nothing is in them.
const maxLanes = 1000

// leaveLane forgets the lane of a tenant when nothing runs or waits in it, and
// there are many.
func (q *queue) leaveLane(p *pending) {
	if len(q.lanes) > maxLanes && !p.lane.IsZero() && q.laneOf(p).running == [classes]int{} &&
		!slices.ContainsFunc(q.waiting, func(w *pending) bool { return w.lane == p.lane }) {
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
	// again says that the change may be tried again after its error, and locked
	// that another transaction held what it needs.
	again, locked bool
	until         time.Time // when its caller waits no longer
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

// left is for how long the caller of a change still waits.
func (p *pending) left() time.Duration {
	if p.until.IsZero() {
		return math.MaxInt64
	}
	return time.Until(p.until)
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
	// routedWait is createWait where tables are distributed. A transaction of
	// several statements, each of which goes on to another server, takes longer,
	// and one for four callers hardly longer than one for a single caller.
	routedWait = 25 * time.Millisecond
	// routedPause is for how long the next statement waits for the callers of the
	// last, where tables are distributed. Without it two statements alternate, each
	// for some of the callers.
	routedPause = 3 * time.Millisecond
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

var errNoTurn = fmt.Errorf("%w: all connections to the database are in use", storage.ErrUnavailable)

// await waits for the turn of a change, for as long as its caller waits.
func (q *queue) await(ctx context.Context, p *pending) (*slot, error) {
	first := p.left()
	if p.class == creates {
		first = p.patience()
	}
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		var over error
		select {
		case s := <-p.turn:
			return s, nil
		case <-ctx.Done():
			over = ctx.Err()
		case <-timer.C:
			if p.class != creates || p.overdue {
				over = errNoTurn
				break
			}
			timer.Reset(p.left())
			if s := q.startOverdue(p); s != nil {
				return s, nil
			}
			continue
		}
		if q.leave(p) {
			return nil, over
		}
		return <-p.turn, nil // a statement already has it
	}
}

// patience is for how long a create waits while a connection is free.
func (p *pending) patience() time.Duration {
	if p.lane.IsZero() {
		return createWait
	}
	return routedWait
}

// startOverdue starts a create that has run out of patience, now or, when no
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
	return l.running[creates] == 0 || p.overdue || p.lane.IsZero() && q.count(p) >= l.enough
}

// count returns how many wait that are of the class and the lane of another.
func (q *queue) count(like *pending) (n int) {
	for _, p := range q.waiting {
		if p.class == like.class && p.lane == like.lane {
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
	if !first.lane.IsZero() {
		q.expect(first)
	} else if first.class == readings {
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

// expect waits for as many callers of a tenant as there were before, for a while.
func (q *queue) expect(first *pending) {
	for end := time.Now().Add(routedPause); first.class != alone && time.Now().Before(end); sqlstore.Pause(context.Background(), routedPause/30) {
		q.mu.Lock()
		all := q.count(first)+1 >= q.laneOf(first).callers[first.class]
		q.mu.Unlock()
		if all {
			return
		}
	}
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
		callers := l.writing + q.count(first)
		l.enough = min((callers+1)/2, maxBatch)
		l.writing -= len(batch)
	}
	l.callers[first.class] = len(batch) + q.count(first)
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
