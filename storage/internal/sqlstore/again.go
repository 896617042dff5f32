package sqlstore

import (
	"context"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// on runs do on a connection. While the database is out of reach it retries, as
// long as the caller may wait and do allows it. Between two attempts it holds
// no connection.
//
// After a failover all kept connections are lost. on replaces a lost connection
// once, even if the caller may not wait.
//
// It closes a connection after any error, which also discards bad statements.
// The exception is the end of the caller's context, which leaves the connection
// intact.
func (s *Store) on(ctx context.Context, from *readPool, do func(*readConn) (again bool, err error)) (err error) {
	if s.dialect.ForTenant != nil {
		if tenant, ok := ctx.Value(tenantKey{}).(storage.ID); ok {
			ended, refused := s.dialect.ForTenant(ctx, tenant)
			if refused != nil {
				return refused
			}
			defer func() { ended(err) }()
		}
	}
	return s.retried(ctx, from, do)
}

// retried is on, for a statement that may begin now.
func (s *Store) retried(ctx context.Context, from *readPool, do func(*readConn) (again bool, err error)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	until := s.dialect.Outage.Until(ctx)
	replaced := false
	for n := 1; ; n++ {
		t := s.try(ctx, until, from, do)
		switch {
		case t.err == nil || ctx.Err() != nil || s.closed.Load():
			return t.err
		case t.lost && t.again && !replaced:
			replaced = true
			continue
		case !t.again || !s.dialect.Outage.Passes(t.err) || !time.Now().Before(until):
			return t.err
		}
		if err := pace.Sleep(ctx, min(RetryPause(n), time.Until(until))); err != nil {
			return err
		}
	}
}

// RetryPause returns the pause after the n-th attempt of a call.
func RetryPause(n int) time.Duration {
	return pace.Backoff(n, 5*time.Millisecond, 500*time.Millisecond)
}

// outcome is the result of one attempt.
type outcome struct {
	err   error
	again bool // may run again
	lost  bool // the connection is no longer usable
}

// try runs do once.
func (s *Store) try(ctx context.Context, until time.Time, from *readPool, do func(*readConn) (bool, error)) (t outcome) {
	c, err := from.take(ctx, until)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return outcome{err: err, again: true}
	}
	keep := false
	defer func() { from.give(c, keep) }()
	run := c.cutter.Begin(ctx)
	t.again, t.err = do(c)
	cut := c.cutter.End(run)
	if t.err == nil {
		keep = !cut
		return t
	}
	t.lost = cut || c.direct.Lost()
	if ctx.Err() != nil {
		keep, t.err = !t.lost, ctx.Err()
	}
	if t.lost {
		from.drop()
	}
	return t
}
