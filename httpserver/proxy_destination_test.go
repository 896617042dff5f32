package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestProxyForwardsUnusualResponses(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
			rw.WriteHeader(http.StatusNoContent)
		case "/same":
			rw.Header().Set("Etag", `"x"`)
			rw.WriteHeader(http.StatusNotModified)
		case "/odd":
			rw.WriteHeader(799)
		default:
			rw.Header().Set("Content-Length", "5")
			fmt.Fprint(rw, "hello")
		}
	})
	x := w.proxy(nil)
	w.invoke(x, "GET", "/none", "").wantDestination(t, 204, "").headers(t, "Content-Length", "")
	w.invoke(x, "GET", "/same", "").wantDestination(t, 304, "").headers(t, "Etag", `"x"`)
	w.invoke(x, "GET", "/odd", "").wantDestination(t, 799, "")
	same(t, "HEAD: length", w.invoke(x, "HEAD", "/", "").wantDestination(t, 200, "").ContentLength, 5)
}

// rawDestination accepts TLS connections and calls a function to respond on
// each, after it has read the head of a request. It returns its URL.
func rawDestination(t testing.TB, certificates []tls.Certificate, answer func(net.Conn)) string {
	t.Helper()
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates}))(t)
	var all sync.WaitGroup
	ended, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ended, func() { conn.Close() }) // it may never have been used
			all.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					answer(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		all.Wait()
	})
	return "https://" + l.Addr().String()
}

// brokenVault returns a proxyVault whose destination writes raw responses.
func brokenVault(t testing.TB, timeout time.Duration, answer func(net.Conn)) (*proxyVault, *vault.Proxy) {
	t.Helper()
	w := newProxyVault(t, &vault.Config{ProxyTimeout: timeout}, nil, nil)
	raw := rawDestination(t, w.dest.TLS.Certificates, answer)
	return w, w.proxy(func(p *vault.ProxyParams) { p.DestinationURL = raw })
}

// Package egress tests more broken responses.
func TestBrokenProxyResponseIs502(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"another protocol": "SSH-2.0-OpenSSH_9.9\r\n",
		"invalid status":   "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, x := brokenVault(t, 0, func(c net.Conn) { _, _ = io.WriteString(c, answer) })
			w.invoke(x, "GET", "", "").wantProxyError(t, 502)
		})
	}
}

func TestSilentProxyDestinationIs408(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	w, x := brokenVault(t, 50*time.Millisecond, func(net.Conn) { <-hold })
	defer close(hold)
	w.invoke(x, "GET", "", "").wantProxyError(t, 408)
	w.invoke(x, "POST", "", strings.Repeat("x", 4<<20), "Content-Type", "image/png").wantProxyError(t, 408)
}

func TestUnreachableProxyDestinationIs502(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	x := w.proxy(nil)
	stranger := httptest.NewUnstartedServer(nil) // does not speak TLS
	stranger.Start()
	defer stranger.Close()
	wrong := w.proxy(func(p *vault.ProxyParams) { p.DestinationURL = "https://" + stranger.Listener.Addr().String() })
	w.invoke(wrong, "GET", "", "").wantProxyError(t, 502)
	w.dest.Close()
	w.invoke(x, "GET", "", "").wantProxyError(t, 502)
}

// A caller can tell that a response was cut off.
func TestTruncatedProxyResponseIsNoticed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		length, sent int
		hangs        bool
	}{"cut off": {1000000, 100_000, false}, "silent in the middle": {10, 3, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			defer close(hold)
			w, x := brokenVault(t, 50*time.Millisecond, func(c net.Conn) {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", test.length, strings.Repeat("x", test.sent))
				if test.hangs {
					<-hold
				}
			})
			res, err := w.http.Do(w.request("GET", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key))
			if err != nil {
				return // it was cut off before the head was sent
			}
			defer res.Body.Close()
			// On a slow machine the time is up before the head has arrived.
			if _, err := io.ReadAll(res.Body); err == nil && res.StatusCode == http.StatusOK {
				t.Error("half a response looks complete")
			}
		})
	}
}

// The rest of one response must not become the next response.
func TestSurplusOfAProxyResponseIsDropped(t *testing.T) {
	t.Parallel()
	w, x := brokenVault(t, 0, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
	})
	for range 50 {
		if res := w.invoke(x, "GET", "", ""); res.StatusCode == 502 {
			res.wantProxyError(t, 502)
		} else {
			res.wantDestination(t, 200, "abc")
		}
	}
}

// When the caller leaves, the connection to the destination and the tenant's
// place become free.
func TestProxyEndsTheRequestWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	w := newProxyVault(t, nil, nil, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	x := w.proxy(nil)
	ctx, leave := context.WithCancel(t.Context())
	r := w.request("GET", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key).WithContext(ctx)
	go func() {
		<-arrived
		leave()
	}()
	if res, err := w.http.Do(r); !errors.Is(err, context.Canceled) {
		res.Body.Close()
		t.Errorf("%v", err)
	}
	<-gone
}

// endless is a stream with the given number of bytes.
type endless int64

func (e *endless) Read(p []byte) (int, error) {
	if *e == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(*e), int64(len(p))))
	*e -= endless(n)
	return n, nil
}

// TestProxyStreamsResponses has a destination that holds back the rest of its
// response until the caller has read the beginning.
func TestProxyStreamsResponses(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	read := make(chan struct{})
	w := newProxyVault(t, nil, &Options{MaxBody: 1000}, func(rw http.ResponseWriter, _ *http.Request) {
		for range 2 {
			body := endless(size)
			_, _ = io.Copy(rw, &body)
			rw.(http.Flusher).Flush()
			<-read
		}
	})
	res := must.Get(w.http.Do(w.request("GET", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", w.proxy(nil).Key)))(t)
	defer res.Body.Close()
	for range 2 {
		must.Get(io.ReadFull(res.Body, make([]byte, size)))(t)
		read <- struct{}{}
	}
	if n, err := res.Body.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d more bytes, %v", n, err)
	}
}

func TestProxyStreamsRequestsBeyondTheLimitOfBodies(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	w := newProxyVault(t, nil, &Options{MaxBody: 1000}, nil)
	for _, length := range []int64{size, -1} {
		body := endless(size)
		r := w.request("PUT", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-URL", w.dest.URL, "Content-Type", "application/octet-stream")
		r.Body, r.ContentLength = io.NopCloser(&body), length
		w.call(r).wantDestination(t, 200, "")
		if got := w.dest.last(t); len(got.body) != size || got.ContentLength != length {
			t.Errorf("%d bytes arrived, length %d", len(got.body), got.ContentLength)
		}
	}
	for _, length := range []int64{1001, -1} {
		body := endless(1001)
		r := w.request("PUT", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-URL", w.dest.URL, "Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(&body), length
		w.call(r).wantProxyError(t, 413)
	}
}

// TestProxyStreamsBothWaysAtOnce has a destination that responds while it
// reads, as an echo server does.
func TestProxyStreamsBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	echo := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(200)
		_ = http.NewResponseController(rw).Flush()
		_, _ = io.Copy(flusher{rw}, r.Body)
	}))
	defer echo.Close()
	w := newProxyVault(t, &vault.Config{Egress: trusting(echo)}, nil, nil)
	in, out := io.Pipe()
	r := w.request("POST", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-URL", echo.URL, "Content-Type", "application/octet-stream")
	r.Body, r.ContentLength = in, -1
	res := must.Get(w.http.Do(r))(t)
	defer res.Body.Close()
	for _, word := range []string{"ping", "pong"} {
		must.Get(io.WriteString(out, word))(t)
		back := make([]byte, len(word))
		if _, err := io.ReadFull(res.Body, back); err != nil || string(back) != word {
			t.Fatalf("%q, %v", back, err)
		}
	}
	out.Close()
	same(t, "rest", len(must.Get(io.ReadAll(res.Body))(t)), 0)
}

func TestProxyOverHTTP2(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "hello") })
	w.token("tok", "secret")
	x := w.proxy(nil)
	front := w.listen()
	for typ, want := range map[string]string{"text/plain": "secret", "image/png": "{{tok}}"} {
		r := w.request("POST", "/", "{{tok}}", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key, "Content-Type", typ)
		r.URL.Scheme, r.URL.Host, r.URL.Path = "https", front.Listener.Addr().String(), "/proxy/x/"
		res := must.Get(front.Client().Do(r))(t)
		defer res.Body.Close()
		body := must.Get(io.ReadAll(res.Body))(t)
		same(t, "HTTP version", res.ProtoMajor, 2)
		same(t, "body", string(body), "hello")
		if got := w.dest.last(t); got.body != want || got.RequestURI != "/x/" {
			t.Errorf("arrived: %s %q", got.RequestURI, got.body)
		}
	}
}

// flusher flushes after each write.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	return n, errors.Join(err, http.NewResponseController(f.ResponseWriter).Flush())
}
