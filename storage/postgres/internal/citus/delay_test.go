package citus

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestBoundsSettle moves the clock and expects the latest bound that has been
// known long enough.
func TestBoundsSettle(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1e9, 0)
	s := LogDelay{Wait: UsualLogDelay, Now: func() time.Time { return clock }}
	for i, c := range []struct {
		after                 time.Duration
		cluster, oldest, want int64
	}{
		{0, 1, 100, 0},
		{100 * time.Millisecond, 1, 101, 0}, // too soon to be recorded
		{4900 * time.Millisecond, 1, 150, 0},
		{5 * time.Second, 1, 200, 100},
		{5 * time.Second, 1, 300, 150},
		{time.Hour, 1, 900, 300},
		{UsualLogDelay, 1, 950, 900},
		{UsualLogDelay, 1, 20, 20}, // the server was set back
		{time.Second, 2, 5000, 0},
		{UsualLogDelay, 2, 5001, 5000},
	} {
		clock = clock.Add(c.after)
		must.Same(t, fmt.Sprintf("%d", i), c.want, s.Bound(c.cluster, c.oldest))
	}
}
