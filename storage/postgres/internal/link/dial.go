// Package link has connections to PostgreSQL servers: how they are opened, when they
// are given up, and what their errors mean.
package link

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
	// deadPeer is how long it takes to give up on a server whose machine or
	// network is down. The machine of a server that hangs still acknowledges
	// packets; HangTimeout is for that case.
	deadPeer = 15 * time.Second
	// CancelTimeout limits a request to cancel a statement, because the driver
	// waits for it even if the server hangs.
	CancelTimeout = time.Second
	connectSlack  = 100 * time.Millisecond
	// leastRate is how many bytes per second a server must send of a large
	// result after HangTimeout.
	leastRate = 1 << 20
)

// connector opens the connections of a pool and knows the line of each.
type connector struct {
	*pq.Connector
	dialer *dialer
	lines  sync.Map // from driver.Conn to *line
	hung   func(since time.Time)
}

// newConnector returns a connector that calls hung when a server has been
// silent since a given time.
func newConnector(config pq.Config, silence time.Duration, hung func(since time.Time)) (*connector, error) {
	inner, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, err
	}
	c := &connector{Connector: inner, dialer: newDialer(silence), hung: hung}
	inner.Dialer(c.dialer)
	return c, nil
}

// connectError means that no connection could be opened, so nothing was sent.
type connectError struct{ error }

// NotConnected marks the error of a connection that could not be opened.
func NotConnected(err error) error { return &connectError{err} }

func (e *connectError) Unwrap() error { return e.error }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var dialed *line
	conn, err := c.Connector.Connect(context.WithValue(ctx, dialedKey{}, &dialed))
	if err != nil {
		return nil, NotConnected(err)
	}
	c.lines.Store(conn, dialed)
	dialed.closed, dialed.hung = func() { c.lines.Delete(conn) }, c.hung
	return conn, nil
}

// Cut returns a function that closes a connection at once.
func (c *connector) Cut(conn any) func() {
	l, ok := c.lines.Load(conn)
	if !ok {
		return func() {} // it is already closed
	}
	return func() { _ = l.(*line).Conn.Close() }
}

// SetSilence changes how long the server may be silent; zero for no limit.
func (c *connector) SetSilence(d time.Duration) { c.dialer.silence.Store(int64(d)) }

// CutAll closes all connections at once.
func (c *connector) CutAll() { c.cut(func(*line) bool { return true }) }

// CutIdle closes the idle connections that have received nothing since the
// given time.
func (c *connector) CutIdle(since time.Time) {
	c.cut(func(l *line) bool { return !l.asked.Load() && l.heard.Load() < since.UnixNano() })
}

func (c *connector) cut(which func(*line) bool) {
	for _, l := range c.lines.Range {
		if l := l.(*line); which(l) {
			_ = l.Conn.Close()
		}
	}
}

// dialedKey is the context key under which a dialer stores the line it opened
// for a connector. If it is missing, the line is for a request to cancel a
// statement.
type dialedKey struct{}

// dialer connects to a server and notices when it dies or stays silent.
type dialer struct {
	net.Dialer
	silence atomic.Int64 // time limit of lines, as a time.Duration; 0 for none
}

func newDialer(silence time.Duration) *dialer {
	d := &dialer{Dialer: net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadPeer / 3, Interval: deadPeer / 3, Count: 2},
		Control:         giveUpUnanswered,
	}}
	d.silence.Store(int64(silence))
	return d
}

// DialContext is the method that lib/pq opens connections with.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	l := &line{silence: &d.silence}
	dialed, ok := ctx.Value(dialedKey{}).(**line)
	if !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, CancelTimeout)
		defer cancel()
		l.end = time.Now().Add(CancelTimeout)
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

// DialTimeout is a method that lib/pq requires besides Dial and DialContext.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// line is a connection with a time limit for each response of the server.
//
// The driver reads only after it has sent a request. So silence means that a
// statement takes too long, or that the server hangs: the kernel of its machine
// still acknowledges what is sent. The time counts from the request, so that
// sending a byte now and then does not extend it. A large result gets one more
// second for each leastRate bytes received. A line that stays silent is closed.
type line struct {
	net.Conn
	silence *atomic.Int64
	limit   time.Time // deadline set by the driver while it connects; zero for none
	connect time.Time // deadline of the context it connects with; zero for none
	end     time.Time // deadline of the line, whatever the driver sets; zero for none
	closed  func()    // may be nil

	since time.Time // when the driver last sent a request
	came  int64     // bytes received since then

	asked atomic.Bool           // a request is unanswered
	heard atomic.Int64          // when the server last sent something, in Unix nanoseconds
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

// deadline returns the earliest time limit for a request sent at the given
// time, or zero if there is no limit.
func (l *line) deadline(since time.Time) (first time.Time) {
	if silence := time.Duration(l.silence.Load()); silence > 0 {
		first = since.Add(silence)
	}
	return Earlier(Earlier(first, l.limit), l.end)
}

// Earlier returns the earlier of two times, ignoring zero times.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// giveUp closes a line that timed out. It also closes idle lines that have been
// silent for half as long, because they would most likely time out too.
func (l *line) giveUp(err error) error {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		_ = l.Conn.Close()
		if l.hung != nil {
			l.hung(time.Now().Add(-time.Duration(l.silence.Load()) / 2))
		}
	}
	return err
}

// SetDeadline implements [net.Conn]. While the driver connects, it sets a
// deadline and ignores its context, so SetDeadline applies the earlier of the
// two.
func (l *line) SetDeadline(t time.Time) error {
	if l.limit = t; !t.IsZero() {
		l.limit = Earlier(t, l.connect)
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
