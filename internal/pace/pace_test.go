package pace_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		n := 0
		pace.Every(ctx, 10*time.Second, func() { n++ })
		must.Same(t, "calls in 35 seconds, one every 10", 3, n)
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pace.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("slept for %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Match(t, "the context ended", pace.Sleep(ctx, time.Minute), context.DeadlineExceeded)
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 1, 2: 2, 5: 16, 6: 20, 1000: 20} {
		must.Same(t, fmt.Sprintf("after %d failures", n), want, pace.Backoff(n, 1, 20))
	}
	if got := pace.Backoff(1000, math.MaxInt64/2+1, math.MaxInt64); got <= 0 {
		t.Errorf("a long pause overflowed: %d", got)
	}
}
