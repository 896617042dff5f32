package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

// A pledge is a transaction on the coordinator of a Citus cluster that keeps the
// shards of the vault where they are. It holds the locks that a write to each
// shard would hold. While it is open, no shard can be moved or split, no worker
// replaced, and no table changed. The coordinator does not know about statements
// straight to workers, so the pledge must keep the shards in place while they run.
//
// A node opens a new pledge every second while it writes, so that others who wait
// for the locks get them. An old pledge stays open until its statements have ended.
//
// The log entries of a statement have the number of a later transaction of the
// coordinator, which does nothing else. Followers of the log stop at the number
// until the pledge ends.
type pledge struct {
	owner *pledges
	slot  *slot // in the transaction
	xid   int64
	at    *shardTables
	begun time.Time

	mu      sync.Mutex
	running int
	retired bool
	over    bool // the transaction has ended, or was lost

	holds question // whether the transaction is open
}

// question is a question to the coordinator. Callers share the responses.
type question struct {
	ask    func() (int64, error)
	asked  atomic.Int64 // how often
	asking sync.Mutex
	last   int64 // number of the last question with a response
	result int64
	err    error
}

// get returns the response to a question that was sent after the call of get.
func (q *question) get() (int64, error) {
	before := q.asked.Load()
	q.asking.Lock()
	defer q.asking.Unlock()
	if q.last > before {
		return q.result, q.err
	}
	q.last = q.asked.Add(1)
	q.result, q.err = q.ask()
	return q.result, q.err
}

const (
	// renewAfter is the age of a pledge at which the next one is opened.
	renewAfter = time.Second
	// pledgeFor is the age at which statements no longer join a pledge.
	pledgeFor = 2 * time.Second
	// directLimit is how late a worker may begin to run a statement, by its own
	// clock, and how long the statement may take before its commit.
	directLimit = 2 * time.Second
	// directSilence is how long a worker may be silent. A shorter HangTimeout
	// applies to workers too.
	directSilence = 2*directLimit + time.Second
	// unknownFor is how long a statement whose result was lost keeps its pledge
	// open, if its session still runs or the worker does not say. It may hang in its
	// commit.
	unknownFor = 30 * time.Second
	endedPause = 500 * time.Millisecond
	// maxPledges limits the open pledges of a node. An old one stays open while a
	// statement is unknown.
	maxPledges = 3
	// pledgePause is how long a node uses the coordinator after it failed to open a
	// pledge, for example because a shard is being moved. directPause is the same
	// for errors that last until someone changes the configuration.
	pledgePause = time.Second
	directPause = time.Minute
)

// pledges opens the pledges of a node.
type pledges struct {
	tables []string // that are written, beginning with the anchor
	schema schemaName

	numbers question // the number of a new transaction

	mu      sync.Mutex
	current *pledge
	open    []*pledge
	pool    *pool
	free    []*slot // connections for pledges
	drawing *slot   // the connection of numbers
	opening bool
	notYet  time.Time // no pledge is opened before
	closed  bool
	busy    sync.WaitGroup // of openings and endings
}

// join returns the current pledge for a statement, which must leave it. If there is
// none, it returns nil, and the statement must go to the coordinator. Opening the
// next pledge takes several round trips, so it happens in the background.
func (p *pledges) join() *pledge {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	current := p.current
	if current != nil && !current.enter(now) {
		current, p.current = nil, nil
	}
	if (current == nil || now.Sub(current.begun) >= renewAfter) && !p.opening && !p.closed && now.After(p.notYet) && len(p.free) > 0 {
		p.opening = true
		slot := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		p.busy.Go(func() { p.renew(slot) })
	}
	return current
}

// renew opens a pledge on a connection and makes it the current one.
func (p *pledges) renew(slot *slot) {
	next, err := p.begin(slot)
	p.mu.Lock()
	p.opening = false
	last := p.current
	if err == nil {
		p.current, p.open = next, append(p.open, next)
		time.AfterFunc(pledgeFor, next.retire)
	} else {
		slot.reset()
		p.free = append(p.free, slot)
		p.notYet = time.Now().Add(pauseAfter(err))
	}
	p.mu.Unlock()
	if err == nil && last != nil {
		last.retire()
	}
}

// begin begins the transaction of a pledge.
func (p *pledges) begin(s *slot) (*pledge, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if !s.connected() {
		if err := s.connect(ctx); err != nil {
			return nil, &connectError{err}
		}
	}
	text := "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" // so the shards are read after they are locked
	for _, table := range p.tables {
		text += "; DELETE FROM " + p.schema.in(table) + " WHERE false" // locks the table
	}
	if err := s.control(text); err != nil {
		return nil, err
	}
	own := &pledge{owner: p, slot: s, begun: time.Now()}
	own.holds.ask = own.ask
	var locked pq.Int64Array
	anchored := pq.QuoteLiteral(p.schema.in(anchor)) + "::regclass"
	var hash int32
	err := s.conn.QueryRowContext(ctx, `SELECT pg_catalog.txid_current(), s.ids, pg_catalog.worker_hash($1::bytea), pg_catalog.lock_shard_metadata(5, s.ids) IS NULL
		FROM (SELECT array_agg(shardid ORDER BY shardid) AS ids FROM pg_catalog.pg_dist_shard WHERE logicalrelid = `+anchored+`) s`, sampleTenant[:]).
		Scan(&own.xid, &locked, &hash, new(bool))
	switch {
	case err != nil:
		return nil, err
	case hash != tenantHash(sampleTenant):
		return nil, errThroughCoordinator
	}
	// Shards that another transaction has just replaced are not in this list.
	if own.at, err = readShardTables(ctx, s.conn, p.schema, p.tables); err != nil {
		return nil, err
	}
	if !slices.Equal(own.at.anchors(), locked) {
		return nil, errShardsChanged
	}
	return own, nil
}

var errShardsChanged = &connectError{errors.New("postgres: the shards changed while they were read")}

// enter adds a statement, unless the pledge is too old.
func (p *pledge) enter(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.over || now.Sub(p.begun) >= pledgeFor {
		return false
	}
	p.running++
	return true
}

// leave removes a statement.
func (p *pledge) leave() {
	p.mu.Lock()
	p.running--
	p.mu.Unlock()
	p.endIfDone()
}

// leaveAfter removes a statement when its session has ended, but after unknownFor in
// any case.
func (p *pledge) leaveAfter(ended func() bool) {
	over := time.Now().Add(unknownFor)
	var look func()
	look = func() {
		if p.isOver() || time.Now().After(over) || ended() {
			p.leave()
			return
		}
		time.AfterFunc(endedPause, look)
	}
	time.AfterFunc(endedPause, look)
}

func (p *pledge) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// retire lets no more statements join, and ends the pledge after the last one.
func (p *pledge) retire() {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	p.endIfDone()
}

func (p *pledge) endIfDone() {
	p.mu.Lock()
	done := p.retired && p.running == 0 && !p.over
	p.over = p.over || done
	p.mu.Unlock()
	if !done {
		return
	}
	o := p.owner
	o.mu.Lock()
	background := !o.closed
	if background {
		o.busy.Go(p.end)
	}
	o.mu.Unlock()
	if !background {
		p.end()
	}
}

// end ends the transaction and returns its connection.
func (p *pledge) end() {
	p.holds.asking.Lock()
	defer p.holds.asking.Unlock()
	if p.slot.conn != nil && p.slot.control("COMMIT") != nil {
		p.slot.reset()
	}
	o := p.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = slices.DeleteFunc(o.open, func(q *pledge) bool { return q == p })
	if o.current == p {
		o.current = nil
	}
	if o.closed {
		p.slot.reset()
	}
	o.free = append(o.free, p.slot)
}

// confirm checks that the pledge is still open. If it is, no shard was moved before
// the call.
func (p *pledge) confirm() error {
	_, err := p.holds.get()
	return err
}

func (p *pledge) ask() (int64, error) {
	if p.slot.conn == nil {
		return 0, errNoConn
	}
	err := p.slot.control("SELECT")
	if err != nil {
		p.slot.reset()
		p.mu.Lock()
		p.retired = true
		p.mu.Unlock()
	}
	return 0, err
}

// draw returns a function that begins and ends a transaction on a connection, and
// returns its number.
func draw(s *slot) func() (n int64, err error) {
	return func() (n int64, err error) {
		if err := s.ensure(time.Now().Add(connectTimeout)); err != nil {
			return 0, err
		}
		err = s.query(context.Background(), "SELECT pg_catalog.txid_current()", nil, true, func(row []driver.Value) error {
			n, _ = row[0].(int64)
			return nil
		})
		s.forget(err)
		return n, err
	}
}

// close ends all pledges and closes their connections. No statement may be running.
func (p *pledges) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.busy.Wait()
	p.mu.Lock()
	open := slices.Clone(p.open)
	p.mu.Unlock()
	for _, q := range open {
		q.mu.Lock()
		first := !q.over
		q.over = true
		q.mu.Unlock()
		if first {
			q.end()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range append(p.free, p.drawing) {
		s.reset()
	}
}
