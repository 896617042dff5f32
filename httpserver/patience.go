package httpserver

import "time"

// minUploadRate is the average number of bytes a second that a body must have
// while it is streamed through a proxy.
const minUploadRate = 1 << 10

// patience is how long a caller may still keep the server waiting for a body.
// It shrinks while the server waits, and grows with the bytes that arrive. A
// body thus has a minimum rate and a maximum duration for its size. Time that
// the server spends on other work does not count.
type patience struct {
	left, most time.Duration
	rate       int // bytes a second
}

func newPatience(most time.Duration, rate int) patience { return patience{most, most, rate} }

// until returns when patience runs out for a wait that starts now.
func (p *patience) until(now time.Time) time.Time { return now.Add(max(p.left, 0)) }

// note records a wait and the bytes that arrived.
func (p *patience) note(waited time.Duration, bytes int) {
	p.left = min(p.most, p.left-waited+time.Duration(bytes)*time.Second/time.Duration(p.rate))
}
