package outgoing

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// link is a proxy of TCP connections that delays all bytes, in both directions
// together by its delay.
type link struct {
	net.Listener
	to     string
	delay  time.Duration
	opened atomic.Int64
	turns  atomic.Int64 // times that the client began to send after the destination had sent
}

// newLink returns a link to an address.
func newLink(t testing.TB, to string, delay time.Duration) *link {
	t.Helper()
	var lc net.ListenConfig
	l := &link{Listener: must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t), to: to, delay: delay}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			l.opened.Add(1)
			go l.serve(conn)
		}
	}()
	return l
}

func (l *link) serve(near net.Conn) {
	time.Sleep(l.delay) // for the handshake of TCP
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		near.Close()
		return
	}
	var answered atomic.Bool
	answered.Store(true)
	go l.copy(near, far, func() { answered.Store(true) })
	l.copy(far, near, func() {
		if answered.Swap(false) {
			l.turns.Add(1)
		}
	})
}

// part is what arrived at some time.
type part struct {
	text []byte
	due  time.Time
}

// copy passes on what one side sends, after half of the delay.
func (l *link) copy(to, from net.Conn, arrived func()) {
	parts := make(chan part, 1000)
	go func() {
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.text); err != nil {
				return
			}
		}
	}()
	defer close(parts)
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if n > 0 {
			arrived()
			parts <- part{slices.Clone(buf[:n]), time.Now().Add(l.delay / 2)}
		}
		if err != nil {
			return
		}
	}
}

// A bound request with a token takes one round trip to the destination, as a direct
// request on a kept connection does, and no more connections. The times are printed
// and not checked.
func TestBoundRequestsTakeOneRoundTrip(t *testing.T) {
	t.Parallel()
	delay, requests := time.Duration(long.Rounds(2, 50))*time.Millisecond, long.Rounds(10, 100)
	far := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+password && r.Header.Get("Authorization") != "Bearer direct" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(far.Close)
	l := newLink(t, far.Listener.Addr().String(), delay)
	g := newGate(t, http.NotFoundHandler())
	g.roots.AddCert(far.Certificate())
	to := l.Addr().String()
	key := g.key(t, to)
	bound := must.Get(g.Authenticate(t.Context(), key))(t)
	forwarded := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("x", key), Host: g.proxy}), TLSClientConfig: &tls.Config{RootCAs: g.roots.Clone()}}
	forwarded.TLSClientConfig.RootCAs.AppendCertsFromPEM(must.Get(g.ForwardCA(t.Context()))(t))
	direct := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.roots}}
	t.Cleanup(forwarded.CloseIdleConnections)
	t.Cleanup(direct.CloseIdleConnections)
	through := func(transport *http.Transport, authorization string) func() {
		return func() {
			req := must.Get(http.NewRequestWithContext(t.Context(), "POST", "https://"+to, strings.NewReader("body")))(t)
			req.Header.Set("Authorization", authorization)
			res := must.Get(transport.RoundTrip(req))(t)
			defer res.Body.Close()
			must.Same(t, "status", http.StatusOK, res.StatusCode)
			must.Get(io.Copy(io.Discard, res.Body))(t)
		}
	}
	for _, way := range []struct {
		name string
		send func()
	}{
		{"direct", through(direct, "Bearer direct")},
		{"the forward proxy", through(forwarded, "Bearer {{ secret }}")},
		{"InvokeProxy", func() {
			answer := must.Get(bound.InvokeProxy(t.Context(), vault.ProxyCall{URL: "https://" + to, Method: "POST", Header: http.Header{"Authorization": {"Bearer {{ secret }}"}}, Body: strings.NewReader("body")}))(t)
			defer answer.Body.Close()
			must.Same(t, "status", http.StatusOK, answer.Status)
			must.Get(io.Copy(io.Discard, answer.Body))(t)
		}},
	} {
		taken := func() int64 {
			way.send() // opens the connection
			opened, turns := l.opened.Load(), l.turns.Load()
			times := make([]time.Duration, requests)
			for i := range times {
				start := time.Now()
				way.send()
				times[i] = time.Since(start)
			}
			slices.Sort(times)
			t.Logf("%s over %s: p50 %s, p90 %s", way.name, delay, times[requests/2], times[requests*9/10])
			if l.opened.Load() != opened {
				return -1 // the machine is so slow that a connection was idle for seconds
			}
			return l.turns.Load() - turns
		}
		turns := taken()
		for range 5 {
			if turns < 0 {
				turns = taken()
			}
		}
		must.Same(t, way.name+": round trips", int64(requests), turns)
	}
}
