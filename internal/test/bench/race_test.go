//go:build !race

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
	// Rounds are short, so that contenders see the same load on the machine,
	// but long enough for several calls of every caller.
	roundTime     = 40 * time.Millisecond
	timePerCaller = 1250 * time.Microsecond

	// mostASecond is more calls per second than any contender can make.
	mostASecond = 50_000

	warmCalls   = 6000
	warmCallers = 32
	warmRounds  = 25 // at most
)

// contender is one of the ways to do the work of a race.
type contender struct {
	name string
	// call does the work once.
	call func() error
	// prepare prepares this many calls and drops what is left from before. It
	// may be nil. A call without prepared work returns errDry.
	prepare func(calls int) error

	rates []float64 // calls per second in each round
}

// errDry ends a round early.
var errDry = errors.New("bench: all prepared work is used up")

// rate returns the median over the rounds, in calls per second.
func (c *contender) rate() float64 { return median(c.rates) }

// perSecond formats the rate for the table.
func (c *contender) perSecond() string { return fmt.Sprintf("%s %.0f/s", c.name, c.rate()) }

// over returns how many times faster c was than another contender: the median
// over the rounds. In each round they run one after the other.
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

// race lets contenders take turns, after a round that does not count. A
// different contender begins each round.
//
// Preparing takes work and leaves garbage on the heap. If one contender
// prepares, all do, so that their rounds start under the same conditions.
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

// warmUp lets contenders write small rows until their files stop growing with
// every write. A write that grows the file is several times as slow.
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

// run runs one round and returns the calls per second. The prepared work exists
// only during the contender's own round: in the others' rounds it would be
// extra work for the garbage collector.
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
