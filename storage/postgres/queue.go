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

// queue hands changes, and readings, to the connections that write.
//
// There is no writing goroutine. A caller that finds a free connection takes it
// and writes; the others wait, and whoever is done with a connection passes it,
// with everything that waits and fits into one statement, to the first of them.
//
// Changes that share a statement cost the server a fraction of what they cost
// alone. So a change that creates a token does not take a second connection at
// once when a statement of such changes is under way: it waits until that is
// done, until enough of them wait to be worth a statement, which is for the
// crowd to say, or until its patience is at an end. A server that is near has
// then done the statement; one that is far away, or busy with something else, is
// used through all connections. A lone caller never waits.
//
// Readings, and changes that hold nothing but log entries of reads, use one
// connection at a time: their commits are not synced, so one is fast enough. It
// is a connection of their own if there can be one.
type queue struct {
	mu       sync.Mutex
	free     []*slot
	forLogs  *slot // nil when they use what is free
	waiting  []*pending
	creating int          // statements under way that create tokens
	crowd    crowd        // who creates tokens
	watched  *pending     // waits for company, until the timer
	timer    *time.Timer  // nil before it is first needed
	expected [classes]int // how many the next statement of a class may have: of the last, and come since
	reading  bool         // a statement of readings, or of logs of reads, is under way
	// What readings wait for: the number of that statement, the one that the
	// timer is set for, and the timer, nil before it is first needed.
	statement, timed int
	slow             *time.Timer
	busy             sync.WaitGroup // calls under way
	closed           bool

	// flush does what a batch asks for and sets the errors of what is in it.
	flush func(*slot, []*pending)
}

// pending is a change, or a reading, that waits for its outcome.
type pending struct {
	change  *storage.Change // nil for a reading
	reading *reading        // nil for a change
	class   class
	err     error
	// ambiguous says that a connection was lost after the change had been sent:
	// it may have been applied.
	ambiguous bool
	// refused says that a statement for several changes has passed this one
	// over, for a reason that is still to be found.
	refused bool
	turn    chan turn // nil when the change never waited
}

// turn wakes what waits: its error is set, or, with a slot, it is its turn to
// lead the batch.
type turn struct {
	slot  *slot
	batch []*pending
}

// class says what may share a statement.
type class uint8

const (
	alone    class = iota // with none
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
	// lull is how long the next create, or reading, is waited for, a small part
	// of the time that a statement takes.
	lull = 30 * time.Microsecond
	// patience is after how long a create that waits while a connection is free
	// gets it; at most twice that.
	patience = time.Millisecond
)

func (q *queue) write(ctx context.Context, p *pending) error {
	t, err := q.enter(p)
	if err != nil {
		return err
	}
	defer q.busy.Done()
	if t.slot == nil {
		if t, err = q.await(ctx, p); err != nil {
			return err
		}
	}
	if t.slot != nil {
		if p.class == creates {
			t.batch = q.gather(t.batch)
		}
		q.lead(t.slot, t.batch)
	}
	return p.err
}

// gather adds to a batch those that are about to come, often because the
// statement before has just set them free: to wait for them takes less time than
// another statement. It stops when as many are there as were before, when they
// are enough, or when nobody has come for a while.
func (q *queue) gather(batch []*pending) []*pending {
	class := batch[0].class
	q.mu.Lock()
	expected := q.expected[class]
	if class == creates {
		expected = min(expected, q.crowd.enough())
	}
	q.expected[class] = 0
	q.mu.Unlock()
	for since := time.Now(); len(batch) < expected && time.Since(since) < lull; {
		runtime.Gosched()
		q.mu.Lock()
		before := len(batch)
		batch = q.join(batch)
		q.mu.Unlock()
		if len(batch) > before {
			since = time.Now()
		}
	}
	return batch
}

// await returns the turn of a waiting change.
func (q *queue) await(ctx context.Context, p *pending) (turn, error) {
	select {
	case t := <-p.turn:
		return t, nil
	case <-ctx.Done():
		if q.leave(p) {
			return turn{}, ctx.Err()
		}
		return <-p.turn, nil // somebody has already taken the change
	}
}

// enter returns a turn with a slot, or one without when the change has to wait.
func (q *queue) enter(p *pending) (turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return turn{}, storage.ErrClosed
	}
	q.busy.Add(1)
	if p.class == creates {
		q.crowd.come()
	}
	if s := q.slotFor(p); s != nil && (p.class != creates || q.worthwhile()) {
		return q.start(s, p), nil
	}
	p.turn = make(chan turn, 1)
	q.waiting = append(q.waiting, p)
	if p.class == readings {
		q.watchReading()
	} else {
		q.watch()
	}
	return turn{}, nil
}

// watch sees to it that the first create that waits, while a slot is free, does
// not do so for ever. There is one watch at a time: a timer for every change
// would cost more than the waiting.
func (q *queue) watch() {
	first := slices.IndexFunc(q.waiting, func(p *pending) bool { return p.class == creates })
	if q.watched != nil || first < 0 || len(q.free) == 0 {
		return
	}
	q.watched = q.waiting[first]
	if q.timer == nil {
		q.timer = time.AfterFunc(patience, q.relieve)
	} else {
		q.timer.Reset(patience)
	}
}

// relieve starts the change that was watched, if it still waits.
func (q *queue) relieve() {
	q.mu.Lock()
	p := q.watched
	q.watched = nil
	var t turn
	if i := slices.Index(q.waiting, p); i >= 0 && len(q.free) > 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		t = q.start(q.slotFor(p), p)
	}
	q.watch()
	q.mu.Unlock()
	if t.slot != nil {
		p.turn <- t
	}
}

// slotFor returns a slot that is free for a change; nil when there is none.
func (q *queue) slotFor(p *pending) *slot {
	logs := p.class == reads || p.class == readings
	switch {
	case logs && q.reading:
		return nil
	case logs && q.forLogs != nil:
		return q.forLogs
	case len(q.free) == 0:
		return nil
	default:
		return q.free[len(q.free)-1]
	}
}

// worthwhile reports whether the creates that wait should have a statement of
// their own.
func (q *queue) worthwhile() bool {
	return q.creating == 0 || q.crowd.waiting() >= q.crowd.enough()
}

// start takes a slot for a change and for all waiting ones that may share its
// statement.
func (q *queue) start(s *slot, p *pending) turn {
	if s != q.forLogs {
		q.free = slices.DeleteFunc(q.free, func(f *slot) bool { return f == s })
	}
	batch := []*pending{p}
	switch p.class {
	case creates:
		q.creating++
		q.crowd.begin(1)
	case reads, readings:
		q.reading = true
		q.statement++
	case alone:
		return turn{s, batch}
	}
	return turn{s, q.join(batch)}
}

// join moves the waiting changes that may share a statement with a batch from
// the queue to the batch.
func (q *queue) join(batch []*pending) []*pending {
	if len(q.waiting) == 0 {
		return batch
	}
	with, before, most := newCompany(batch), len(batch), batch[0].class.most()
	rest := q.waiting[:0]
	for _, w := range q.waiting {
		if len(batch) < most && with.accepts(w) {
			batch = append(batch, w)
		} else {
			rest = append(rest, w)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	if batch[0].class == creates {
		q.crowd.begin(len(batch) - before)
	}
	return batch
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
	if p.class == creates {
		q.crowd.leave()
	}
	return true
}

// lead writes a batch whose first change is the caller's own, wakes the
// others, and passes the slot on. A panic is an error of the batch: whoever
// waits is told, and the slot begins with a new connection.
func (q *queue) lead(s *slot, batch []*pending) {
	defer func() {
		if p := recover(); p != nil {
			s.reset()
			for _, c := range batch {
				c.err = fmt.Errorf("postgres: panic in a statement (%T); whether it was applied is not known", p)
			}
		}
		for _, p := range batch[1:] {
			p.turn <- turn{}
		}
		if next := q.pass(s, batch); next.slot != nil {
			next.batch[0].turn <- next
		}
	}()
	q.flush(s, batch)
}

// pass frees a slot after a batch is written, and starts the first waiting
// change that may use it.
func (q *queue) pass(s *slot, batch []*pending) turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.watch() // a create may have begun to wait when no slot was free
	class := batch[0].class
	q.expected[class] = q.mayCome(batch)
	switch class {
	case creates:
		q.creating--
		q.crowd.end(len(batch))
	case reads, readings:
		q.reading = false
	}
	if s != q.forLogs {
		q.free = append(q.free, s)
	}
	for i, p := range q.waiting {
		if q.slotFor(p) == s && (p.class != creates || q.worthwhile()) {
			q.waiting = slices.Delete(q.waiting, i, i+1)
			return q.start(s, p)
		}
	}
	return turn{}
}

// mayCome is how many the statement after a batch may have: those that it sets
// free, and those of their class that have come since.
func (q *queue) mayCome(batch []*pending) int {
	n := len(batch)
	for _, p := range q.waiting {
		if p.class == batch[0].class {
			n++
		}
	}
	return min(n, batch[0].class.most())
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
	for _, timer := range []*time.Timer{q.timer, q.slow} {
		if timer != nil {
			timer.Stop()
		}
	}
	slots := q.free
	if q.forLogs != nil {
		slots = append(slots, q.forLogs)
	}
	q.free, q.forLogs = nil, nil
	return slots
}
