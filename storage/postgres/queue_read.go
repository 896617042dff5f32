package postgres

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// maxReadings bounds the readings that share a statement, which looks their
	// tokens up one after the other.
	maxReadings = 32
	// slowReading is how long readings wait for a statement. One whose rows are
	// in the server's memory has ended by then.
	slowReading = 2 * time.Millisecond
)

// errBusy means that the statement which a reading waited for takes long. The
// reading was not part of it.
var errBusy = errors.New("postgres: the connection for readings is busy")

// read is write for a reading. Its outcome matters to its caller alone, who need
// not wait any more for a statement of others when the context ends.
func (q *queue) read(ctx context.Context, p *pending) error {
	t, err := q.enter(p)
	if err != nil {
		return err
	}
	if t.slot == nil {
		select {
		case t = <-p.turn:
		case <-ctx.Done():
			go q.abandon(p)
			return ctx.Err()
		}
	}
	defer q.busy.Done()
	if t.slot != nil {
		q.lead(t.slot, q.gather(t.batch))
	}
	return p.err
}

// abandon sees a reading through that nobody waits for: others may be in its
// batch.
func (q *queue) abandon(p *pending) {
	defer q.busy.Done()
	if q.leave(p) {
		return
	}
	if t := <-p.turn; t.slot != nil {
		q.lead(t.slot, t.batch)
	}
}

// watchReading sees to it that readings do not wait long for the statement that
// is under way. There is one timer, which is set for the first that waits.
func (q *queue) watchReading() {
	if q.timed == q.statement {
		return
	}
	q.timed = q.statement
	if q.slow == nil {
		q.slow = time.AfterFunc(slowReading, q.scatter)
	} else {
		q.slow.Reset(slowReading)
	}
}

// scatter sends the readings that wait away, if the statement that they wait for
// is still the one that the timer was set for. Tokens that the server has to
// fetch from its disk are then read on several connections at once.
func (q *queue) scatter() {
	q.mu.Lock()
	var sent []*pending
	if q.reading && q.timed == q.statement {
		q.timed = 0 // for those who come later
		for _, p := range q.waiting {
			if p.class == readings {
				p.err = errBusy
				sent = append(sent, p)
			}
		}
		q.waiting = slices.DeleteFunc(q.waiting, func(p *pending) bool { return p.class == readings })
	}
	q.mu.Unlock()
	for _, p := range sent {
		p.turn <- turn{}
	}
}
