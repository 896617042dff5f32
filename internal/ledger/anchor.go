package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/pace"
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
	// mayFollow reports whether another note may follow msg, the anchor's latest note.
	mayFollow func(ctx context.Context, msg []byte) bool

	pace.Worker
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
	a.Lock()
	defer a.Unlock()
	s := AnchorStatus{GoodAt: a.good, Failures: a.failed, Err: a.err}
	if c, err := evidence.OpenCheckpoint(a.msg, a.keys()...); err == nil {
		s.Size = c.Size
	}
	return s
}

// kick starts a call of the anchor in the background. The call reads the latest
// note, and then puts msg if msg is not nil.
func (a *anchored) kick(msg []byte) {
	a.Lock()
	defer a.Unlock()
	if a.closed {
		return
	}
	if a.again = true; msg != nil {
		a.next = msg
	}
	a.Start(func() func() {
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
	if err == nil && msg != nil && !bytes.Equal(got, msg) && (len(got) == 0 || a.mayFollow(ctx, got)) {
		if err = a.Put(ctx, msg); err == nil {
			got = msg
		}
	}
	a.Lock()
	defer a.Unlock()
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
	a.Lock()
	busy, once := a.Busy(), a.once
	a.Unlock()
	if once || busy == nil {
		return
	}
	select {
	case <-busy:
	case <-over:
		a.Lock()
		a.once = true // no later call waits for a hanging anchor
		a.Unlock()
	}
}

// newest returns the newest note that the anchor is known to have, and the last
// error.
func (a *anchored) newest() ([]byte, error) {
	a.Lock()
	defer a.Unlock()
	return a.msg, a.err
}

// drain waits until the anchor is idle. No call starts after that.
func (a *anchored) drain(ctx context.Context) error {
	a.Lock()
	a.closed = true
	a.Unlock()
	if err := a.Finish(ctx); err != nil {
		return fmt.Errorf("evidence: an anchor does not respond: %w", err)
	}
	return nil
}
