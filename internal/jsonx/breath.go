package jsonx

import "time"

// Work on a large value takes up to 0.1 s. On a machine with few CPUs, nothing
// else may run during that time, because the other CPU collects garbage. The
// scheduler then polls the network only every 10 ms, so that other requests
// take a multiple of that. A goroutine that sleeps for a moment, unlike one
// that only yields, makes the scheduler poll at once. In a flood of 5 MiB
// bodies, this reduces the p99 of other, short requests from 32 to 15 ms
// (BenchmarkFlood).
const (
	breathEvery = 1 << 15 // values, or that many times 8 bytes of text: about a millisecond
	breath      = 20 * time.Microsecond
)

// breathe sleeps now and then, given the number of items done so far.
func breathe(done int) {
	if done%breathEvery == breathEvery-1 {
		time.Sleep(breath) //nolint:forbidigo // see above
	}
}
