// Package pace has the waits of background work: intervals, pauses, pauses that
// grow with each failure, and how much is done at a time.
package pace

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

// Woke is called by background work after each wait. It does nothing, except in the
// simulator, which orders goroutines that wake at the same moment.
var Woke = func() {}

// Every calls do at intervals until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() != nil {
				return // both are ready
			}
			if Woke(); ctx.Err() == nil {
				do()
			}
		}
	}
}

// Sleep waits for a duration. It returns the error of ctx if ctx has ended by then.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	Woke()
	return ctx.Err()
}

// Until waits until a time on the real clock or the end of the context, and returns the
// error of the context.
func Until(ctx context.Context, t time.Time) error { return Sleep(ctx, time.Until(t)) }

// Backoff returns the pause after the n-th failure in a row: first, and twice as
// long after each further failure, up to longest. Callers add a random part, so that
// nodes that failed together do not retry together.
func Backoff(n int, first, longest time.Duration) time.Duration {
	pause := first
	for ; n > 1 && pause < longest-pause; n-- {
		pause *= 2
	}
	if n > 1 {
		return longest
	}
	return min(pause, longest)
}

// Jitter returns a random number from 0 to 1 that spreads load. Its source is
// crypto/rand, so that a simulation with a seed repeats it.
func Jitter() float64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53)
}

// Each calls do for all items, at most atOnce at a time, and returns the errors.
func Each[T any](atOnce int, items []T, do func(T) error) error {
	var work sync.WaitGroup
	free, errs := make(chan struct{}, atOnce), make([]error, len(items))
	for i, item := range items {
		free <- struct{}{}
		work.Go(func() {
			errs[i] = do(item)
			<-free
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// Worker does work in the background, one piece at a time. Its mutex also guards
// what the pieces of work share.
type Worker struct {
	sync.Mutex
	busy chan struct{} // closed when the work ends; nil when idle
}

// Start begins to work, unless the worker is busy. next returns the next piece of
// work, or nil at the end. The caller of Start and of next holds the mutex.
func (w *Worker) Start(next func() func()) {
	if w.busy != nil {
		return
	}
	w.busy = make(chan struct{})
	go func() {
		for {
			w.Lock()
			do := next()
			if do == nil {
				close(w.busy)
				w.busy = nil
				w.Unlock()
				return
			}
			w.Unlock()
			do()
		}
	}()
}

// Busy returns a channel that is closed when the work ends, or nil if the worker is idle.
// The caller holds the mutex.
func (w *Worker) Busy() <-chan struct{} { return w.busy }

// Finish waits until there is no work left.
func (w *Worker) Finish(ctx context.Context) error {
	w.Lock()
	busy := w.busy
	w.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
