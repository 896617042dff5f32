package vault

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// countedKey is a master key that counts what it is asked to open, as a KMS
// does on its bill, and may take its time for it.
type countedKey struct {
	*Key
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
	return k.Key.Decrypt(ciphertext, associatedData)
}

// counted opens a vault with a tenant under a counted key.
func counted(t *testing.T, cfg Config) (*Vault, *countedKey, uuid.UUID) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	cfg.SweepEvery, cfg.WorkEvery = -1, -1
	key := &countedKey{Key: NewKey()}
	v, err := Open(t.Context(), store, key, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	v.horizon = 0
	key.opened.Store(0) // Open has tried it
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	return v, key, tenant.ID
}

// readRecords answers reads of records from memory.
type readRecords struct {
	storage.Storage
	recs map[string][]storage.Record // by kind
}

func (r readRecords) Records(_ context.Context, _ storage.ID, kind string, _ []storage.ID) ([]storage.Record, error) {
	return r.recs[kind], nil
}

// bubbled calls a test in a bubble in which it can wait until all callers wait.
// A backend keeps goroutines and channels that do not belong in there, so what
// the cache reads is read before.
func bubbled(t *testing.T, test func(*testing.T, *tenantCache, *countedKey, uuid.UUID)) {
	t.Helper()
	v, key, tenant := counted(t, Config{})
	known := readRecords{recs: map[string][]storage.Record{}}
	for _, kind := range []string{kindTenant, kindRing} {
		recs, err := v.store.Records(t.Context(), storage.ID(tenant), kind, []storage.ID{storage.ID(tenant)})
		if err != nil {
			t.Fatal(err)
		}
		known.recs[kind] = recs
	}
	synctest.Test(t, func(t *testing.T) {
		test(t, newTenantCache(&Vault{store: known, master: key, cfg: v.cfg}), key, tenant)
	})
}

// A ring is unwrapped when a node sees it for the first time and when it has
// been wrapped anew, however often it is read.
func TestRingIsUnwrappedWhenItChanged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, key, tenant := counted(t, Config{KeyAge: time.Nanosecond})
	c := v.Tenant(tenant)
	use := func(wanted int32) {
		t.Helper()
		for range 5 {
			if _, err := c.CreateToken(ctx, TokenParams{Type: Generic, Data: "secret"}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.UpdateTenant(ctx, TenantParams{Name: "Acme"}); err != nil {
				t.Fatal(err)
			}
		}
		if got := key.opened.Load(); got != wanted {
			t.Errorf("the master key was asked %d times, want %d", got, wanted)
		}
	}
	use(1)
	if err := v.RotateKeys(ctx, tenant, nil); err != nil {
		t.Fatal(err)
	}
	use(4) // once more for each of pending, primary, destroyed
	if err := v.DeleteTenant(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	if n := len(v.tenants.rings); n != 0 {
		t.Errorf("%d rings of deleted tenants are kept", n)
	}
}

// Operations that need the same keys at the same time ask for them once. One
// that is cancelled does not wait.
func TestOperationsShareOneUnwrapping(t *testing.T) {
	t.Parallel()
	bubbled(t, func(t *testing.T, cache *tenantCache, key *countedKey, tenant uuid.UUID) {
		answer := make(chan struct{})
		key.wait = func() error {
			<-answer
			return nil
		}
		const callers = 20
		errs := make(chan error, callers)
		for i := range callers {
			go func() {
				var err error
				if i%2 == 0 {
					_, err = cache.get(t.Context(), tenant)
				} else {
					_, err = cache.reload(t.Context(), tenant)
				}
				errs <- err
			}()
		}
		cut, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		synctest.Wait() // one asks the master key, the others wait for it
		go func() {
			_, err := cache.get(cut, tenant)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that was cancelled: %v", err)
		}
		close(answer)
		for range callers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := key.opened.Load(); got != 1 {
			t.Errorf("the master key was asked %d times, want once", got)
		}
	})
}

// A caller that gives up, or panics, while others wait for what it reads does
// not take them with it.
func TestSharedReadingOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"cancelled": func() error { return context.Canceled },
		"panicking": func() error { panic("as the client of a KMS might") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbled(t, func(t *testing.T, cache *tenantCache, key *countedKey, tenant uuid.UUID) {
				ctx, cancel := context.WithCancel(t.Context())
				release := make(chan struct{})
				key.wait = func() error {
					if key.opened.Load() > 1 {
						return nil
					}
					<-release
					return end()
				}
				go func() {
					defer func() { _ = recover() }()
					if _, err := cache.get(ctx, tenant); err == nil {
						t.Error("the first caller succeeded")
					}
				}()
				synctest.Wait() // it asks the master key
				second := make(chan error, 1)
				go func() {
					_, err := cache.get(t.Context(), tenant)
					second <- err
				}()
				synctest.Wait() // it waits for the first
				cancel()
				close(release)
				if err := <-second; err != nil {
					t.Errorf("the one that waited: %v", err)
				}
			})
		})
	}
}

// However old keys may become, an operation begins with keys that it has the
// time to write under.
func TestKeysAreReadAgainInTimeToWrite(t *testing.T) {
	t.Parallel()
	v, _, tenant := counted(t, Config{KeyAge: maxKeyAge})
	c := v.Tenant(tenant)
	for range 2 {
		if _, err := c.CreateToken(t.Context(), TokenParams{Type: Generic, Data: "x"}); err != nil {
			t.Fatal(err)
		}
		old := *v.tenants.states[tenant]
		old.readAt = time.Now().Add(-maxKeyAge + time.Second)
		v.tenants.keep(tenant, &old)
	}
	state, err := v.tenants.get(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(state.readAt); age > maxKeyAge/2 {
		t.Errorf("an operation begins with keys that were read %s ago, and must have written within %s", age, maxKeyAge)
	}
}
