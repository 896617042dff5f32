package share

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// empty fails the test if a slot is taken or wanted, or if a holder is left.
func (p *Slots[K]) empty(t *testing.T) {
	t.Helper()
	if p.taken != 0 || len(p.holders) != 0 || len(p.next) != 0 || p.Waiting() != 0 {
		t.Errorf("left over: %d slots, %d holders, %d in line, %d waiting", p.taken, len(p.holders), len(p.next), p.Waiting())
	}
}

func TestTryRefusesBeyondLimits(t *testing.T) {
	t.Parallel()
	p := New[string](Limits{Total: 3, Each: 2})
	var got []bool
	for _, key := range []string{"a", "a", "a", "b", "b", "c"} {
		got = append(got, p.Try(key))
	}
	must.Same(t, "slots", []bool{true, true, false, true, false, false}, got)
	p.Give("a")
	if !p.Try("c") {
		t.Error("the slot that was given back is not free")
	}
	for _, key := range []string{"a", "b", "c"} {
		p.Give(key)
	}
	p.empty(t)
}

func TestWithoutATotalOnlyTheLimitPerHolderCounts(t *testing.T) {
	t.Parallel()
	p := New[int](Limits{Each: 1})
	for key := range 100 {
		if !p.Try(key) || p.Try(key) {
			t.Fatalf("holder %d does not have exactly one slot", key)
		}
	}
	for key := range 100 {
		p.Give(key)
	}
	p.empty(t)
}

// line starts a caller and returns once it waits.
func line(t *testing.T, p *Slots[string], key string, served chan<- string) {
	t.Helper()
	go func() {
		if err := p.Take(t.Context(), key); err != nil {
			t.Error(err)
		}
		served <- key
	}()
	synctest.Wait()
}

func TestHolderWithFewestSlotsIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New[string](Limits{Total: 3, Each: 3})
		for _, key := range []string{"a", "a", "b"} {
			if !p.Try(key) {
				t.Fatal("no slot is free")
			}
		}
		served := make(chan string, 6)
		for _, key := range []string{"a", "a", "c", "b", "c"} {
			line(t, p, key, served)
		}
		must.Same(t, "whether a is wanted, and callers that wait", []any{true, 5}, []any{p.Wanted("a"), p.Waiting()})
		var got []string
		for _, key := range []string{"a", "a", "b", "c", "b"} {
			p.Give(key)
			synctest.Wait()
			got = append(got, <-served)
		}
		// c has no slot; then a and b have one each and a has waited longer; c again;
		// b; a.
		must.Same(t, "order", []string{"c", "a", "b", "c", "a"}, got)
		for _, key := range []string{"a", "a", "c"} {
			p.Give(key)
		}
		p.empty(t)
	})
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New[string](Limits{Total: 1, Each: 1, Patience: time.Minute})
		if !p.Try("a") {
			t.Fatal("no slot is free")
		}
		start := time.Now()
		if err := p.Take(t.Context(), "b"); !errors.Is(err, ErrFull) || time.Since(start) != time.Minute {
			t.Errorf("without patience left: %v after %s", err, time.Since(start))
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Match(t, "at the end of the context", p.Take(gone, "b"), context.DeadlineExceeded)
		p.Give("a")
		p.empty(t)
	})
}

func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New[string](Limits{Total: 1, Each: 1, Queue: 3, QueueEach: 2})
		served := make(chan string, 4)
		for _, key := range []string{"a", "a", "a", "b"} {
			line(t, p, key, served)
		}
		for key, why := range map[string]string{"a": "its own queue is full", "c": "all queues are full"} {
			must.Match(t, why, p.Take(t.Context(), key), ErrFull)
		}
		for range 4 {
			p.Give(<-served)
			synctest.Wait()
		}
		p.empty(t)
	})
}

func TestCloseRefusesWaitingCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New[string](Limits{Total: 1, Each: 1})
		if !p.Try("a") {
			t.Fatal("no slot is free")
		}
		failed := make(chan error, 1)
		go func() { failed <- p.Take(t.Context(), "b") }()
		synctest.Wait()
		p.Close()
		must.Match(t, "a caller that waited", <-failed, ErrClosed)
		if err := p.Take(t.Context(), "c"); !errors.Is(err, ErrClosed) || p.Try("c") {
			t.Errorf("a caller that comes later: %v", err)
		}
		p.Give("a")
		p.empty(t)
	})
}

// TestLimitsHoldUnderConcurrency takes and returns slots at random, with callers
// that give up, and checks the limits at every moment.
func TestLimitsHoldUnderConcurrency(t *testing.T) {
	t.Parallel()
	const total, each, holders = 5, 2, 6
	p := New[int](Limits{Total: total, Each: each, QueueEach: 4})
	var all atomic.Int32
	var own [holders]atomic.Int32
	var callers sync.WaitGroup
	for range 4 * holders {
		callers.Go(func() {
			for range long.Rounds(200, 20_000) {
				key := rand.IntN(holders)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					cancel()
				}
				if p.Take(ctx, key) == nil {
					if all.Add(1) > total || own[key].Add(1) > each {
						t.Error("more slots are taken than exist")
					}
					own[key].Add(-1)
					all.Add(-1)
					p.Give(key)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	p.empty(t)
}

// With a negative queue, no caller waits.
func TestNegativeQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	p := New[string](Limits{Total: 1, Each: 1, Queue: -1})
	must.Do(t, p.Take(t.Context(), "a"))
	must.Match(t, "a caller too many", p.Take(t.Context(), "b"), ErrFull)
}
