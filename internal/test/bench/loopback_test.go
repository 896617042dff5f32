//go:build !race

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// BenchmarkLoopback compares reads and creates over loopback with the same
// calls in the process, by 1, 8 and 32 callers.
//
// The client shares the CPUs with the server, so it determines a part of the
// rate. There are two clients: the client of net/http, and a lean one, which
// sends the same bytes each time and reads only enough of the response to
// find its end. The fourth rate is the rate of the lean client with a bare
// handler that sends the same response from memory. It shows what net/http
// leaves to any server.
func BenchmarkLoopback(b *testing.B) {
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		v := newUser(b, on.openStore(b, on.create(b))).vault
		key := keyOfNewTenant(b, v)
		c := must.Get(v.Authenticate(b.Context(), key))(b)
		id := createGeneric(b, c, 1)[0]
		for _, call := range []struct {
			name      string
			request   sent
			inProcess func() error
		}{
			{"read", sent{"GET", "/tokens/" + id, key, "", http.StatusOK}, func() error {
				_, err := c.GetToken(context.Background(), id)
				return err
			}},
			{"create", sent{"POST", "/tokens", key, `{"type":"card","data":{"number":"4242424242424242"}}`, http.StatusCreated}, func() error {
				_, err := c.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
				return err
			}},
		} {
			b.Run(call.name, func(b *testing.B) {
				over := overLoopback(b, httpserver.Handler(v, nil), call.request, callers)
				inside := &contender{name: "in process", call: call.inProcess}
				race(b, callers, append(over, inside)...)
				lean, plain, bare := over[0], over[1], over[2]
				report(b, figure{what: "a " + call.name + " over loopback / in process", metric: "x/inside", backend: on.name, callers: strconv.Itoa(callers),
					value: lean.over(inside), unit: "x", goal: 0.65, rates: lean.perSecond() + ", " + plain.perSecond() + ", " + inside.perSecond() + ", " + bare.perSecond()})
			})
		}
	})
}

// sent is a request that callers send.
type sent struct {
	method, path, key, body string
	want                    int
}

// overLoopback returns the lean client and the client of net/http, which call a
// server, and the lean client of a bare handler.
func overLoopback(b *testing.B, h http.Handler, s sent, callers int) []*contender {
	b.Helper()
	srv, bare := httptest.NewServer(h), httptest.NewServer(repeated(b, h, s))
	b.Cleanup(srv.Close)
	b.Cleanup(bare.Close)
	return []*contender{
		{name: "lean client", call: leanCaller(b, srv.Listener.Addr().String(), s, callers)},
		{name: "net/http", call: caller(clientFor(b, nil, callers), s, srv.URL, nil)},
		{name: "bare handler", call: leanCaller(b, bare.Listener.Addr().String(), s, callers)},
	}
}

// repeated returns a handler that sends the response to a request again and again.
func repeated(b *testing.B, h http.Handler, s sent) http.Handler {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), s.method, s.path, strings.NewReader(s.body))
	r.Header.Set("SVC-API-KEY", s.key)
	first := httptest.NewRecorder()
	if h.ServeHTTP(first, r); first.Code != s.want {
		b.Fatalf("status %d", first.Code)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range first.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(first.Code)
		_, _ = w.Write(first.Body.Bytes())
	})
}

// leanCaller returns a function that sends a request over a free connection
// and reads the response to its end.
func leanCaller(b *testing.B, addr string, s sent, callers int) func() error {
	b.Helper()
	text := s.text()
	return leanCallers(b, addr, callers, s.want, func() []byte { return text })
}

// text returns the bytes of a request.
func (s sent) text() []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: vault\r\nSvc-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.method, s.path, s.key, len(s.body), s.body)
}

// leanCallers is leanCaller for requests that differ.
func leanCallers(b *testing.B, addr string, callers, want int, text func() []byte) func() error {
	b.Helper()
	status := fmt.Appendf(nil, "HTTP/1.1 %d ", want)
	free := make(chan *bufio.ReadWriter, callers)
	for range callers {
		conn := must.Get((&net.Dialer{}).DialContext(b.Context(), "tcp", addr))(b)
		b.Cleanup(func() { _ = conn.Close() })
		free <- bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	return func() error {
		conn := <-free
		defer func() { free <- conn }()
		_, _ = conn.Write(text())
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
