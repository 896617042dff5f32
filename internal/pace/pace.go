// Package pace has the waits of background work: intervals, pauses, and pauses that
// grow with each failure.
package pace

import (
	"context"
	"time"
)

// Every calls do at intervals until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// Sleep waits for a duration. It returns the error of ctx if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff returns the pause after the n-th failure in a row: first, and twice as
// long after each further failure, up to longest. Callers add a random part, so that
// nodes that failed together do not retry together.
func Backoff(n int, first, longest time.Duration) time.Duration {
	pause := first
	for ; n > 1 && pause < longest-pause; n-- {
		pause *= 2
	}
	if n > 1 {
		return longest
	}
	return min(pause, longest)
}
