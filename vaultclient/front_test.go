package vaultclient_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// fault handles the n-th request, counted from 1, between the client and the
// vault.
type fault func(n int, w http.ResponseWriter, r *http.Request, vault http.Handler)

// front is a vault behind a server that injects faults.
type front struct {
	*vaulttest.Vault
	*httptest.Server

	mu   sync.Mutex
	seen []*http.Request
	// pauses are the pauses of the client between attempts.
	pauses []time.Duration
}

func newFront(t *testing.T, happens fault) *front {
	t.Helper()
	return frontOf(t, vaulttest.New(t), happens)
}

func frontOf(t *testing.T, v *vaulttest.Vault, happens fault) *front {
	t.Helper()
	f := &front{Vault: v}
	handler := httpserver.Handler(v.Vault, nil)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r)
		n := len(f.seen)
		f.mu.Unlock()
		happens(n, w, r, handler)
	}))
	f.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // broken connections are expected
	f.Server.StartTLS()
	t.Cleanup(f.Server.Close)
	return f
}

// scripted returns a vault that can run code.
func scripted(t *testing.T) *vaulttest.Vault {
	t.Helper()
	return vaulttest.Open(t, ":memory:", &vault.Config{Runtime: jsruntime.New(&jsruntime.Options{Workers: 2}), Egress: vault.EgressPolicy{AllowPrivate: true}})
}

// client returns a client of the front that records its pauses instead of
// waiting.
func (f *front) client(t *testing.T, key string, opts vaultclient.Options) *vaultclient.Client {
	t.Helper()
	if opts.Retry.Sleep == nil {
		opts.Retry.Sleep = func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.pauses = append(f.pauses, d)
			return ctx.Err()
		}
	}
	return newClient(t, f.Server, key, &opts)
}

func (f *front) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// headers returns the values of a header in all requests.
func (f *front) headers(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.seen {
		all = append(all, r.Header.Get(name))
	}
	return all
}

// tokens returns how many tokens the vault has.
func (f *front) tokens(t *testing.T) int {
	t.Helper()
	return must.Get(f.Owner.ListTokens(t.Context(), vault.ListTokensParams{}))(t).Pagination.TotalItems
}

// pass lets a request through.
func pass(_ int, w http.ResponseWriter, r *http.Request, vault http.Handler) { vault.ServeHTTP(w, r) }

// first injects a fault for the first request, and passes the others.
func first(happens fault) fault {
	return func(n int, w http.ResponseWriter, r *http.Request, vault http.Handler) {
		if n == 1 {
			happens(n, w, r, vault)
			return
		}
		vault.ServeHTTP(w, r)
	}
}

// cut drops the connection before the vault gets the request.
func cut(int, http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// lose passes the request to the vault, and drops the connection instead of
// responding.
func lose(_ int, _ http.ResponseWriter, r *http.Request, vault http.Handler) {
	vault.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// half sends half of the response.
func half(_ int, w http.ResponseWriter, r *http.Request, vault http.Handler) {
	rec := httptest.NewRecorder()
	vault.ServeHTTP(rec, r)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", rec.Header().Get("Content-Length"))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
	panic(http.ErrAbortHandler)
}

// answer responds like a server in between. Headers come in pairs.
func answer(status int, header ...string) fault {
	return func(_ int, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "<html>the gateway is unwell</html>", status)
	}
}

// afterwards passes the request to the vault, and responds with another
// status, like a server in between.
func afterwards(status int) fault {
	return func(n int, w http.ResponseWriter, r *http.Request, vault http.Handler) {
		vault.ServeHTTP(httptest.NewRecorder(), r)
		answer(status)(n, w, r, vault)
	}
}

// busy makes the vault itself respond that there are too many requests.
func busy(v *vaulttest.Vault) fault {
	full := httpserver.Handler(v.Vault, &httpserver.Options{RateLimit: func(*http.Request, *vault.Client, int) (time.Duration, bool) {
		return time.Second, false
	}})
	return func(_ int, w http.ResponseWriter, r *http.Request, _ http.Handler) { full.ServeHTTP(w, r) }
}
