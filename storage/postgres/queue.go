package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// queue hands changes and readings to the connections that write.
//
// There is no writer goroutine. A caller that may start a statement takes a
// free connection and writes. Other callers wait. A caller that ends a
// statement passes its connection to the first waiting caller that may start
// one. That caller writes everything that waits and fits into its statement.
//
// Two rules decide what may start a statement while a connection is free:
//
//   - A create may start one if no other create is running, or if half of the
//     callers that create tokens are waiting. Then two statements alternate: while
//     the server works on one, the callers of the other prepare their next create.
//     A create that has waited for createWait may always start one. Starting a
//     statement whenever a connection is free would make CreateToken 30 % slower
//     at 8 and at 32 callers (BenchmarkCreate).
//   - Readings and changes that only log reads run one statement at a time, on
//     their own connection if there is one. Their commits are not synced, so one
//     connection is fast enough.
//
// If tables are distributed, only changes of one tenant share a statement. Each
// tenant then has at most one running statement for creates and one for reads.
type queue struct {
	mu      sync.Mutex
	free    []*writer  // connections for changes
	forLogs *writer    // the connection for readings and logs of reads; nil if they use a free one
	waiting []*pending // in order of arrival
	lanes   map[storage.ID]*lane
	used    map[int32]int // connections in use for the tenants of each server
	timer   *time.Timer   // calls look; nil before the first use
	next    time.Time     // when the timer fires; zero if it is not running
	busy    sync.WaitGroup
	closed  bool
	pace    citus.Pace

	// flush writes a batch and sets the error of each item.
	flush func(*writer, []*pending)
}

// setSchema sets the schema of the tables that the connections write to.
func (q *queue) setSchema(schema schemaName) {
	for _, s := range q.free {
		s.schema = schema
	}
	if q.forLogs != nil {
		q.forLogs.schema = schema
	}
}

// lane groups items that may share statements: all items, or the items of one
// tenant.
type lane struct {
	waiting [classes]int // waiting items, by class
	running [classes]int // running statements, by class
	leading bool         // a create has started and is about to take the waiting ones
	writing int          // creates in the running statements
	enough  int          // how many waiting creates may start another statement
	callers [classes]int // number of callers when the last statement ended
}

// laneOf returns the lane of a change.
func (q *queue) laneOf(p *pending) *lane {
	l := q.lanes[p.Lane]
	if l == nil {
		if q.lanes == nil {
			q.lanes = map[storage.ID]*lane{}
		}
		l = &lane{}
		q.lanes[p.Lane] = l
	}
	return l
}

// maxLanes is the number of lanes above which empty lanes are deleted.
const maxLanes = 1000

// leaveLane deletes the lane of a tenant if nothing runs or waits in it and
// there are many lanes.
func (q *queue) leaveLane(p *pending) {
	if len(q.lanes) <= maxLanes {
		return
	}
	if l := q.laneOf(p); l.running == [classes]int{} && l.waiting == [classes]int{} {
		delete(q.lanes, p.Lane)
	}
}

// pending is a change or a reading in the queue.
type pending struct {
	citus.Turn

	change  *storage.Change // nil for a reading
	reading *reading        // nil for a change
	class   class
	overdue bool // a create that has waited for its patience
	err     error
	// again means that the change may be tried again after its error. locked
	// means that another transaction held a lock that it needs.
	again, locked bool
	until         time.Time // when its caller stops waiting; zero if never
	due           time.Time // when the queue looks at it again; zero if never
	// ambiguous means that a connection was lost after the change had been
	// sent, so it may have been applied.
	ambiguous bool
	// turn ends the wait. It delivers a writer, or nil if the
	// outcome is set. It is nil if the caller did not have to wait.
	turn chan *writer
}

// class determines which items may share a statement.
type class uint8

const (
	alone    class = iota // shares with nothing
	creates               // shares with changes that create a token or only log
	reads                 // shares with changes that only log reads
	readings              // shares with readings
	classes
)

// most returns how many items of a class may share a statement.
func (c class) most() int {
	if c == readings {
		return maxReadings
	}
	return maxBatch
}

const (
	// maxBatch limits the changes that share a statement.
	maxBatch = 100
	// createWait limits how long a create waits while a connection is free, so
	// that a hanging statement does not block other creates. Without it,
	// CreateToken was 41 % slower at 8 callers on a slow disk, where the server
	// syncs several commits at once. It made no difference on a fast disk, or
	// at 32 and 128 callers (BenchmarkCreate).
	createWait = time.Millisecond
	// maxReadings limits the readings that share a statement, which looks up
	// their tokens one after the other.
	maxReadings = 32
	// readingWait limits how long a reading waits for its turn. It is long
	// enough to read anything that the server has in memory.
	readingWait = 20 * time.Millisecond
)

// errBusy means that a reading has waited for readingWait and is in no
// statement yet. It is then read on another connection, so that a token on the
// server's disk does not delay all the others.
var errBusy = errors.New("postgres: the connection for reads is busy")

// do writes a change or reads a token. When the context ends, do gives up an item that
// still waits, but waits for a change that is being written. Only the caller of a
// reading needs its result, so do does not wait for its statement.
func (q *queue) do(ctx context.Context, p *pending) error {
	s, err := q.enter(p)
	if err != nil {
		return err
	}
	if s == nil {
		select { // the queue ends the wait when the time of the caller is over
		case s = <-p.turn:
		case <-ctx.Done():
			if p.class == readings {
				go q.abandon(p)
				return ctx.Err()
			}
			if q.leave(p) {
				q.busy.Done()
				return ctx.Err()
			}
			s = <-p.turn // a statement already has it
		}
	}
	defer q.busy.Done()
	if s != nil {
		q.lead(s, p)
	}
	return p.err
}

// abandon finishes a reading whose caller has gone, because its batch may
// contain other readings.
func (q *queue) abandon(p *pending) {
	defer q.busy.Done()
	if q.leave(p) {
		return
	}
	if s := <-p.turn; s != nil {
		q.lead(s, p)
	}
}

// enter returns a writer, or nil if the change has to wait.
func (q *queue) enter(p *pending) (*writer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, storage.ErrClosed
	}
	q.busy.Add(1)
	q.add(p)
	s := q.start(p)
	if s == nil {
		p.turn = make(chan *writer, 1)
		p.due = p.until
		if d := q.patience(p); d > 0 {
			p.due = link.Earlier(p.until, time.Now().Add(d))
		}
		q.watch(p.due)
	}
	return s, nil
}

// add adds an item to the waiting ones.
func (q *queue) add(p *pending) {
	q.waiting = append(q.waiting, p)
	q.laneOf(p).waiting[p.class]++
}

// start gives a waiting change a writer. It returns nil if the
// change must keep waiting.
func (q *queue) start(p *pending) *writer {
	s := q.writerFor(p)
	if s == nil || p.class == creates && !q.mayCreate(p) {
		return nil
	}
	if s != q.forLogs {
		q.free = slices.DeleteFunc(q.free, func(f *writer) bool { return f == s })
	}
	q.use(s, p.Server)
	l := q.laneOf(p)
	l.running[p.class]++
	l.leading = l.leading || p.class == creates
	q.remove(func(w *pending) bool { return w == p })
	return s
}

// remove removes items from the waiting ones.
func (q *queue) remove(which func(*pending) bool) {
	q.waiting = slices.DeleteFunc(q.waiting, func(p *pending) bool {
		if !which(p) {
			return false
		}
		q.laneOf(p).waiting[p.class]--
		return true
	})
}

// writerFor returns a free writer for a change, or nil.
func (q *queue) writerFor(p *pending) *writer {
	logs, l := p.class == reads || p.class == readings, q.laneOf(p)
	switch {
	case logs && l.running[reads]+l.running[readings] > 0:
		return nil
	case logs && q.forLogs != nil:
		return q.forLogs
	case len(q.free) == 0 || p.Server != 0 && q.used[p.Server] >= p.Most:
		return nil
	default:
		return q.free[len(q.free)-1]
	}
}

// use notes that a writer writes for the tenants of a server, or for none if that is
// zero.
func (q *queue) use(s *writer, server int32) {
	if s.server == server {
		return
	}
	if q.used == nil {
		q.used = map[int32]int{}
	}
	if s.server != 0 {
		q.used[s.server]--
	}
	if server != 0 {
		q.used[server]++
	}
	s.server = server
}

// mayCreate reports whether a create may start a statement.
func (q *queue) mayCreate(p *pending) bool {
	l := q.laneOf(p)
	return l.running[creates] == 0 || !l.leading && (p.overdue || q.pace.Alternate && l.waiting[creates] >= l.enough)
}

// batchOf returns the batch of a change: the change, and everything that waits
// and may share its statement.
//
// Callers woken by a statement of readings are about to read their next token,
// so batchOf lets them run first. This makes GetToken 24 % faster at 8 callers,
// with no effect at 32 and 128 (BenchmarkGet). Creates would become slower. A
// single caller has nothing to wait for: it would take 7 µs more CPU time, to wake
// another thread.
func (q *queue) batchOf(first *pending) []*pending {
	if q.pace.Pause > 0 {
		q.expect(first)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.laneOf(first)
	if first.class == readings && l.callers[readings] > 1 {
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	batch, rule := make([]*pending, 1, 1+min(l.waiting[first.class], first.class.most())), newBatchRule(first)
	batch[0] = first
	if l.waiting[first.class] > 0 {
		q.remove(func(p *pending) bool {
			fits := len(batch) < first.class.most() && rule.accepts(p)
			if fits {
				batch = append(batch, p)
			}
			return fits
		})
	}
	if first.class == creates {
		l.leading = false
		l.writing += len(batch)
		q.watchRest(first)
	}
	return batch
}

// expect waits a while for as many callers of a tenant as there were last time.
func (q *queue) expect(first *pending) {
	for end := time.Now().Add(q.pace.Pause); first.class != alone && time.Now().Before(end); _ = pace.Sleep(context.Background(), q.pace.Pause/30) {
		q.mu.Lock()
		l := q.laneOf(first)
		all := l.waiting[first.class]+1 >= l.callers[first.class]
		q.mu.Unlock()
		if all {
			return
		}
	}
}

// leave removes a change from the waiting ones. It returns false if a statement
// already has it.
func (q *queue) leave(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.waiting, p) {
		return false
	}
	q.remove(func(w *pending) bool { return w == p })
	q.leaveLane(p)
	return true
}

// lead writes a change and everything that may share its statement, wakes the
// other callers, and passes the writer on. A panic becomes an error of the whole
// batch, and the writer starts over with a new connection.
func (q *queue) lead(s *writer, first *pending) {
	batch := q.batchOf(first)
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

// pass frees the writer of a written batch and starts what may start now.
func (q *queue) pass(s *writer, batch []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := batch[0]
	l := q.laneOf(first)
	l.running[first.class]--
	if first.class == creates {
		callers := l.writing + l.waiting[creates]
		l.enough = min((callers+1)/2, maxBatch)
		l.writing -= len(batch)
	}
	l.callers[first.class] = len(batch) + l.waiting[first.class]
	q.leaveLane(first)
	if s != q.forLogs {
		q.free = append(q.free, s)
	}
	q.use(s, 0)
	for i := 0; i < len(q.waiting); {
		p := q.waiting[i]
		if s := q.start(p); s != nil { // and p no longer waits
			p.turn <- s
		} else {
			i++
		}
	}
}

// background runs do in the background, unless the queue is closed. Close waits for it.
func (q *queue) background(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.busy.Go(do)
	}
}

// close rejects further changes, waits for running ones, and returns the writers.
// A second call returns none.
func (q *queue) close() []*writer {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.busy.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
	}
	writers := q.free
	if q.forLogs != nil {
		writers = append(writers, q.forLogs)
	}
	q.free, q.forLogs = nil, nil
	return writers
}
