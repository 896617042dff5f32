package postgres

import (
	"context"
	"errors"
	"time"
)

const (
	// maxReadings bounds the readings that share a statement, which looks their
	// tokens up one after the other.
	maxReadings = 32
	// readingWait bounds how long a reading waits for its turn. Whatever the
	// server has in its memory is read by then.
	readingWait = 20 * time.Millisecond
)

// errBusy means that a reading has waited for readingWait, and is not part of
// any statement. It is then read on another connection, so that tokens which the
// server has to fetch from its disk do not hold up all others.
var errBusy = errors.New("postgres: the connection for reads is busy")

// read is write for a reading. Only its caller needs the outcome, so it does not
// wait for a statement of others when the context ends.
func (q *queue) read(ctx context.Context, p *pending) error {
	s, err := q.enter(p)
	if err != nil {
		return err
	}
	if s == nil {
		if s, err = q.awaitReading(ctx, p); err != nil {
			return err
		}
	}
	defer q.busy.Done()
	if s != nil {
		q.lead(s, p)
	}
	return p.err
}

// awaitReading is await for a reading. When it returns an error, the reading is
// no longer counted as busy, or will not be soon.
func (q *queue) awaitReading(ctx context.Context, p *pending) (*slot, error) {
	timer := time.NewTimer(readingWait)
	defer timer.Stop()
	for {
		select {
		case s := <-p.turn:
			return s, nil
		case <-ctx.Done():
			go q.abandon(p)
			return nil, ctx.Err()
		case <-timer.C:
			if q.leave(p) {
				q.busy.Done()
				return nil, errBusy
			}
		}
	}
}

// abandon sees a reading through whose caller has gone: others may be in its
// batch.
func (q *queue) abandon(p *pending) {
	defer q.busy.Done()
	if q.leave(p) {
		return
	}
	if s := <-p.turn; s != nil {
		q.lead(s, p)
	}
}
