package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
)

// Anchor stores notes in a place where a writer of the database cannot change
// them.
type Anchor interface {
	// Latest returns the newest note, or nil if the anchor has no notes.
	Latest(ctx context.Context) ([]byte, error)
	// Put adds a note.
	Put(ctx context.Context, msg []byte) error
}

const (
	// anchorTimeout is the limit for one call of an anchor.
	anchorTimeout = 30 * time.Second
	// anchorWait limits how long the first checkpoint waits for anchors.
	anchorWait = 2 * time.Second
)

// anchored calls an anchor, one call at a time, in the background.
type anchored struct {
	Anchor
	keys func() []note.Verifier
	now  func() time.Time
	// mayFollow reports whether another note may follow one that the anchor has.
	mayFollow func(ctx context.Context, msg []byte) bool

	worker
	next   []byte // the note to put
	again  bool   // call the anchor once more
	closed bool
	once   bool   // the anchor has responded or timed out
	msg    []byte // the newest note
	err    error
	failed int64     // number of failed calls
	good   time.Time // when the last call succeeded

	compared []byte // the last note that the tree was compared with; guarded by Ledger.mu
}

// AnchorStatus is the state of an anchor.
type AnchorStatus struct {
	Size     int64     // tree size in its newest note; 0 without notes
	GoodAt   time.Time // end of its last successful call
	Failures int64     // number of failed calls
	Err      error     // of the last call
}

func (a *anchored) status() AnchorStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := AnchorStatus{GoodAt: a.good, Failures: a.failed, Err: a.err}
	if c, err := evidence.OpenCheckpoint(a.msg, a.keys()...); err == nil {
		s.Size = c.Size
	}
	return s
}

// kick starts a call of the anchor in the background. The call reads the latest
// note, and then puts msg, unless it is nil.
func (a *anchored) kick(msg []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.again = true; msg != nil {
		a.next = msg
	}
	a.start(func() func() {
		if !a.again {
			return nil
		}
		msg := a.next
		a.next, a.again = nil, false
		return func() { a.call(msg) }
	})
}

func (a *anchored) call(msg []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), anchorTimeout)
	defer cancel()
	got, err := a.Latest(ctx)
	// Without this check, msg could hide a note that the database does not continue.
	if err == nil && msg != nil && (len(got) == 0 || a.mayFollow(ctx, got)) {
		if err = a.Put(ctx, msg); err == nil {
			got = msg
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.once, a.err = true, err; err != nil {
		a.failed++
		return
	}
	if a.good = a.now(); len(got) > 0 {
		a.msg = got
	}
}

// wait waits for the anchor's first response, until over at the latest.
func (a *anchored) wait(over <-chan time.Time) {
	a.mu.Lock()
	busy, once := a.busy, a.once
	a.mu.Unlock()
	if once || busy == nil {
		return
	}
	select {
	case <-busy:
	case <-over:
		a.mu.Lock()
		a.once = true // no later call waits for a hanging anchor
		a.mu.Unlock()
	}
}

// newest returns the newest note that the anchor is known to have, and the last
// error.
func (a *anchored) newest() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.msg, a.err
}

// drain waits until the anchor is idle. No call starts after that.
func (a *anchored) drain(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	if err := a.finish(ctx); err != nil {
		return fmt.Errorf("evidence: an anchor does not respond: %w", err)
	}
	return nil
}

// worker does work in the background, one piece at a time.
type worker struct {
	mu   sync.Mutex
	busy chan struct{} // closed when the work ends; nil when idle
}

// start begins to work, unless the worker is busy. next returns the next piece of
// work, or nil at the end. The caller of start and of next holds mu.
func (w *worker) start(next func() func()) {
	if w.busy != nil {
		return
	}
	w.busy = make(chan struct{})
	go func() {
		for {
			w.mu.Lock()
			do := next()
			if do == nil {
				close(w.busy)
				w.busy = nil
				w.mu.Unlock()
				return
			}
			w.mu.Unlock()
			do()
		}
	}()
}

// finish waits until there is no work left.
func (w *worker) finish(ctx context.Context) error {
	w.mu.Lock()
	busy := w.busy
	w.mu.Unlock()
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
