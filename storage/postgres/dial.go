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
)

// connector opens the connections of a pool, and knows the line of each.
type connector struct {
	*pq.Connector
	dialer *dialer
	lines  sync.Map // of driver.Conn to *line
}

func newConnector(config pq.Config, silence time.Duration) (*connector, error) {
	inner, err := pq.NewConnectorConfig(config)
	if err != nil {
		return nil, err
	}
	c := &connector{Connector: inner, dialer: newDialer(silence)}
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
	dialed.closed = func() { c.lines.Delete(conn) }
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
		l.connect, _ = ctx.Deadline()
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

// line is a connection whose server may be silent for so long. The driver reads
// only when it has asked for something, so that silence means that a statement
// takes as long as that, or that the server hangs: the kernel of its machine goes
// on to acknowledge what is sent. A line that was silent is closed.
type line struct {
	net.Conn
	silence *atomic.Int64
	limit   time.Time // that the driver has set, while it connects; zero for none
	connect time.Time // of the context that it connects with; zero for none
	end     time.Time // of the line, whatever the driver sets; zero for none
	closed  func()    // may be nil
}

// Read implements [net.Conn].
func (l *line) Read(b []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(l.deadline()); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(b)
	return n, l.giveUp(err)
}

// Write implements [net.Conn].
func (l *line) Write(b []byte) (int, error) {
	if err := l.Conn.SetWriteDeadline(l.deadline()); err != nil {
		return 0, err
	}
	n, err := l.Conn.Write(b)
	return n, l.giveUp(err)
}

// deadline is the earliest of the bounds on what begins now; zero without any.
func (l *line) deadline() (first time.Time) {
	if silence := time.Duration(l.silence.Load()); silence > 0 {
		first = time.Now().Add(silence)
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

func (l *line) giveUp(err error) error {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		_ = l.Conn.Close()
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
