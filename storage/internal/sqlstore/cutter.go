package sqlstore

import (
	"context"
	"sync"
	"time"
)

// Cutter ends a statement whose caller has gone, while the driver is still
// waiting for its server.
type Cutter struct {
	Cut func() // closes the connection; nil if the driver does not wait

	mu    sync.Mutex
	runs  int // number of times a statement was begun or ended
	isCut bool
}

// cutGrace is how long a server has to end a canceled statement. Most take much less
// time, so a caller that goes away does not cost others their connection.
const cutGrace = time.Second

// Running is a statement that a Cutter may end.
type Running struct {
	run  int
	stop func() bool
}

// Begin begins a statement.
func (c *Cutter) Begin(ctx context.Context) Running {
	if c.Cut == nil || ctx.Done() == nil {
		return Running{}
	}
	c.mu.Lock()
	c.runs++
	run := c.runs
	c.mu.Unlock()
	return Running{run, context.AfterFunc(ctx, func() {
		time.AfterFunc(cutGrace, func() { c.cut(run) })
	})}
}

// cut cuts the connection if the statement still runs on it.
func (c *Cutter) cut(run int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == run {
		c.isCut = true
		c.Cut()
	}
}

// End ends a statement and reports whether its connection was cut.
func (c *Cutter) End(r Running) bool {
	if r.stop == nil {
		return false
	}
	r.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	return c.isCut
}
