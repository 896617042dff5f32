package pace

import (
	"context"
	"sync"
)

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

// Busy returns a channel that is closed when the work ends, or nil if there is none.
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
