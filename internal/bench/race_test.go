package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	rounds    = 9
	roundTime = 250 * time.Millisecond
)

// contender is one way to do the work that a race is about.
type contender struct {
	name string
	// call does it once.
	call func() error
	// prepare makes ready for this many calls, outside of the measured time; it
	// may be nil. A call that finds too little prepared returns errDry.
	prepare func(calls int) error

	rates []float64 // calls a second, by round
}

// errDry ends a round before its time.
var errDry = errors.New("bench: nothing is prepared any more")

// rate is the median of the rounds.
func (c *contender) rate() float64 { return median(c.rates) }

// perSecond is the rate as the table shows it.
func (c *contender) perSecond() string { return fmt.Sprintf("%s %.0f/s", c.name, c.rate()) }

// over returns by what factor c was faster than another contender: the median
// over the rounds, in each of which they ran one after the other.
func (c *contender) over(other *contender) float64 {
	ratios := make([]float64, len(c.rates))
	for i := range ratios {
		ratios[i] = c.rates[i] / other.rates[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// race lets contenders take turns, after a round that does not count. Whoever
// begins changes from round to round.
func race(b *testing.B, callers int, contenders ...*contender) {
	b.Helper()
	expected := make([]int, len(contenders))
	for round := range rounds + 1 {
		for i := range contenders {
			at := (i + round) % len(contenders)
			c := contenders[at]
			rate, err := c.run(callers, max(2*expected[at], 500))
			if err != nil {
				b.Fatalf("%s with %d callers: %v", c.name, callers, err)
			}
			expected[at] = int(rate * roundTime.Seconds())
			if round > 0 {
				c.rates = append(c.rates, rate)
			}
		}
	}
}

// run is one round: as many calls as some callers manage. It starts without
// the garbage of others.
func (c *contender) run(callers, expected int) (rate float64, err error) {
	if c.prepare != nil {
		if err := c.prepare(expected); err != nil {
			return 0, err
		}
	}
	runtime.GC()
	var calls atomic.Int64
	errs := make(chan error, callers)
	var running sync.WaitGroup
	start := time.Now()
	for range callers {
		running.Go(func() {
			n := int64(0)
			defer func() { calls.Add(n) }()
			for time.Since(start) < roundTime {
				if err := c.call(); errors.Is(err, errDry) {
					return
				} else if err != nil {
					errs <- err
					return
				}
				n++
			}
		})
	}
	running.Wait()
	elapsed := time.Since(start)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(calls.Load()) / elapsed.Seconds(), nil
	}
}
