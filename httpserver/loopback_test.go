package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// BenchmarkLoopback compares reads and creates over loopback with the same
// calls in the process, by 1, 8 and 32 callers. The goal is 0.65.
//
// The client shares the CPUs with the server, so it determines a part of the
// rate. There are two clients: the client of net/http, and a lean one, which
// sends the same bytes each time and reads only enough of the response to
// find its end. The fourth rate is the rate of the lean client with a bare
// handler that sends the same response from memory. It shows what net/http
// leaves to any server.
func BenchmarkLoopback(b *testing.B) {
	for _, backend := range []struct {
		name string
		open func(b *testing.B) (vault.Storage, error)
	}{
		{"SQLite", func(b *testing.B) (vault.Storage, error) {
			return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "vault.db"))
		}},
		{"PostgreSQL", func(b *testing.B) (vault.Storage, error) { return postgres.Open(b.Context(), pgtest.URL(b)) }},
	} {
		b.Run(backend.name, func(b *testing.B) {
			store := must.Get(backend.open(b))(b)
			v := vaulttest.OpenStorage(b, store, nil)
			for _, n := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) { loopbackRead(b, v, n) })
				b.Run(fmt.Sprintf("create/%d", n), func(b *testing.B) { loopbackCreate(b, v, n) })
			}
		})
	}
}

func loopbackRead(b *testing.B, v *vaulttest.Vault, n int) {
	tok := must.Get(v.Private.CreateToken(b.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(b)
	overLoopback(b, v, n, sent{"GET", "/tokens/" + tok.ID, v.PrivateKey, "", http.StatusOK}, func() error {
		_, err := v.Private.GetToken(context.Background(), tok.ID)
		return err
	})
}

func loopbackCreate(b *testing.B, v *vaulttest.Vault, n int) {
	data := vault.CardData{Number: "4242424242424242"}
	overLoopback(b, v, n, sent{"POST", "/tokens", v.PrivateKey, `{"type":"card","data":{"number":"4242424242424242"}}`, http.StatusCreated}, func() error {
		_, err := v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCard, Data: data})
		return err
	})
}

// sent is a request that callers send.
type sent struct {
	method, path, key, body string
	want                    int
}

// overLoopback reports the rates of a request over loopback and in the process.
func overLoopback(b *testing.B, v *vaulttest.Vault, n int, s sent, inProcess func() error) {
	h := Handler(v.Vault, nil)
	srv := httptest.NewServer(h)
	b.Cleanup(srv.Close)
	bare := httptest.NewServer(repeating(b, h, s))
	b.Cleanup(bare.Close)
	names := []string{"lean-client/s", "net-http-client/s", "in-process/s", "bare-handler/s"}
	rates := turns(b, n,
		leanCaller(b, srv.Listener.Addr().String(), s),
		caller(b, s.method, srv.URL+s.path, s.key, s.body, s.want),
		inProcess,
		leanCaller(b, bare.Listener.Addr().String(), s))
	for i, name := range names {
		b.ReportMetric(median(rates[i]), name)
	}
	b.ReportMetric(median(ratios(rates[0], rates[2])), "lean-of-in-process")
	b.ReportMetric(median(ratios(rates[1], rates[2])), "of-in-process")
	b.ReportMetric(0, "ns/op")
}

// repeating returns a handler that sends the same response to every request.
func repeating(b testing.TB, h http.Handler, s sent) http.Handler {
	r := httptest.NewRequestWithContext(b.Context(), s.method, s.path, strings.NewReader(s.body))
	r.Header.Set("SVC-API-KEY", s.key)
	first := httptest.NewRecorder()
	h.ServeHTTP(first, r)
	if first.Code != s.want {
		b.Fatalf("status %d", first.Code)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		for name, values := range first.Header() {
			header[name] = values
		}
		w.WriteHeader(first.Code)
		_, _ = w.Write(first.Body.Bytes())
	})
}

// leanCaller returns a function that sends a request over a free connection
// and reads the response to its end.
func leanCaller(b testing.TB, addr string, s sent) func() error {
	text := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: vault\r\nSvc-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", s.method, s.path, s.key, len(s.body), s.body)
	status := fmt.Appendf(nil, "HTTP/1.1 %d ", s.want)
	free := make(chan *bufio.ReadWriter, callers)
	for range callers {
		conn := must.Get(net.Dial("tcp", addr))(b)
		b.Cleanup(func() { conn.Close() })
		free <- bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	return func() error {
		conn := <-free
		defer func() { free <- conn }()
		_, _ = conn.Write(text)
		if err := conn.Flush(); err != nil {
			return err
		}
		return skipAnswer(conn.Reader, status)
	}
}

// skipAnswer reads a response and checks its status.
func skipAnswer(r *bufio.Reader, status []byte) error {
	line, err := r.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, status) {
		return fmt.Errorf("answered with %q: %w", line, err)
	}
	for length := 0; ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(bytes.TrimSpace(line)) == 0 {
			_, err = r.Discard(length)
			return err
		}
	}
}

// turns lets n callers make calls of each kind in short rounds, so that other
// load on the machine affects all kinds alike. It returns the rates.
func turns(b *testing.B, n int, calls ...func() error) [][]float64 {
	b.Helper()
	rates := make([][]float64, len(calls))
	for b.Loop() {
		for round := range rounds + 1 {
			for i, call := range calls {
				rate := rateOf(b, n, call)
				if round > 0 { // the first round warms up
					rates[i] = append(rates[i], rate)
				}
			}
		}
	}
	return rates
}

func ratios(ours, others []float64) []float64 {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = ours[i] / others[i]
	}
	return all
}

func median(all []float64) float64 {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
