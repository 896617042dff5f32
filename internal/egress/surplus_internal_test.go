package egress

import (
	"crypto/tls"
	"io"
	"net"
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
