package citus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
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
		must.Same(t, "of 8 connections are used by one of two servers", 4, running)
		must.Match(t, "a read of the other server", v.Run(t.Context(), well, func() error { return nil }), nil)
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
		must.Match(t, "Run", v.Run(t.Context(), silent, timeout), os.ErrDeadlineExceeded)
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
		must.Match(t, "the other server", v.Run(t.Context(), well, fine), nil)
		close(hang)
		synctest.Wait()
		must.Match(t, "right after a call that tried", v.Run(t.Context(), silent, fine), storage.ErrUnavailable)
		time.Sleep(trialPause)
		for range 2 {
			must.Match(t, "a server that responds again", v.Run(t.Context(), silent, fine), nil)
		}
		must.Same(t, "silent servers", int32(0), v.silences.Load())
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
		must.Same(t, fmt.Sprintf("%d connections, %d servers", c.n, c.servers), c.want, shareOf(c.n, c.servers))
	}
}
