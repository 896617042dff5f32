package postgres

// crowd tells how many creates that wait are worth a statement of their own
// while another is under way.
//
// Half of those who are there at once, that is: then two statements take turns,
// and while the server works on one of them, the callers of the other prepare
// what they create next. In one statement after the other the server and the
// callers would wait for each other; in many small ones the server would spend
// its time on statements instead of rows.
type crowd struct {
	here    int // creates that wait or are being written
	writing int // those that are being written
	usual   int // how many are there at once, in parts of crowdScale
}

const (
	crowdScale = 16
	// crowdDecay is after how many statements, about, a crowd is forgotten that
	// is no longer there.
	crowdDecay = 64
	// maxEnough leaves a statement room for those who come while it starts.
	maxEnough = 64
)

// come counts a create that has arrived.
func (c *crowd) come() {
	c.here++
	c.usual = max(c.usual, c.here*crowdScale)
}

// begin counts creates whose statement is about to begin.
func (c *crowd) begin(n int) { c.writing += n }

// end counts creates whose statement has ended.
func (c *crowd) end(n int) {
	c.writing -= n
	c.here -= n
	c.usual -= (c.usual + crowdDecay - 1) / crowdDecay // rounded up, or a few would never be forgotten
}

// leave counts a create that no longer waits.
func (c *crowd) leave() { c.here-- }

func (c *crowd) waiting() int { return c.here - c.writing }

func (c *crowd) enough() int {
	return min(max(1, (c.usual+2*crowdScale-1)/(2*crowdScale)), maxEnough)
}
