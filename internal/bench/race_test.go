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
	rounds = 40
	// Rounds are short, so that contenders see the same machine, but long
	// enough that many callers get several turns each.
	roundTime     = 40 * time.Millisecond
	timePerCaller = 1250 * time.Microsecond

	// mostASecond is more calls than a contender manages.
	mostASecond = 50_000

	warmCalls   = 6000
	warmCallers = 32
	warmRounds  = 25 // at most
)

// contender is one way to do the work that a race is about.
type contender struct {
	name string
	// call does it once.
	call func() error
	// prepare makes ready for this many calls, in place of what is left from
	// before; it may be nil. A call that finds too little prepared returns errDry.
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

// race lets contenders take turns, after a round that does not count. Which of
// them begins changes from round to round.
//
// To prepare is work, and leaves a heap behind. If one of them does, all do, so
// that they begin their rounds alike.
func race(b *testing.B, callers int, contenders ...*contender) {
	b.Helper()
	for _, c := range contenders {
		for _, other := range contenders {
			if c.prepare == nil {
				c.prepare = other.prepare
			}
		}
	}
	length := roundTime + time.Duration(callers)*timePerCaller
	for round := range rounds + 1 {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			rate, err := c.run(callers, length)
			if err != nil {
				b.Fatalf("%s with %d callers: %v", c.name, callers, err)
			}
			if round > 0 {
				c.rates = append(c.rates, rate)
			}
		}
	}
}

// warmUp lets contenders that write small rows do so until their files no
// longer grow with every write, which makes a write several times as slow.
func warmUp(b *testing.B, contenders ...*contender) {
	b.Helper()
	for _, c := range contenders {
		const length = 3 * roundTime
		calls := 0.0
		for round := 0; round < warmRounds && calls < warmCalls; round++ {
			rate, err := c.run(warmCallers, length)
			if err != nil {
				b.Fatalf("%s, warming up: %v", c.name, err)
			}
			calls += rate * length.Seconds()
		}
	}
}

// run is one round: as many calls as some callers manage. What the contender
// has prepared is there in its own rounds alone: in those of others it would be
// so much more that their garbage collector has to go through.
func (c *contender) run(callers int, length time.Duration) (rate float64, err error) {
	if c.prepare != nil {
		if err := c.prepare(int(mostASecond * length.Seconds())); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, c.prepare(0)) }()
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
			for time.Since(start) < length {
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
