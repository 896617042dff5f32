package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// drained is a server that is being stopped.
type drained struct {
	*vaulttest.Vault
	drain *Drain
	url   string
	ended chan error
	stop  context.CancelFunc
}

// newDrained starts a server. Its requests pass through the middleware.
func newDrained(t *testing.T, drain *Drain, middleware func(http.Handler) http.Handler) *drained {
	t.Helper()
	s := &drained{Vault: vaulttest.New(t), drain: drain, ended: make(chan error, 1)}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := &http.Server{Handler: middleware(Handler(s.Vault.Vault, &Options{Drain: drain})), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(func() { _ = srv.Close() })
	s.url = "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	s.stop = func() {
		go func() { s.ended <- drain.Shutdown(ctx, s.Vault.Vault, srv) }()
	}
	t.Cleanup(stop)
	return s
}

func plain(h http.Handler) http.Handler { return h }

// create creates a token, and reports whether the server wants to close the
// connection.
func (s *drained) create(t *testing.T, c *http.Client, body io.Reader) (status int, closes bool) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/tokens", body))(t)
	req.Header.Set("SVC-API-KEY", s.PrivateKey)
	res, err := c.Do(req)
	if err != nil {
		t.Error(err)
		return 0, false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Close
}

func (s *drained) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	res, err := http.Get(s.url + path)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res.StatusCode, string(text)
}

const oneToken = `{"type":"token","data":"x"}`

// A probe of a server that is being stopped is no error in its log.
func TestProbeDuringADrainIsNoError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	drain := &Drain{}
	drain.began.Store(true)
	h := Handler(vaulttest.New(t).Vault, &Options{Drain: drain, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	must.Same(t, "status", http.StatusServiceUnavailable, w.Code)
	must.Contain(t, "the log", log.String(), "level=INFO msg=request")
	must.Contain(t, "the log", log.String(), "route=/readyz status=503")
}

// During the delay /readyz is a 503, and everything else is served.
func TestDrainServesDuringTheDelay(t *testing.T) {
	t.Parallel()
	s := newDrained(t, &Drain{Delay: time.Hour}, plain)
	client := &http.Client{Transport: &http.Transport{}}
	if status, closes := s.create(t, client, strings.NewReader(oneToken)); status != 201 || closes {
		t.Errorf("before: %d %v", status, closes)
	}
	if status, body := s.get(t, "/readyz"); status != 200 {
		t.Errorf("before: %d %s", status, body)
	}
	s.stop()
	for {
		status, body := s.get(t, "/readyz")
		if status == http.StatusServiceUnavailable && strings.Contains(body, "The server is shutting down.") {
			break
		}
		same(t, "/readyz: "+body, status, http.StatusOK)
	}
	for range 3 {
		if status, closes := s.create(t, client, strings.NewReader(oneToken)); status != 201 || !closes {
			t.Errorf("during the delay: %d %v", status, closes)
		}
	}
	if status, body := s.get(t, "/healthz"); status != 200 {
		t.Errorf("/healthz: %d %s", status, body)
	}
}

// After the delay, requests in progress are finished.
func TestDrainFinishesRequests(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := newDrained(t, &Drain{Timeout: time.Hour}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			h.ServeHTTP(w, r)
		})
	})
	body, to := io.Pipe()
	answered := make(chan int, 1)
	go func() {
		status, _ := s.create(t, http.DefaultClient, body)
		answered <- status
	}()
	<-arrived
	s.stop()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	must.Get(io.WriteString(to, oneToken))(t)
	_ = to.Close()
	same(t, "the request in progress", <-answered, 201)
	must.Do(t, <-s.ended)
}

// A request that does not end in time is cut off.
func TestDrainHasATimeout(t *testing.T) {
	t.Parallel()
	arrived, cut := make(chan struct{}), make(chan struct{})
	s := newDrained(t, &Drain{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
			close(cut)
		})
	})
	go func() {
		if res, err := http.Get(s.url); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-arrived
	s.stop()
	if err := <-s.ended; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "requests were still in progress") {
		t.Errorf("got %v", err)
	}
	<-cut
}
