package vault_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// askedStore counts the questions whether it answers, and may let them wait.
type askedStore struct {
	storage.Storage
	asked atomic.Int32
	hang  chan struct{} // takes one value when it is asked, and is closed to answer
}

func (s *askedStore) Ping(ctx context.Context) error {
	s.asked.Add(1)
	if s.hang != nil {
		<-s.hang
		<-s.hang
	}
	return s.Storage.Ping(ctx)
}

func askedVault(t *testing.T, hang chan struct{}) (*vault.Vault, *askedStore) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	store := &askedStore{Storage: db, hang: hang}
	v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v, store
}

// However many probes there are, the database is asked once a second.
func TestPingAsksOnceASecond(t *testing.T) {
	t.Parallel()
	v, store := askedVault(t, nil)
	began := time.Now()
	var probes sync.WaitGroup
	for range 50 {
		probes.Go(func() {
			if err := v.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	probes.Wait()
	if got, most := store.asked.Load(), 1+int32(time.Since(began)/time.Second); got > most {
		t.Errorf("the database was asked %d times in %s", got, time.Since(began))
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if err := v.Ping(t.Context()); !errors.Is(err, vault.ErrClosed) {
		t.Errorf("a vault that is closed: %v", err)
	}
}

// A database that hangs, whatever the context says, does not hold a probe.
func TestPingDoesNotHang(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	v, store := askedVault(t, hang)
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		hang <- struct{}{} // as soon as the database is asked
		cancel()
	}()
	for range 3 {
		if err := v.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	}
	if got := store.asked.Load(); got != 1 {
		t.Errorf("a database that has not answered was asked %d times", got)
	}
}
