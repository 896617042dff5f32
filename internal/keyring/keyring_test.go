package keyring

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// countedKey is a master key that counts decryptions, like the bill of a KMS,
// and can be slow.
type countedKey struct {
	seal.AEAD
	opened atomic.Int32
	wait   func() error
}

func (k *countedKey) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	k.opened.Add(1)
	if k.wait != nil {
		if err := k.wait(); err != nil {
			return nil, err
		}
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

// records returns records from memory, because the goroutines of a database
// cannot be in a synctest bubble.
type records map[string][]storage.Record

func (r records) Records(_ context.Context, _ storage.ID, kind string, _ []storage.ID) ([]storage.Record, error) {
	return r[kind], nil
}

var errMissing = errors.New("missing")

// ringCache is a cache and its source.
type ringCache struct {
	*Cache[string]
	key    *countedKey
	store  records
	tenant uuid.UUID
	ring   *seal.Ring
}

func newRingCache(t *testing.T, age time.Duration) *ringCache {
	t.Helper()
	aead, err := seal.NewAEAD(seal.RandomKey())
	must.Do(t, err)
	w := &ringCache{key: &countedKey{AEAD: aead}, store: records{}, tenant: uuid.New()}
	w.ring = must.Get(seal.NewRing(time.Now()))(t)
	w.seal(t, w.ring)
	w.wrap(t, w.ring)
	w.Cache = New(Config[string]{
		Store: w.store, Root: w.key, Missing: errMissing, Age: age, Usable: func() error { return nil }, Own: NewOwnKeys(OwnConfig{Age: -1}),
		Bad:    func(_ context.Context, _ uuid.UUID, _ string, _ bool, err error) error { return err },
		Decode: func(_ *storage.Record, plain []byte) (string, error) { return string(plain), nil },
	})
	return w
}

// seal stores the record of the tenant, sealed with a ring.
func (w *ringCache) seal(t *testing.T, ring *seal.Ring) {
	t.Helper()
	rec := storage.Record{Kind: KindTenant, ID: storage.ID(w.tenant), Name: "Acme", KeyVersion: ring.Version()}
	location := seal.RecordLocation(&rec)
	location.Tenant = w.tenant
	rec.Body = must.Get(ring.Seal(&location, []byte("the document")))(t)
	w.store[KindTenant] = []storage.Record{rec}
}

// wrap stores a ring.
func (w *ringCache) wrap(t *testing.T, ring *seal.Ring) {
	t.Helper()
	wrapped := must.Get(ring.Wrap(w.key, w.tenant))(t)
	w.store[KindRing] = []storage.Record{{Kind: KindRing, ID: storage.ID(w.tenant), Body: wrapped}}
}

// between calls a function between the two reads of a state.
type between struct {
	records
	do func()
}

func (b between) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if kind == KindRing {
		b.do()
	}
	return b.records.Records(ctx, tenant, kind, ids)
}

// Another node destroys the key of the tenant's record after the record was read.
// The state is read again, if the record has a newer key.
func TestKeyIsDestroyedDuringARead(t *testing.T) {
	t.Parallel()
	for name, resealed := range map[string]bool{"a rotation": true, "a record that was left out": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRingCache(t, time.Second)
			ring := w.ring
			for _, step := range []func() (*seal.Ring, error){
				func() (*seal.Ring, error) { return ring.Add(time.Now()) },
				func() (*seal.Ring, error) { return ring.Promote() },
				func() (*seal.Ring, error) { return ring.Destroy() },
			} {
				next := must.Get(step())(t)
				ring = next
			}
			reads := 0
			state, err := w.Read(t.Context(), between{w.store, func() {
				if reads++; reads == 1 {
					w.wrap(t, ring)
				}
				if resealed {
					w.seal(t, ring)
				}
			}}, w.tenant, true)
			switch {
			case resealed && (err != nil || state.Doc != "the document" || reads != 2):
				t.Errorf("after %d reads: %v, %v", reads, state, err)
			case !resealed && (!errors.Is(err, seal.ErrNoKey) || reads != readAttempts):
				t.Errorf("after %d reads: %v, want seal.ErrNoKey after %d", reads, err, readAttempts)
			}
		})
	}
}

// A ring is unwrapped when a node reads it for the first time and when it has
// been wrapped again, however often it is read.
func TestRingIsUnwrappedWhenItChanged(t *testing.T) {
	t.Parallel()
	w := newRingCache(t, time.Nanosecond)
	use := func(want int32) {
		t.Helper()
		for range 5 {
			state, err := w.Get(t.Context(), w.tenant)
			if err != nil || state.Doc != "the document" {
				t.Fatalf("%v, %v", state, err)
			}
			must.Get(w.Reload(t.Context(), w.tenant))(t)
		}
		must.Same(t, "the root was used", want, w.key.opened.Load())
	}
	use(1)
	w.wrap(t, w.ring)
	use(2)
	w.store[KindTenant] = nil
	if _, err := w.Get(t.Context(), w.tenant); !errors.Is(err, errMissing) || err.Error() != errMissing.Error() {
		t.Errorf("a deleted tenant: %v", err)
	}
	must.Same(t, "rings of deleted tenants are kept", 0, len(w.known))
}

// Concurrent operations that need the same keys unwrap them once. A canceled
// operation does not wait.
func TestOperationsShareOneUnwrap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRingCache(t, time.Second)
		answer := make(chan struct{})
		w.key.wait = func() error {
			<-answer
			return nil
		}
		const callers = 20
		errs := make(chan error, callers)
		for i := range callers {
			go func() {
				get := w.Get
				if i%2 == 1 {
					get = w.Reload
				}
				_, err := get(t.Context(), w.tenant)
				errs <- err
			}()
		}
		cut, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		synctest.Wait() // one uses the master key, the others wait for it
		go func() {
			_, err := w.Get(cut, w.tenant)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		must.Match(t, "a caller that was cancelled", <-gone, context.Canceled)
		close(answer)
		for range callers {
			must.Match(t, "a caller", <-errs, nil)
		}
		must.Same(t, "the root was used", int32(1), w.key.opened.Load())
	})
}

// If the caller that reads for others gives up or panics, the others still
// get a result.
func TestSharedReadOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"cancelled": func() error { return context.Canceled },
		"panicking": func() error { panic("as the client of a KMS might") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newRingCache(t, time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				release := make(chan struct{})
				w.key.wait = func() error {
					if w.key.opened.Load() > 1 {
						return nil
					}
					<-release
					return end()
				}
				go func() {
					defer func() { _ = recover() }()
					must.Fail(w.Get(ctx, w.tenant))(t, "the first caller succeeded", context.Canceled)
				}()
				synctest.Wait() // it uses the master key
				second := make(chan error, 1)
				go func() {
					_, err := w.Get(t.Context(), w.tenant)
					second <- err
				}()
				synctest.Wait() // it waits for the first
				cancel()
				close(release)
				must.Match(t, "the caller that waited", <-second, nil)
			})
		})
	}
}

// However old keys may become, an operation starts with keys that leave time
// to write. Changes of this node are read again.
func TestKeysAreReadAgainInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newRingCache(t, MaxAge)
		get := func() *State[string] {
			t.Helper()
			return must.Get(w.Get(t.Context(), w.tenant))(t)
		}
		first := get()
		<-time.After(MaxAge - timeToWrite - time.Millisecond)
		if get() != first {
			t.Error("keys that leave time to write are read again")
		}
		<-time.After(time.Millisecond)
		second := get()
		if second == first || time.Until(second.WriteBefore()) != MaxAge {
			t.Errorf("an operation begins with %s to write", time.Until(second.WriteBefore()))
		}
		<-time.After(time.Millisecond)
		w.Forget(w.tenant)
		<-time.After(time.Millisecond)
		if get() == second {
			t.Error("a state from before a change is used")
		}
	})
}

// TestRotationsWaitForEveryNode checks that a key is destroyed only when no
// node can seal with it. Keys in use are at most MaxAge old, and a write that
// started in time still has to arrive.
func TestRotationsWaitForEveryNode(t *testing.T) {
	t.Parallel()
	if Horizon < MaxAge+timeToWrite {
		t.Errorf("a rotation waits %s, and a node may seal under the old key for %s", Horizon, MaxAge+timeToWrite)
	}
}
