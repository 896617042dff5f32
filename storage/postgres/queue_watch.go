package postgres

import (
	"time"

	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// One timer serves all waiting items. A timer for each would fire, and wake its
// caller, for most creates at 32 and 128 callers.

// patience returns how long an item waits before the queue looks at it again, or
// zero if the queue does that only when the time of its caller is over.
func (q *queue) patience(p *pending) time.Duration {
	switch {
	case p.class == readings:
		return readingWait
	case p.class != creates:
		return 0
	default:
		return max(createWait, q.pace.Wait)
	}
}

// watch makes the timer fire at a time, unless it fires before.
func (q *queue) watch(at time.Time) {
	if at.IsZero() || !q.next.IsZero() && !at.Before(q.next) {
		return
	}
	q.next = at
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(at), q.look)
	} else {
		q.timer.Reset(time.Until(at))
	}
}

// watchRest makes the queue look again at overdue creates that a batch has no place
// for. While the batch was expected to take them, they did not start on a free
// connection.
func (q *queue) watchRest(first *pending) {
	if q.laneOf(first).waiting[creates] == 0 {
		return
	}
	again := time.Now().Add(createWait)
	for _, p := range q.waiting {
		if p.overdue && p.Lane == first.Lane {
			p.due = link.Earlier(p.until, again)
			q.watch(p.due)
		}
	}
}

// look handles the waiting items that are due. A create may now start in any case,
// and a reading or the change of a caller whose time is over stops waiting. The
// next look is at least createWait later, so a create may wait for up to twice as
// long.
func (q *queue) look() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.next = time.Time{}
	var next time.Time
	for i := 0; i < len(q.waiting); {
		p := q.waiting[i]
		if p.due.IsZero() || p.due.After(now) || !q.handle(p, now) {
			next = link.Earlier(next, p.due)
			i++
		}
	}
	if !next.IsZero() && next.Before(now.Add(createWait)) {
		next = now.Add(createWait)
	}
	q.watch(next)
}

// handle handles an item that is due, and reports whether it no longer waits.
func (q *queue) handle(p *pending, now time.Time) bool {
	switch over := !p.until.IsZero() && !p.until.After(now); {
	case p.class == readings:
		p.err = errBusy
	case over:
		p.err = sqlstore.ErrNoTurn
	default: // a create
		p.overdue, p.due = true, p.until
		if q.laneOf(p).leading { // and may take it
			p.due = link.Earlier(p.until, now.Add(createWait))
		}
		s := q.start(p)
		if s != nil {
			p.turn <- s
		}
		return s != nil
	}
	q.remove(func(w *pending) bool { return w == p })
	q.leaveLane(p)
	p.turn <- nil
	return true
}
