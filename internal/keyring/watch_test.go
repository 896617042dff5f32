package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// holder is the holder of a key. Its answer can be changed.
type holder struct {
	mu     sync.Mutex
	answer error
	takes  time.Duration
	asked  int
	told   []KeyState
	notes  error // of the record of changes
}

func (h *holder) set(answer error, hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.takes = answer, 0
	if hangs {
		h.takes = time.Hour
	}
}

func (h *holder) check(ctx context.Context) error {
	h.mu.Lock()
	h.asked++
	answer, takes := h.answer, h.takes
	h.mu.Unlock()
	if takes == 0 {
		return answer
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
		return answer
	}
}

func (h *holder) changed(_ context.Context, c KeyChange) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notes == nil {
		h.told = append(h.told, c.To)
	}
	return h.notes
}

// denied is an error as a KMS client of a program would return it.
var errDenied = fmt.Errorf("kms: key is disabled: %w", fault.ErrKeyDenied)

// watched is a cache whose master key has a holder.
func watched(t *testing.T, age, grace time.Duration) (*ringCache, *Watch, *holder) {
	t.Helper()
	w, h := newRingCache(t, time.Second), &holder{}
	watch := NewWatch(WatchConfig{
		Age: age, Grace: grace, Check: h.check, Drop: w.DropAll, Changed: h.changed, Now: time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	w.cfg.Usable = watch.Usable
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go watch.Run(ctx)
	return w, watch, h
}

// tenants returns how many tenants the cache has.
func (w *ringCache) tenants() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// after advances the clock and returns the error of a call.
func (w *ringCache) after(t *testing.T, d time.Duration) error {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
	return must.Err(w.Get(t.Context(), w.tenant))
}

// A denial takes effect within the age of the keys, drops them, and ends with the
// next check after the key is enabled again.
func TestDeniedKeyIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch, h := watched(t, time.Minute, 5*time.Minute)
		must.Do(t, w.after(t, 0))
		h.set(errDenied, false)
		must.Match(t, "before the check", w.after(t, 29*time.Second), nil)
		if err := w.after(t, 31*time.Second); !errors.Is(err, fault.ErrKeyDenied) || watch.State() != KeyDenied {
			t.Errorf("when the keys are old: %v, want ErrKeyDenied", err)
		}
		must.Fail(w.Reload(t.Context(), w.tenant))(t, "a reload", fault.ErrKeyDenied)
		must.Fail(w.Read(t.Context(), w.store, w.tenant, false))(t, "a read in a transaction", fault.ErrKeyDenied)
		must.Same(t, "the keys", 0, w.tenants())
		h.set(errors.New("down"), false)
		must.Match(t, "an outage after the denial", w.after(t, time.Minute), fault.ErrKeyDenied)
		h.set(nil, false)
		must.Match(t, "after the return", w.after(t, time.Minute), nil)
		if want := []KeyState{KeyOK, KeyDenied, KeyOK}; !slices.Equal(h.told, want) {
			t.Errorf("changes: %v, want %v", h.told, want)
		}
	})
}

// While the holder does not respond, the old keys serve for the grace, and no call
// waits. There is at most one check at a time.
func TestUnreachableKeyServesForTheGrace(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		err   error
		hangs bool
	}{"fails": {errors.New("connection refused"), false}, "hangs": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _, h := watched(t, time.Minute, 5*time.Minute)
				h.set(answer.err, answer.hangs)
				must.Match(t, "during the grace", w.after(t, 6*time.Minute-time.Second), nil)
				if w.tenants() == 0 {
					t.Error("the old keys are gone during the grace")
				}
				must.Match(t, "after the grace", w.after(t, time.Second), fault.ErrKeyUnavailable)
				must.Same(t, "the keys are kept after the grace", 0, w.tenants())
				h.set(nil, false)
				must.Match(t, "after the return", w.after(t, retryUnreachable+checkTimeout), nil)
				if want := []KeyState{KeyOK, KeyUnreachable, KeyOK}; !slices.Equal(h.told, want) {
					t.Errorf("changes: %v, want %v", h.told, want)
				}
			})
		})
	}
}

// A slow holder that responds to every check in time never makes the keys too old,
// because their age begins with the response.
func TestSlowHolderKeepsKeysYoung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, h := watched(t, 40*time.Second, 0)
		h.mu.Lock()
		h.takes = checkTimeout - time.Second
		h.mu.Unlock()
		for range 600 {
			must.Do(t, w.after(t, time.Second))
		}
	})
}

// A change that cannot be recorded is recorded later.
func TestChangeIsRecordedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, h := watched(t, time.Minute, time.Minute)
		_ = w.after(t, 0)
		h.set(errDenied, false)
		h.mu.Lock()
		h.notes = errors.New("the database is down")
		h.mu.Unlock()
		_ = w.after(t, 2*time.Minute)
		h.mu.Lock()
		h.notes = nil
		h.mu.Unlock()
		_ = w.after(t, time.Minute)
		if want := []KeyState{KeyOK, KeyDenied}; !slices.Equal(h.told, want) {
			t.Errorf("changes: %v, want %v", h.told, want)
		}
	})
}

// A ring that was unwrapped while the key was denied is not kept.
func TestUnwrapDuringADenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, h := watched(t, time.Minute, time.Minute)
		release := make(chan struct{})
		w.key.wait = func() error { <-release; return nil }
		got := make(chan error, 1)
		go func() {
			_, err := w.Get(t.Context(), w.tenant)
			got <- err
		}()
		h.set(errDenied, false)
		<-time.After(time.Minute)
		close(release)
		if err := <-got; !errors.Is(err, fault.ErrKeyDenied) || w.tenants() != 0 {
			t.Errorf("got %v with %d known tenants, want ErrKeyDenied and none", err, w.tenants())
		}
	})
}

// A full cache loses one tenant for each new one.
func TestFullCacheReplacesOneTenant(t *testing.T) {
	t.Parallel()
	w := newRingCache(t, time.Second)
	for w.tenants() < maxTenants {
		w.known.Put(maxTenants, uuid.New(), &known[string]{})
	}
	if _, err := w.Get(t.Context(), w.tenant); err != nil || w.tenants() != maxTenants || w.known[w.tenant] == nil {
		t.Errorf("%v; %d tenants are known, want %d with the new one", err, w.tenants(), maxTenants)
	}
}
