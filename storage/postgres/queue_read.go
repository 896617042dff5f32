package postgres

import (
	"context"
	"errors"
	"time"
)

const (
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

// read is like write, for a reading. Only its caller needs the result, so when
// the context ends, read does not wait for a statement of other callers.
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

// awaitReading is like await, for a reading. If it returns an error, the
// reading leaves the busy count soon.
func (q *queue) awaitReading(ctx context.Context, p *pending) (*writer, error) {
	select {
	case s := <-p.turn:
		return s, nil
	case <-ctx.Done():
		go q.abandon(p)
		return nil, ctx.Err()
	}
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
