package storage

import (
	"context"
	"sync/atomic"
	"time"
)

// OneWait returns a context for the calls of one request. Together they may
// wait only once for a database that is out of reach. The time to wait starts
// with the first call, and later calls get what is left of it.
//
// Each call may wait at least a tenth of the whole time, so that a call late in
// a long request survives a lost connection. Calls without a shared wait may
// each wait for the whole time. If ctx already has a wait, OneWait returns ctx.
func OneWait(ctx context.Context) context.Context {
	if waitOf(ctx) != nil {
		return ctx
	}
	return &wait{Context: ctx}
}

// NoWait returns a context whose calls fail at once while the database is out
// of reach.
func NoWait(ctx context.Context) context.Context {
	w := &wait{Context: ctx}
	w.began.Store(longAgo)
	return w
}

// WaitUntil returns the time until which a backend may retry a call, where most
// is the longest wait of a request. A backend calls it when a call begins.
func WaitUntil(ctx context.Context, most time.Duration) time.Time {
	now := time.Since(start)
	until := now + most
	if w := waitOf(ctx); w != nil && !w.began.CompareAndSwap(0, int64(now)) {
		if w.began.Load() == longAgo {
			return start.Add(longAgo)
		}
		until = max(time.Duration(w.began.Load())+most, now+most/10)
	}
	return start.Add(until)
}

// start is the origin of the times in wait.began. It lies in the past, so that
// no call begins at zero.
var start = time.Now().Add(-time.Second)

const longAgo = -1 << 62

// wait is the shared wait of a request. It is itself a context, which saves the
// request an allocation.
type wait struct {
	context.Context
	began atomic.Int64 // time since start; zero before the first call
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

// Clock is an optional interface of a [Storage] whose database has its own
// clock, shared by several nodes.
type Clock interface {
	// ClockAhead returns how far the clock of this machine is ahead of the
	// database's, within the accuracy that the duration of the call allows. It
	// is negative if the clock is behind.
	ClockAhead(ctx context.Context) (time.Duration, error)
}
