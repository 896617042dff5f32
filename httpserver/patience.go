package httpserver

import "time"

// minUploadRate is how many bytes a second a body must send, on average, while it
// goes through a proxy.
const minUploadRate = 1 << 10

// patience is how long a caller may still keep the server waiting for a body. It
// shrinks while the server waits, and grows with the bytes that arrive. So a body
// has a minimum rate, and with that a longest time for its size. Time that the
// server spends on other things does not count.
type patience struct {
	left, most time.Duration
	rate       int // bytes a second
}

func newPatience(most time.Duration, rate int) patience { return patience{most, most, rate} }

// until returns when patience ends with a wait that begins now.
func (p *patience) until(now time.Time) time.Time { return now.Add(max(p.left, 0)) }

// note counts a wait and the bytes that came of it.
func (p *patience) note(waited time.Duration, bytes int) {
	p.left = min(p.most, p.left-waited+time.Duration(bytes)*time.Second/time.Duration(p.rate))
}
