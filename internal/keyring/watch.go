package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/pace"
)

// KeyState reports whether the holder of a key lets the vault use it.
type KeyState string

// The states of a key. Unreachable means that the grace is over; until then the
// state stays OK.
const (
	KeyOK          KeyState = "ok"
	KeyDenied      KeyState = "denied"
	KeyUnreachable KeyState = "unreachable"
)

// WatchConfig configures a Watch. All fields except First are required.
type WatchConfig struct {
	// Age is how long unwrapped keys may be used after a successful check. A check
	// begins at half of it. Grace is how much longer they may be used while the
	// holder of the key does not respond.
	Age, Grace time.Duration
	// Check asks the holder of the key. An error that matches
	// [fault.ErrKeyDenied] is a denial; after any other error it is tried again.
	Check func(ctx context.Context) error
	// Drop forgets all keys that the watched key has unwrapped.
	Drop func()
	// Changed is called for each change of state, in order and by one goroutine at
	// a time, and when Run starts. If it fails, it is called again after the next
	// check.
	Changed func(ctx context.Context, c KeyChange) error
	Now     func() time.Time // for changes
	Logger  *slog.Logger
	// First is the state at the start. Empty means KeyOK.
	First KeyState
}

// KeyChange is a change of state.
type KeyChange struct {
	To KeyState
	At time.Time
}

// Watch checks periodically whether a key in other hands may still be used. Each
// key has its own Watch with at most one check at a time, so a service that hangs
// affects only its own keys. Nobody waits for a check.
type Watch struct {
	WatchConfig
	state   atomic.Pointer[KeyState]
	telling sync.Mutex // held while Changed runs

	mu      sync.Mutex
	changes []KeyChange // that Changed has not recorded yet
}

// NewWatch returns a watch of a key.
func NewWatch(cfg WatchConfig) *Watch {
	w := &Watch{WatchConfig: cfg}
	w.set(cmp.Or(cfg.First, KeyOK))
	return w
}

func (w *Watch) set(s KeyState) {
	w.state.Store(&s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, KeyChange{s, w.Now()})
}

// unrecorded returns the oldest change that is not recorded, after it removed the
// n changes before it.
func (w *Watch) unrecorded(n int) (c KeyChange, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes = w.changes[n:]; len(w.changes) == 0 {
		return c, false
	}
	return w.changes[0], true
}

// State returns the state of the key.
func (w *Watch) State() KeyState { return *w.state.Load() }

// Usable returns an error if the key must not be used. A nil Watch means that the
// vault holds the key itself.
func (w *Watch) Usable() error {
	if w == nil {
		return nil
	}
	switch w.State() {
	case KeyDenied:
		return fault.ErrKeyDenied
	case KeyUnreachable:
		return fault.ErrKeyUnavailable
	case KeyOK:
	}
	return nil
}

const (
	// checkTimeout bounds a check.
	checkTimeout = 15 * time.Second
	// retryUnreachable and retryDenied are the longest pauses after a check that
	// failed.
	retryUnreachable = 5 * time.Second
	retryDenied      = 30 * time.Second
	// minPause is the shortest pause between checks.
	minPause = 10 * time.Millisecond
)

// Run checks the key until the context ends.
func (w *Watch) Run(ctx context.Context) {
	w.tell(ctx)
	next, over := time.NewTimer(w.pause(nil)), time.NewTimer(w.Age+w.Grace)
	defer next.Stop()
	defer over.Stop()
	results := make(chan error, 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			go func() {
				pace.Woke()
				results <- w.check(ctx)
			}()
		case err := <-results:
			if err == nil {
				over.Reset(w.Age + w.Grace)
			}
			w.take(ctx, err)
			w.tell(ctx)
			next.Reset(w.pause(err))
		case <-over.C:
			if w.State() == KeyOK {
				w.stop(ctx, KeyUnreachable)
				w.tell(ctx)
			}
		}
	}
}

// pause returns the time until the check after one with this outcome.
func (w *Watch) pause(err error) time.Duration {
	half := max(w.Age/2, minPause)
	switch {
	case err == nil:
		return half
	case errors.Is(err, fault.ErrKeyDenied):
		return min(half, retryDenied)
	default:
		return min(half, retryUnreachable)
	}
}

// check asks the holder of the key. A key of a program may panic.
func (w *Watch) check(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the key panicked with a value of type %T", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return w.Check(ctx)
}

// take applies the outcome of a check.
func (w *Watch) take(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // the vault is being closed
	case err == nil:
		if w.State() != KeyOK {
			w.Logger.InfoContext(ctx, "the key is available again")
			w.set(KeyOK)
		}
	case errors.Is(err, fault.ErrKeyDenied):
		if w.State() != KeyDenied {
			w.stop(ctx, KeyDenied)
		}
	default:
		w.Logger.WarnContext(ctx, "the service that holds the key does not respond; it is tried again", "state", w.State(), "error", err)
	}
}

// stop ends the use of the key.
func (w *Watch) stop(ctx context.Context, s KeyState) {
	w.set(s)
	w.Drop()
	w.Logger.ErrorContext(ctx, "the key cannot be used; calls fail until it is available again", "state", s)
}

// tell reports changes of state in the background.
func (w *Watch) tell(ctx context.Context) {
	go func() {
		if !w.telling.TryLock() {
			return // after the next check it is told again
		}
		defer w.telling.Unlock()
		for c, ok := w.unrecorded(0); ok; c, ok = w.unrecorded(1) {
			if err := w.Changed(ctx, c); err != nil {
				if ctx.Err() == nil {
					w.Logger.ErrorContext(ctx, "the state of the key is not recorded; it is tried again", "state", c.To, "error", err)
				}
				return
			}
		}
	}()
}
