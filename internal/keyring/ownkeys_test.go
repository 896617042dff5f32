package keyring

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// hangingKey is a key in a service that hangs while hangs is set, and denies it while
// denied is.
type hangingKey struct {
	seal.AEAD
	hangs, denied atomic.Bool
	calls, atOnce atomic.Int32
}

func (k *hangingKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	if n := k.calls.Add(1); !seal.IsFresh(ctx) && n > k.atOnce.Load() {
		k.atOnce.Store(n)
	}
	defer k.calls.Add(-1)
	if k.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if k.denied.Load() {
		return nil, errDenied
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

func (k *hangingKey) EncryptWithContext(_ context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return k.AEAD.Encrypt(plaintext, associatedData)
}

// A service that hangs gets a few calls at a time, all of which end, and the tenants of
// another service wait for none of them.
func TestHungServiceDelaysOnlyItsTenants(t *testing.T) {
	t.Parallel()
	for name, fromStart := range map[string]bool{"from the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				aead := must.Get(seal.NewAEAD(seal.RandomKey()))(t)
				keys := map[string]*hangingKey{"hung": {AEAD: aead}, "other": {AEAD: aead}}
				own := NewOwnKeys(OwnConfig{
					Open: func(_ context.Context, uri string) (seal.AEAD, error) { return keys[uri], nil },
					Age:  time.Minute, Grace: 5 * time.Minute, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
					Drop:    func([]uuid.UUID) {},
					Changed: func(context.Context, []uuid.UUID, KeyChange) error { return nil },
				})
				defer own.Close()
				open := func(uri string) error {
					tenant := uuid.New()
					root, wrapped, err := seal.MakeRoot(t.Context(), aead, tenant)
					must.Do(t, err)
					return must.Err(own.open(t.Context(), tenant, &seal.OwnKey{URI: uri, Wrapped: wrapped, Fingerprint: root.Fingerprint}))
				}
				if !fromStart {
					must.Do(t, open("hung"))
				}
				keys["hung"].hangs.Store(true)
				began, errs := time.Now(), make(chan error, 20)
				for range cap(errs) {
					go func() { errs <- open("hung") }()
				}
				synctest.Wait()
				if err := open("other"); err != nil || !time.Now().Equal(began) {
					t.Errorf("another service: %v after %s", err, time.Since(began))
				}
				for range cap(errs) {
					must.Match(t, "got", <-errs, fault.ErrKeyUnavailable)
				}
				if got := keys["hung"].atOnce.Load(); got > callsAtOnce || time.Since(began) > checkTimeout {
					t.Errorf("%d calls at a time for %s", got, time.Since(began))
				}
				if states := own.States(); fromStart && states[KeyUnreachable] != 1 || states[KeyOK] == 0 {
					t.Errorf("states: %v", states)
				}
			})
		})
	}
}

// Nothing that a denied key opened is used any more, even before it is dropped.
func TestDeniedOwnKeyIsNotUsedUntilItIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, key := newRingCache(t, time.Hour), &hangingKey{AEAD: must.Get(seal.NewAEAD(seal.RandomKey()))(t)}
		var got []error
		w.cfg.Own = NewOwnKeys(OwnConfig{
			Open: func(context.Context, string) (seal.AEAD, error) { return key, nil },
			Age:  2 * minPause, Grace: time.Hour, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			Drop: func(tenants []uuid.UUID) {
				got = append(got, must.Err(w.Get(t.Context(), w.tenant)), must.Err(w.Reload(t.Context(), w.tenant)))
				w.DropKeys(tenants)
			},
			Changed: func(context.Context, []uuid.UUID, KeyChange) error { return nil },
		})
		defer w.cfg.Own.Close()
		w.wrap(t, must.Get(w.ring.WithOwn(must.Get(w.cfg.Own.Make(t.Context(), w.tenant, "own"))(t)))(t))
		must.Get(w.Get(t.Context(), w.tenant))(t)
		key.denied.Store(true)
		<-time.After(2 * minPause)
		synctest.Wait()
		must.Same(t, "calls before the keys are dropped", 2, len(got))
		for i, call := range []string{"a call", "a call that reads again"} {
			must.Match(t, call, got[i], fault.ErrKeyDenied)
		}
	})
}
