package postgres

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A pledge stays open while the session of a statement may still commit, but not
// forever.
func TestPledgeWaitsForUnknownStatements(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"the session ends": true, "the worker never says": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pledge{owner: &pledges{}, slot: &slot{}, begun: time.Now()}
				if !p.enter(time.Now()) {
					t.Fatal("a new pledge takes no statements")
				}
				var ended atomic.Bool
				p.retire()
				p.leaveAfter(ended.Load)
				check := func(after time.Duration, want bool) {
					<-time.After(after)
					synctest.Wait()
					if p.isOver() != want {
						t.Errorf("the pledge is over: %t, want %t", !want, want)
					}
				}
				check(unknownFor/2, false)
				ended.Store(ends)
				check(2*endedPause, ends)
				check(unknownFor, true)
			})
		})
	}
}

// Callers share responses, but each gets one whose question was sent after its call.
func TestQuestionsAreShared(t *testing.T) {
	t.Parallel()
	const callers, each = 20, 100
	var sent atomic.Int64
	q := question{ask: func() (int64, error) {
		n := sent.Add(1)
		runtime.Gosched()
		return n, nil
	}}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				before := sent.Load()
				if n, err := q.get(); err != nil || n <= before {
					t.Errorf("got response %d after %d questions (%v)", n, before, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := sent.Load(); n == callers*each {
		t.Errorf("%d questions were sent for as many callers", n)
	}
}
