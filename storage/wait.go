package storage

import (
	"context"
	"sync/atomic"
	"time"
)

// OneWait returns a context for the calls that belong to one request. Those that
// meet a database out of reach share one wait, which begins with the first call:
// what one of them has waited the next cannot wait any more. Without it each call
// has a wait of its own. In a context that has a wait nothing changes.
func OneWait(ctx context.Context) context.Context {
	if waitOf(ctx) != nil {
		return ctx
	}
	return &wait{Context: ctx}
}

// NoWait returns a context whose calls fail at once while the database is out of
// reach.
func NoWait(ctx context.Context) context.Context {
	w := &wait{Context: ctx}
	w.began.Store(longAgo)
	return w
}

// WaitUntil returns until when a call may be tried again, for a backend whose
// requests wait for so long at the most. A backend asks when a call begins.
func WaitUntil(ctx context.Context, most time.Duration) time.Time {
	now := time.Since(start)
	if w := waitOf(ctx); w != nil && !w.began.CompareAndSwap(0, int64(now)) {
		now = time.Duration(w.began.Load())
	}
	return start.Add(now + most)
}

// start is what the monotonic clock counts from here.
var start = time.Now().Add(-time.Second)

const longAgo = -1 << 62

// wait is the wait of a request. It is a context itself, which saves the request
// an allocation.
type wait struct {
	context.Context
	began atomic.Int64 // after start; zero before the first call
}

type waitKey struct{}

// Value implements [context.Context].
func (w *wait) Value(key any) any {
	if key == (waitKey{}) {
		return w
	}
	return w.Context.Value(key)
}

func waitOf(ctx context.Context) *wait {
	w, _ := ctx.Value(waitKey{}).(*wait)
	return w
}
