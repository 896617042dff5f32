package jsonx

import "time"

// Work on a large value takes up to 0.1 s, and on a machine with few CPUs that
// can be all that runs: the other one collects garbage meanwhile. The scheduler
// then looks at the network only every 10 ms, so that what others wait for takes
// a multiple of that. A goroutine that sleeps for a moment, unlike one that only
// lets others run, has it look at once. In a flood of bodies of 5 MiB that takes
// the p99 of short requests of others from 32 to 15 ms (BenchmarkFlood).
const (
	breathEvery = 1 << 15 // values, or so many times 8 bytes of text: about a millisecond
	breath      = 20 * time.Microsecond
)

// breathe is called with the number of what was done so far.
func breathe(done int) {
	if done%breathEvery == breathEvery-1 {
		time.Sleep(breath) //nolint:forbidigo // see above
	}
}
