package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Cutter ends a statement whose caller has gone, while the driver is still
// waiting for its server.
type Cutter struct {
	Cut func() // closes the connection; nil if the driver does not wait

	mu    sync.Mutex
	runs  int // number of times a statement was begun or ended
	isCut bool
}

// cutGrace is how long a server has to end a canceled statement. Most take much less
// time, so a caller that goes away does not cost others their connection.
const cutGrace = time.Second

// Running is a statement that a Cutter may end.
type Running struct {
	run  int
	stop func() bool
}

// Begin begins a statement.
func (c *Cutter) Begin(ctx context.Context) Running {
	if c.Cut == nil || ctx.Done() == nil {
		return Running{}
	}
	c.mu.Lock()
	c.runs++
	run := c.runs
	c.mu.Unlock()
	return Running{run, context.AfterFunc(ctx, func() {
		time.AfterFunc(cutGrace, func() { c.cut(run) })
	})}
}

// cut cuts the connection if the statement still runs on it.
func (c *Cutter) cut(run int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == run {
		c.isCut = true
		c.Cut()
	}
}

// End ends a statement and reports whether its connection was cut.
func (c *Cutter) End(r Running) bool {
	if r.stop == nil {
		return false
	}
	r.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	return c.isCut
}

// limited runs a statement of a list for as long as the limits allow.
func (s *Store) limited(ctx context.Context, list func(context.Context) (bool, error)) (again bool, err error) {
	if s.left != nil {
		if *s.left <= 0 {
			return false, storage.ErrSlow
		}
		defer func(start time.Time) { *s.left -= time.Since(start) }(time.Now())
	}
	if s.dialect.Outage.Limit == 0 {
		return list(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, s.dialect.Outage.Limit)
	defer cancel()
	if again, err = list(limited); err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, storage.ErrSlow
	}
	return again, err
}

// inListLimit returns the Store for the statements of one list of tokens, which share
// Outage.ListLimit. Time that the list waits for the database does not count. A
// rotation passes over all tokens, however many there are, and has no limit.
func (s *Store) inListLimit(f *storage.TokenFilter) *Store {
	left := s.dialect.Outage.ListLimit
	if _, rotation := f.Where.(storage.KeyBelow); rotation || left == 0 {
		return s
	}
	one := *s
	one.left = &left
	return &one
}
