package egress

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestSurplusResponseIsDetected checks all states that an exchange can see
// of its connection.
func TestSurplusResponseIsDetected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reused, secured, reads bool
		want                   bool
	}{
		"new":                           {},
		"reused, answered":              {reused: true, reads: true},
		"reused, secured, answered":     {reused: true, secured: true, reads: true},
		"reused, not answered":          {reused: true, want: true},
		"reused, secured, not answered": {reused: true, secured: true, want: true},
	} {
		here, there := net.Pipe()
		counted := &countedConn{Conn: here}
		counted.read.Store(7)
		var conn net.Conn = counted
		if test.secured {
			conn = tls.Client(counted, nil)
		}
		var x exchange
		x.begin(httptrace.GotConnInfo{Conn: conn, Reused: test.reused})
		if test.reads {
			go func() { _, _ = there.Write([]byte("answer")) }()
			must.Get(io.ReadFull(counted, make([]byte, 6)))(t)
		}
		must.Same(t, name+": surplus", test.want, x.surplus())
		_, _ = here.Close(), there.Close()
	}
}

// A request that gets a connection with leftover bytes does not take them for its
// response.
func TestSurplusAnswersNoRequest(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	url, policy := destination(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		must.Match(t, "Hijack", err, nil)
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		<-over
	})
	c := newClient(t, policy)
	wrote, second := make(chan struct{}), make(chan error)
	next := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) },
	})
	first := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(error) {
		go func() { second <- must.Err(c.Do(request(t, next, "GET", url, nil), "tenant")) }()
		<-wrote // before net/http sees the leftover bytes
	}})
	resp, err := c.Do(request(t, first, "GET", url, nil), "tenant")
	must.Same(t, "the first response", "ok", readAll(t, resp, err))
	must.Match(t, "the second response", <-second, ErrUnreachable)
}
