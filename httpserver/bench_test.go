package httpserver

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the bare handler

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// sink is a ResponseWriter that keeps the status alone.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// SetReadDeadline is what the ResponseWriter of net/http offers too.
func (s *sink) SetReadDeadline(time.Time) error { return nil }

// createWithoutStorage returns a function that puts one create through the
// handler, over a storage that costs nothing.
func createWithoutStorage(tb testing.TB) func() {
	tb.Helper()
	store, err := sqlite.Open(context.Background(), ":memory:")
	if err != nil {
		tb.Fatal(err)
	}
	// The vault is set up before its writes are taken away.
	lifted := &liftable{Storage: store}
	v := vaulttest.OpenStorage(tb, lifted, nil)
	lifted.lifted.Store(true)
	h := Handler(v.Vault, nil)
	header := http.Header{"Svc-Api-Key": {v.PrivateKey}, "Content-Type": {"application/json"}}
	return func() {
		r := &http.Request{
			Method: "POST", URL: &url.URL{Path: "/tokens"}, RequestURI: "/tokens", Header: header,
			Body: io.NopCloser(strings.NewReader(card)), ContentLength: int64(len(card)),
		}
		s := &sink{header: http.Header{}}
		h.ServeHTTP(s, r)
		if s.status != http.StatusCreated {
			tb.Fatalf("status %d", s.status)
		}
	}
}

// liftable is a storage whose writes can be made to cost nothing.
type liftable struct {
	vault.Storage
	lifted atomic.Bool
}

func (l *liftable) Write(ctx context.Context, c *storage.Change) error {
	if l.lifted.Load() {
		return nil
	}
	return l.Storage.Write(ctx, c)
}

// BenchmarkCreateWithoutStorage is what a create costs besides its storage:
// everything from the parsed request to the written answer. The goal is 60 us
// and 150 allocations.
func BenchmarkCreateWithoutStorage(b *testing.B) {
	create := createWithoutStorage(b)
	b.ReportAllocs()
	for b.Loop() {
		create()
	}
}

func TestACreateTakesAtMost150Allocations(t *testing.T) {
	create := createWithoutStorage(t)
	if n := testing.AllocsPerRun(200, create); n > 150 {
		t.Errorf("%.0f allocations", n)
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
	path := filepath.Join(b.TempDir(), "vault.db")
	v := vaulttest.Open(b, path, nil)
	tok, err := v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(Handler(v.Vault, nil))
	b.Cleanup(srv.Close)
	bare := httptest.NewServer(bareHandler(b, path, v.Acme.ID))
	b.Cleanup(bare.Close)
	compare(b, "of-bare-handler",
		caller(b, "GET", srv.URL+"/tokens/"+tok.ID, v.PrivateKey, "", http.StatusOK),
		caller(b, "GET", bare.URL+"/tokens/"+tok.ID, v.PrivateKey, "", http.StatusOK))
}

// bareHandler answers with a token's row as it is.
func bareHandler(b *testing.B, path string, tenant [16]byte) http.Handler {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)&_pragma=mmap_size(268435456)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	stmt, err := db.Prepare(`SELECT ord, id, type, set_id, containers, fingerprint, expression, dedup, key_version, body,
		cvc, cvc_expires_at, expires_at, created_by, created_at, modified_by, modified_at, rev
		FROM vault_tokens WHERE tenant_id = ? AND id = ?`)
	if err != nil {
		b.Fatal(err)
	}
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
// connection and reads the answer.
func caller(b *testing.B, method, url, key, body string, want int) func() error {
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

// compare lets two calls take turns in short rounds, so that anything else the
// machine does falls on both, and reports the median ratio of their rates.
func compare(b *testing.B, unit string, ours, other func() error) {
	b.Helper()
	var ratios []float64
	var last [2]float64
	for b.Loop() {
		for round := range rounds + 1 {
			last[0], last[1] = rateOf(b, ours), rateOf(b, other)
			if round > 0 { // the first one warms up
				ratios = append(ratios, last[0]/last[1])
			}
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], unit)
	b.ReportMetric(last[0], "calls/s")
	b.ReportMetric(last[1], "theirs/s")
	b.ReportMetric(0, "ns/op")
}

// rateOf returns how many calls a second 32 callers make.
func rateOf(b *testing.B, call func() error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
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
