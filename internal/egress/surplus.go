package egress

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// countedConn is a connection that knows how much has been read from it.
type countedConn struct {
	net.Conn
	read atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// exchange is a request and its response on a connection.
//
// A destination may send more than its response. net/http closes a connection
// with bytes left over, but a request at that very moment may still get the
// connection, and then the leftover bytes as its response. Such a response is
// recognized by this: nothing was read from the network for it.
type exchange struct {
	conn   net.Conn
	count  *atomic.Int64 // nil for a new connection
	before int64
}

// traced returns a context that gives the exchange its connection.
func (x *exchange) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: x.begin})
}

// begin notes what has been read before the request is written.
func (x *exchange) begin(info httptrace.GotConnInfo) {
	*x = exchange{conn: info.Conn}
	if !info.Reused {
		return
	}
	conn := info.Conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		x.count, x.before = &counted.read, counted.read.Load()
	}
}

// surplus reports whether the response was there before the request.
func (x *exchange) surplus() bool { return x.count != nil && x.count.Load() == x.before }
