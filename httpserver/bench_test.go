package httpserver

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// withoutStorage returns a function that sends one request through the
// handler, with a storage that costs nothing.
func withoutStorage(tb testing.TB, request func(*vaulttest.Vault) sent) func() {
	tb.Helper()
	store, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		tb.Fatal(err)
	}
	// The vault is set up while its storage still works.
	lifted := &liftable{Storage: store}
	v := vaulttest.OpenStorage(tb, lifted, nil)
	s := request(v)
	if lifted.tokens, err = store.Tokens(context.Background(), storage.ID(v.Acme.ID), []string{path.Base(s.path)}); err != nil {
		tb.Fatal(err)
	}
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

// BenchmarkCreateWithoutStorage measures a create without its storage:
// everything from the parsed request to the written response.
func BenchmarkCreateWithoutStorage(b *testing.B) {
	create := withoutStorage(b, aCreate)
	b.ReportAllocs()
	for b.Loop() {
		create()
	}
}

// BenchmarkReadWithoutStorage measures a read without its storage.
func BenchmarkReadWithoutStorage(b *testing.B) {
	read := withoutStorage(b, aRead(b))
	b.ReportAllocs()
	for b.Loop() {
		read()
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

// A read takes 41 allocations and a create 67. The bounds leave room for pools that
// lose items in every one of the calls.
func TestRequestsTakeFewAllocations(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request func(*vaulttest.Vault) sent
		most    float64
	}{
		{"create", aCreate, 70},
		{"read", aRead(t), 43},
	} {
		if n := fewestAllocations(withoutStorage(t, tc.request)); n > tc.most {
			t.Errorf("a %s takes %.0f allocations, want at most %.0f", tc.name, n, tc.most)
		}
	}
}

const (
	callers   = 32
	rounds    = 20
	roundTime = 150 * time.Millisecond
)

// BenchmarkLoopbackCreate compares creates over loopback with creates in the
// process, both by 32 callers on SQLite. The goal is 0.6.
func BenchmarkLoopbackCreate(b *testing.B) {
	v := vaulttest.Open(b, filepath.Join(b.TempDir(), "vault.db"), nil)
	srv := httptest.NewServer(Handler(v.Vault, nil))
	b.Cleanup(srv.Close)
	data := vault.CardData{Number: "4242424242424242"}
	compare(b, "of-in-process",
		caller(b, "POST", srv.URL+"/tokens", v.PrivateKey, `{"type":"card","data":{"number":"4242424242424242"}}`, http.StatusCreated),
		func() error {
			_, err := v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCard, Data: data})
			return err
		})
}

// BenchmarkLoopbackRead compares reads with a bare handler that runs the same
// prepared select, both over loopback by 32 callers on SQLite. The goal is 0.5.
func BenchmarkLoopbackRead(b *testing.B) {
	file := filepath.Join(b.TempDir(), "vault.db")
	v := vaulttest.Open(b, file, nil)
	tok := must.Get(v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(b)
	srv := httptest.NewServer(Handler(v.Vault, nil))
	b.Cleanup(srv.Close)
	bare := httptest.NewServer(bareHandler(b, file, v.Acme.ID))
	b.Cleanup(bare.Close)
	compare(b, "of-bare-handler",
		caller(b, "GET", srv.URL+"/tokens/"+tok.ID, v.PrivateKey, "", http.StatusOK),
		caller(b, "GET", bare.URL+"/tokens/"+tok.ID, v.PrivateKey, "", http.StatusOK))
}

// bareHandler responds with a token's row as it is stored.
func bareHandler(b *testing.B, file string, tenant [16]byte) http.Handler {
	b.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)&_pragma=mmap_size(268435456)"))(b)
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	stmt := must.Get(db.Prepare(`SELECT ord, id, type, set_id, containers, fingerprint, expression, dedup, key_version, body,
		cvc, cvc_expires_at, expires_at, created_by, created_at, modified_by, modified_at, rev
		FROM vault_tokens WHERE tenant_id = ? AND id = ?`))(b)
	b.Cleanup(func() { stmt.Close() })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tokens/{id}", func(w http.ResponseWriter, r *http.Request) {
		var text [3]string
		var blob [9][]byte
		var number [3]int64
		var optional [3]*int64
		err := stmt.QueryRow(tenant[:], r.PathValue("id")).Scan(&blob[0], &text[0], &text[1], &blob[1], &text[2], &blob[2], &blob[3], &blob[4],
			&number[0], &blob[5], &blob[6], &optional[0], &optional[1], &blob[7], &number[1], &blob[8], &optional[2], &number[2])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(blob[5])
	})
	return mux
}

// caller returns a function that sends one request over a kept-alive
// connection and reads the response.
func caller(b testing.TB, method, url, key, body string, want int) func() error {
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func() error {
		req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("SVC-API-KEY", key)
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.StatusCode != want {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	}
}

// compare lets two calls take turns and reports the median ratio of their rates.
func compare(b *testing.B, unit string, ours, other func() error) {
	b.Helper()
	rates := turns(b, callers, ours, other)
	b.ReportMetric(median(ratios(rates[0], rates[1])), unit)
	b.ReportMetric(median(rates[0]), "calls/s")
	b.ReportMetric(median(rates[1]), "theirs/s")
	b.ReportMetric(0, "ns/op")
}

// rateOf returns how many calls a second n callers make.
func rateOf(b *testing.B, n int, call func() error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		wg.Go(func() {
			for time.Since(start) < roundTime {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}
