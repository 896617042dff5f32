package citus

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// twoServers returns servers 1 and 2 with 8 connections that read, and a tenant of
// each.
func twoServers() (v *Servers, one, two storage.ID) {
	v = &Servers{retryFor: 20 * time.Second, reading: 8, writing: 8}
	v.read = func(context.Context) (*Shards, error) { return nil, errors.New("not now") }
	v.set(&Shards{first: []int32{-1 << 31, 0}, server: []int32{1, 2}, servers: 2})
	for v.now.Load().of(one) != 1 {
		one[0]++
	}
	for v.now.Load().of(two) != 2 {
		two[0]++
	}
	return v, one, two
}

// Reads of a server that hangs leave connections for the tenants of others.
func TestReadsOfHungServerLeaveConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, hung, well := twoServers()
		hang, running := make(chan struct{}), 0
		var calls sync.WaitGroup
		var mu sync.Mutex
		for range 40 {
			calls.Go(func() {
				err := v.Run(t.Context(), hung, func() error {
					mu.Lock()
					running++
					mu.Unlock()
					<-hang
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if running != 4 {
			t.Errorf("%d of 8 connections are used by one of two servers, want 4", running)
		}
		if err := v.Run(t.Context(), well, func() error { return nil }); err != nil {
			t.Errorf("a read of the other server: %v", err)
		}
		close(hang)
		calls.Wait()
	})
}

// When a server does not respond, one call at a time tries it. The others wait
// until it has been silent for RetryFor, and then fail at once.
func TestCallsToSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, silent, well := twoServers()
		timeout := func() error { return os.ErrDeadlineExceeded }
		fine := func() error { return nil }
		if err := v.Run(t.Context(), silent, timeout); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		hang := make(chan struct{})
		go v.Run(t.Context(), silent, func() error { <-hang; return os.ErrDeadlineExceeded })
		synctest.Wait()
		before := time.Now()
		if err := v.Run(t.Context(), silent, fine); !errors.Is(err, storage.ErrUnavailable) || time.Since(before) != v.retryFor {
			t.Errorf("after %v: %v; want ErrUnavailable after %v", time.Since(before), err, v.retryFor)
		}
		before = time.Now()
		if err := v.Run(t.Context(), silent, fine); !errors.Is(err, storage.ErrUnavailable) || time.Since(before) != 0 {
			t.Errorf("after %v: %v; want ErrUnavailable at once", time.Since(before), err)
		}
		if err := v.Run(t.Context(), well, fine); err != nil {
			t.Errorf("the other server: %v", err)
		}
		close(hang)
		synctest.Wait()
		if err := v.Run(t.Context(), silent, fine); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("right after a call that tried: %v", err)
		}
		time.Sleep(trialPause)
		for range 2 {
			if err := v.Run(t.Context(), silent, fine); err != nil {
				t.Errorf("a server that responds again: %v", err)
			}
		}
		if n := v.silences.Load(); n != 0 {
			t.Errorf("%d silent servers, want none", n)
		}
	})
}

// Calls that wait for a silent server go on when it responds.
func TestCallsWaitForSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v, silent, _ := twoServers()
		v.Record(1, os.ErrDeadlineExceeded)
		respond := make(chan struct{})
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if err := v.Run(t.Context(), silent, func() error { <-respond; return storage.ErrNotFound }); !errors.Is(err, storage.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		time.Sleep(v.retryFor / 2)
		close(respond)
		calls.Wait()
	})
}

func TestShareOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, servers, want int }{
		{8, 0, 8}, {8, 1, 8}, {8, 2, 4}, {9, 2, 5}, {8, 3, 3}, {8, 32, 2}, {2, 2, 1}, {1, 2, 1},
	} {
		if got := shareOf(c.n, c.servers); got != c.want {
			t.Errorf("%d connections, %d servers: %d for each, want %d", c.n, c.servers, got, c.want)
		}
	}
}
