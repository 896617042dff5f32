package httpserver

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver for the bare handler

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// sink is a ResponseWriter that keeps only the status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// SetReadDeadline exists because the ResponseWriter of net/http has it too.
func (s *sink) SetReadDeadline(time.Time) error { return nil }

// sent is a request that callers send.
type sent struct {
	method, path, key, body string
	want                    int
}

// withoutStorage returns a function that sends one request through the
// handler, with a storage that costs nothing.
func withoutStorage(tb testing.TB, request func(*vaulttest.Vault) sent) func() {
	tb.Helper()
	store := must.Get(sqlite.Open(context.Background(), ":memory:"))(tb)
	// The vault is set up while its storage still works.
	lifted := &liftable{Storage: store}
	v := vaulttest.OpenStorage(tb, lifted, nil)
	s := request(v)
	lifted.tokens = must.Get(store.Tokens(context.Background(), storage.ID(v.Acme.ID), []string{path.Base(s.path)}))(tb)
	lifted.lifted.Store(true)
	h := Handler(v.Vault, nil)
	header := http.Header{"Svc-Api-Key": {s.key}, "Content-Type": {"application/json"}}
	return func() {
		r := &http.Request{
			Method: s.method, URL: &url.URL{Path: s.path}, RequestURI: s.path, Header: header,
			Body: io.NopCloser(strings.NewReader(s.body)), ContentLength: int64(len(s.body)),
		}
		w := &sink{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != s.want {
			tb.Fatalf("status %d", w.status)
		}
	}
}

// liftable is a storage whose writes and token reads can be switched off, so
// that they cost nothing.
type liftable struct {
	vault.Storage
	lifted atomic.Bool
	tokens []storage.Token
}

func (l *liftable) Write(ctx context.Context, c *storage.Change) error {
	if l.lifted.Load() {
		return nil
	}
	return l.Storage.Write(ctx, c)
}

func (l *liftable) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	if l.lifted.Load() {
		return slices.Clone(l.tokens), nil
	}
	return l.Storage.Tokens(ctx, tenant, ids)
}

func aCreate(v *vaulttest.Vault) sent {
	return sent{"POST", "/tokens", v.PrivateKey, card, http.StatusCreated}
}

// aRead reads a card token in plaintext.
func aRead(tb testing.TB) func(*vaulttest.Vault) sent {
	return func(v *vaulttest.Vault) sent {
		tok := must.Get(v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(`{"number":"4242424242424242"}`)}))(tb)
		return sent{"GET", "/tokens/" + tok.ID, v.PrivateKey, "", http.StatusOK}
	}
}

// BenchmarkWithoutStorage measures a create and a read without their storage:
// everything from the parsed request to the written response.
func BenchmarkWithoutStorage(b *testing.B) {
	for name, request := range map[string]func(*vaulttest.Vault) sent{"create": aCreate, "read": aRead(b)} {
		b.Run(name, func(b *testing.B) {
			send := withoutStorage(b, request)
			b.ReportAllocs()
			for b.Loop() {
				send()
			}
		})
	}
}

// fewestAllocations returns the fewest allocations of a single call. Under the race
// detector a pool loses a quarter of its items at random, so an average depends on luck.
func fewestAllocations(call func()) float64 {
	fewest := testing.AllocsPerRun(1, call)
	for range 400 {
		fewest = min(fewest, testing.AllocsPerRun(1, call))
	}
	return fewest
}

// A read takes 43 allocations and a create 67. The bounds leave room for pools that
// lose items in every one of the calls.
func TestRequestsTakeFewAllocations(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request func(*vaulttest.Vault) sent
		most    float64
	}{
		{"create", aCreate, 70},
		{"read", aRead(t), 45},
	} {
		if n := fewestAllocations(withoutStorage(t, tc.request)); n > tc.most {
			t.Errorf("a %s takes %.0f allocations, want at most %.0f", tc.name, n, tc.most)
		}
	}
}
