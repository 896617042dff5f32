package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestBodyEndsWithContext cancels the context while a response is read.
func TestBodyEndsWithContext(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	defer close(read)
	url, policy := destination(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		<-read // a response that ends at the cancellation may still arrive whole
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := must.Get(newClient(t, policy).Do(request(t, ctx, "GET", url, nil), "tenant"))(t)
	defer resp.Body.Close()
	must.Get(io.ReadFull(resp.Body, make([]byte, len("begin"))))(t)
	cancel()
	must.Fail(resp.Body.Read(make([]byte, 1)))(t, "reading on", context.Canceled)
}

// TestBrokenResponses has destinations that hide the end of the response, send
// a wrong length, send too much, or do not speak HTTP.
func TestBrokenResponses(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing":          "",
		"garbage":          "4242424242424242\r\n\r\n",
		"cut header":       "HTTP/1.1 200 OK\r\nContent-Le",
		"long header":      "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("4242", 32<<10) + "\r\n\r\n",
		"two lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n42424",
		"no header":        "HTTP/1.1 200 OK\r\n4242 without a colon\r\n\r\n",
		"negative length":  "HTTP/1.1 200 OK\r\nContent-Length: -42\r\n\r\n",
		"unknown encoding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: 4242, chunked\r\n\r\n",
		"other protocol":   "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: 4242\r\n\r\n",
		"cut body":         "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n4242",
		"cut chunks":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n4242\r\n",
		"malformed chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4242x\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, policy := destination(t, nil, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, answer)
				conn.Close()
			})
			c := newClient(t, policy)
			resp, err := get(t, c, url)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "42") {
				t.Errorf("%v, want ErrUnreachable that quotes nothing", err)
			}
			wantNoneInProgress(t, c)
		})
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	t.Parallel()
	const secret = "4242424242424242"
	var arrived atomic.Int64
	url, policy := destination(t, nil, func(http.ResponseWriter, *http.Request) { arrived.Add(1) })
	c := newClient(t, policy)
	for name, spoil := range map[string]func(*http.Request){
		"CONNECT":           func(r *http.Request) { r.Method = "CONNECT" },
		"plain http":        func(r *http.Request) { r.URL.Scheme = "http" },
		"no URL":            func(r *http.Request) { r.URL = nil },
		"credentials":       func(r *http.Request) { r.URL, _ = r.URL.Parse("https://" + secret + "@" + r.URL.Host) },
		"line in value":     func(r *http.Request) { r.Header.Set("X-A", secret+"\r\nX-B: 1") },
		"line in name":      func(r *http.Request) { r.Header["X-A: 1\r\nX-B"] = []string{secret} },
		"length in small":   func(r *http.Request) { r.Header["content-length"] = []string{"999"} },
		"chunked in small":  func(r *http.Request) { r.Header["transfer-encoding"] = []string{"chunked"} },
		"space in query":    func(r *http.Request) { r.URL.RawQuery = secret + " HTTP/1.1" },
		"line in query":     func(r *http.Request) { r.URL.RawQuery = secret + "\r\nX-B: 1" },
		"metadata address":  func(r *http.Request) { r.URL.Host = "169.254.169.254" },
		"opaque":            func(r *http.Request) { r.URL.Opaque = "//169.254.169.254/" + secret },
		"port out of range": func(r *http.Request) { r.URL.Host = "example.com:70000" },
	} {
		sent := &closing{Reader: bytes.NewReader([]byte(secret))}
		req := request(t, t.Context(), "POST", url, sent)
		req.Header.Set("Authorization", secret)
		spoil(req)
		_, err := c.Do(req, "tenant")
		if !errors.Is(err, ErrForbidden) || !sent.closed {
			t.Errorf("%s: %v, want ErrForbidden; the body is closed: %v", name, err, sent.closed)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the text quotes the request: %v", name, err)
		}
	}
	must.Same(t, "of them arrived", int64(0), arrived.Load())
}
