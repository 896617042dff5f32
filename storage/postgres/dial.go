package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

const (
	// deadPeer is after how long a server that no longer answers at all, because
	// its machine or the network is gone, is given up. A server that hangs still
	// answers for its connections: that is what HangTimeout is for.
	deadPeer = 15 * time.Second
	// cancelTimeout bounds a request to the server to end a statement: the driver
	// waits for it, even if the server hangs.
	cancelTimeout = time.Second
	connectSlack  = 100 * time.Millisecond
	// leastRate is how many bytes a second a server has to send of a large result
	// once HangTimeout has passed.
	leastRate = 1 << 20
)

// connector opens the connections of a pool, and knows the line of each.
type connector struct {
	*pq.Connector
	dialer *dialer
	lines  sync.Map // of driver.Conn to *line
	hung   func(since time.Time)
}

// newConnector returns a connector that calls hung when a server was silent since
// a moment.
func newConnector(config pq.Config, silence time.Duration, hung func(since time.Time)) (*connector, error) {
	inner, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, err
	}
	c := &connector{Connector: inner, dialer: newDialer(silence), hung: hung}
	inner.Dialer(c.dialer)
	return c, nil
}

// connectError is why no connection could be opened. Nothing was sent.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var dialed *line
	conn, err := c.Connector.Connect(context.WithValue(ctx, dialedKey{}, &dialed))
	if err != nil {
		return nil, &connectError{err}
	}
	c.lines.Store(conn, dialed)
	dialed.closed, dialed.hung = func() { c.lines.Delete(conn) }, c.hung
	return conn, nil
}

// cut returns what gives up a connection at once.
func (c *connector) cut(conn any) func() {
	l, ok := c.lines.Load(conn)
	if !ok {
		return func() {} // it is closed already
	}
	return func() { _ = l.(*line).Conn.Close() }
}

// cutAll gives up all connections at once.
func (c *connector) cutAll() {
	c.lines.Range(func(_, l any) bool {
		_ = l.(*line).Conn.Close()
		return true
	})
}

// cutIdle gives up the connections that nobody uses, and that were not heard of
// since a moment.
func (c *connector) cutIdle(since time.Time) {
	c.lines.Range(func(_, l any) bool {
		if l := l.(*line); !l.asked.Load() && l.heard.Load() < since.UnixNano() {
			_ = l.Conn.Close()
		}
		return true
	})
}

// dialedKey is where a dialer leaves the line that it has opened for a
// connector. Without it, the line is for the request to end a statement.
type dialedKey struct{}

// dialer connects to a server so that its death is noticed, and its silence.
type dialer struct {
	net.Dialer
	silence atomic.Int64 // what lines wait for, as a time.Duration; 0 for any time
}

func newDialer(silence time.Duration) *dialer {
	d := &dialer{Dialer: net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadPeer / 3, Interval: deadPeer / 3, Count: 2},
		Control:         giveUpUnanswered,
	}}
	d.silence.Store(int64(silence))
	return d
}

// DialContext is what lib/pq opens a connection with.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	l := &line{silence: &d.silence}
	dialed, ok := ctx.Value(dialedKey{}).(**line)
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cancelTimeout)
		defer cancel()
		l.end = time.Now().Add(cancelTimeout)
	}
	var err error
	if l.Conn, err = d.Dialer.DialContext(ctx, network, address); err != nil {
		return nil, err
	}
	if ok {
		if end, bounded := ctx.Deadline(); bounded {
			l.connect = end.Add(connectSlack) // so that the context ends first
		}
		*dialed = l
	}
	return l, nil
}

// DialTimeout is what lib/pq asks of a dialer beside Dial and DialContext.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// line is a connection whose server has so long to answer a statement. The driver
// reads only when it has asked for something, so that silence means that a statement
// takes as long as that, or that the server hangs: the kernel of its machine goes
// on to acknowledge what is sent. The time counts from the question, so that a
// server which sends a byte now and then has no more of it; a large result has a
// second more for each leastRate bytes that have come. A line that was silent is
// closed.
type line struct {
	net.Conn
	silence *atomic.Int64
	limit   time.Time // that the driver has set, while it connects; zero for none
	connect time.Time // of the context that it connects with; zero for none
	end     time.Time // of the line, whatever the driver sets; zero for none
	closed  func()    // may be nil

	since time.Time // when the driver asked last
	came  int64     // bytes, since then

	asked atomic.Bool           // something that was not answered yet
	heard atomic.Int64          // when the server last said something, in nanoseconds
	hung  func(since time.Time) // nil while it connects
}

// Read implements [net.Conn].
func (l *line) Read(b []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(l.deadline(l.since.Add(time.Duration(l.came) * time.Second / leastRate))); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(b)
	if err != nil {
		return n, l.giveUp(err)
	}
	l.came += int64(n)
	l.asked.Store(false)
	l.heard.Store(time.Now().UnixNano())
	return n, nil
}

// Write implements [net.Conn].
func (l *line) Write(b []byte) (int, error) {
	l.asked.Store(true)
	l.since, l.came = time.Now(), 0
	if err := l.Conn.SetWriteDeadline(l.deadline(l.since)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Write(b)
	return n, l.giveUp(err)
}

// deadline is the earliest of the bounds on what began at a moment; zero without any.
func (l *line) deadline(since time.Time) (first time.Time) {
	if silence := time.Duration(l.silence.Load()); silence > 0 {
		first = since.Add(silence)
	}
	return earliest(earliest(first, l.limit), l.end)
}

// earliest is the earlier of two times that are not zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// giveUp closes a line that was silent for too long. Those that were not heard of
// for half as long, because nobody used them, would most likely be silent too.
func (l *line) giveUp(err error) error {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		_ = l.Conn.Close()
		if l.hung != nil {
			l.hung(time.Now().Add(-time.Duration(l.silence.Load()) / 2))
		}
	}
	return err
}

// SetDeadline implements [net.Conn]. The driver sets one while it connects, and
// does not look at its context then.
func (l *line) SetDeadline(t time.Time) error {
	if l.limit = t; !t.IsZero() {
		l.limit = earliest(t, l.connect)
	}
	return nil
}

// Close implements [net.Conn].
func (l *line) Close() error {
	if l.closed != nil {
		l.closed()
	}
	return l.Conn.Close()
}
