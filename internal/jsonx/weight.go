package jsonx

import "time"

// The memory of a value of a tree, including the unused capacity of grown
// slices. The name of a member takes as much again.
const (
	valueWeight  = 20
	memberWeight = 20
)

// worstWeight is the largest weight of a byte of text: "[]," is a value in an
// array, and an array.
const worstWeight = 14

// weighedFrom is the length from which a text is examined.
const weighedFrom = 8 << 10

// Weight returns the approximate memory of the tree of a JSON text, including
// its text, without parsing it. It never returns much less than that.
func Weight(data []byte) int {
	if len(data) < weighedFrom {
		return worstWeight * len(data)
	}
	weight, inString := len(data), false
	for i := 0; i < len(data); i++ {
		if i%8 == 0 {
			breathe(i / 8)
		}
		switch c := data[i]; {
		case c == '"':
			inString = !inString
		case inString:
			if c == '\\' {
				i++
			}
		case c == ',' || c == '[' || c == '{':
			weight += valueWeight
		case c == ':':
			weight += memberWeight
		}
	}
	return weight
}

// Weight returns the approximate memory of the value, like the function Weight
// for its text.
func (v Value) Weight() int {
	weight := valueWeight
	if kind := v.Kind(); kind == Number || kind == String {
		weight += len(v.text())
	}
	for _, e := range v.Elems() {
		weight += e.Weight()
	}
	for _, m := range v.Members() {
		weight += memberWeight + len(m.Name) + m.Value.Weight()
	}
	return weight
}

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
