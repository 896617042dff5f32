package egress

import (
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// countedConn is a connection that counts the bytes read.
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
// with leftover bytes, but a request at the same moment may still get the
// connection, and read the leftover bytes as its response. Such a response
// needs no bytes from the network, and is recognized by that.
type exchange struct {
	conn   net.Conn
	count  *atomic.Int64 // nil for a new connection
	before int64
}

// begin records the number of bytes read before the request is written.
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

// surplus reports whether the response arrived before the request was sent.
func (x *exchange) surplus() bool { return x.count != nil && x.count.Load() == x.before }
