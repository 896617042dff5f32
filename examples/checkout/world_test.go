package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// world is a site under test, and a record of everything that its shop
// received.
type world struct {
	*site
	t        *testing.T
	received *record // bytes that reached the shop, on any connection
	logs     *record
	skew     *skew
	asked    atomic.Int64 // requests to the acquirer
}

// record collects bytes.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) contains(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.buf.Bytes(), []byte(text))
}

// holdsCode reports whether the record contains a security code as a separate
// number. It ignores longer numbers and ids, which may contain the digits by
// chance.
func (r *record) holdsCode(code string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return regexp.MustCompile(`(^|[^0-9a-f-])` + code + `($|[^0-9a-f-])`).Match(r.buf.Bytes())
}

// recordedConn records the bytes that are read from a connection.
type recordedConn struct {
	net.Conn
	to *record
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.to.Write(p[:n])
	return n, err
}

// recordedListener records the bytes that are read from all connections.
type recordedListener struct {
	net.Listener
	to *record
}

func (l *recordedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recordedConn{conn, l.to}, nil
}

// skew is how far the vault's clock is ahead.
type skew struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (s *skew) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

func (s *skew) set(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = d
}

// newWorld sets up a site. It serves after start is called.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, received: &record{}, logs: &record{}, skew: &skew{}}
	l, err := listen(t.Context(), "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	v, err := openVault(t.Context(), &vault.Config{Now: w.skew.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	l.shop = &recordedListener{l.shop, w.received}
	if w.site, err = newSite(t.Context(), v, l, slog.New(slog.NewTextHandler(w.logs, nil))); err != nil {
		t.Fatal(err)
	}
	w.acquirer.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		w.bank.ServeHTTP(rw, r)
	})
	access := w.store.vault
	if access.client, err = vaultclient.New(access.url, access.privateKey, &vaultclient.Options{Transport: w.recorded()}); err != nil {
		t.Fatal(err)
	}
	return w
}

// recorded returns a transport for the shop's server that records what it
// reads.
func (w *world) recorded() http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &recordedConn{conn, w.received}, nil
		},
	}
}

// start serves until the test ends.
func (w *world) start() *world {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.serve(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the site ended with %v", err)
		}
	})
	return w
}

// orderPage creates an order and returns the address of its page.
func (w *world) orderPage() string {
	return originOf(w.listeners.shop) + "/orders/" + w.store.orders.add().id
}

// charges returns the charges of the acquirer.
func (w *world) charges() []charge {
	w.bank.mu.Lock()
	defer w.bank.mu.Unlock()
	var all []charge
	for _, c := range w.bank.charged {
		all = append(all, c)
	}
	return all
}
