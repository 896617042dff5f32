package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// site is a destination in memory. Time passes only while all wait.
type site struct {
	*kept
	opened  atomic.Int64 // connections
	arrived atomic.Int64 // requests
	ended   atomic.Int64 // connections that the vault has closed
}

// newSite returns a destination that serves each connection with a function.
func newSite(serve func(s *site, conn net.Conn, r *bufio.Reader)) *site {
	s := &site{}
	s.kept = newKept(&Policy{HeaderTimeout: 5 * time.Minute}, func(context.Context, string, string) (net.Conn, error) {
		s.opened.Add(1)
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			serve(s, there, bufio.NewReader(there))
		}()
		return here, nil
	})
	return s
}

// next reads a request.
func (s *site) next(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		if errors.Is(err, io.EOF) {
			s.ended.Add(1)
		}
		return false
	}
	s.arrived.Add(1)
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// answers writes a response to each request of a connection.
func (s *site) answers(conn net.Conn, r *bufio.Reader) {
	for s.next(r) {
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func always(any) (any, bool) { return true, true }

// get sends a request and reads its response.
func (s *site) get(t *testing.T, method, host, holder string, body io.Reader) (string, error) {
	t.Helper()
	req := request(t, t.Context(), method, "http://"+host, body)
	resp, err := s.roundTrip(req, "tenant", &Keep{holder, always})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// A connection serves one tenant, holder and destination.
func TestKeptConnectionsAreReused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) { s.answers(conn, r) })
		defer s.close()
		for i, test := range []struct {
			tenant, host, holder string
			opened               int64
		}{
			{"a", "a.test", "1", 1},
			{"a", "a.test", "1", 1},
			{"a", "a.test", "2", 2},
			{"a", "b.test", "1", 3},
			{"a", "a.test:81", "1", 4},
			{"b", "a.test", "1", 5},
			{"a", "a.test", "2", 5},
			{"b", "a.test", "1", 5},
		} {
			req := request(t, t.Context(), "POST", "http://"+test.host, strings.NewReader("body"))
			resp, err := s.roundTrip(req, test.tenant, &Keep{test.holder, always})
			must.Same(t, "the response", "ok", readAll(t, resp, err))
			must.Same(t, fmt.Sprint("connections after request ", i), test.opened, s.opened.Load())
		}
	})
}

// What Carry returns belongs to the connection.
func TestKeptConnectionsCarry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) { s.answers(conn, r) })
		defer s.close()
		var got []any
		for i := range 5 {
			keep := &Keep{"1", func(before any) (any, bool) {
				got = append(got, before)
				return i, before != 2
			}}
			resp, err := s.roundTrip(request(t, t.Context(), "GET", "http://a.test", nil), "tenant", keep)
			readAll(t, resp, err)
		}
		must.Same(t, "what requests were given", []any{nil, 0, 1, 2, nil, 3}, got)
		must.Same(t, "connections", int64(2), s.opened.Load())
	})
}

// Bytes beyond a response close the connection, whenever they come, and no request
// gets them, nor the logger.
func TestKeptConnectionsWithSurplus(t *testing.T) { // not parallel, because it watches the standard logger
	var printed bytes.Buffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&printed)
	const ok, evil = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, answer := range map[string]func(conn net.Conn){
		"at once":  func(conn net.Conn) { _, _ = io.WriteString(conn, ok+evil) },
		"one byte": func(conn net.Conn) { _, _ = io.WriteString(conn, ok+"\n") },
		"later": func(conn net.Conn) {
			_, _ = io.WriteString(conn, ok)
			time.Sleep(time.Second)
			_, _ = io.WriteString(conn, evil)
		},
		"after no content": func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n"+evil) },
		"after chunks": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"+evil)
		},
		"a response too short": func(conn net.Conn) { _, _ = io.WriteString(conn, ok+"HTTP/1.1 100 Continue\r\n\r\n") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
				for s.next(r) {
					answer(conn)
				}
			})
			defer s.close()
			for n := range int64(3) {
				text, err := s.get(t, "GET", "a.test", "1", nil)
				must.Match(t, name, err, nil)
				must.Lack(t, name, text, "evil")
				must.Same(t, name+": connections", n+1, s.opened.Load())
				time.Sleep(2 * time.Second)
			}
		})
	}
	must.Same(t, "printed", "", printed.String())
}

// A connection is not kept after anything but a whole response that permits it.
func TestConnectionsThatAreNotKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		response string
		change   func(*http.Request)
		read     bool // the whole body
	}{
		"the destination closes":   {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", nil, true},
		"HTTP/1.0":                 {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", nil, true},
		"without a length":         {"HTTP/1.1 200 OK\r\n\r\nok", nil, true},
		"the request closes":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", func(r *http.Request) { r.Close = true }, true},
		"half a body":              {"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nok" + strings.Repeat("x", 4998), nil, false},
		"another protocol":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", nil, true},
		"an announced end at once": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=0\r\n\r\nok", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
					if s.next(r) {
						_, _ = io.WriteString(conn, test.response)
					}
					if strings.Contains(test.response, "Content-Length") {
						_ = s.next(r)
					}
				})
				defer s.close()
				for range 2 {
					req := request(t, t.Context(), "GET", "http://a.test", nil)
					if test.change != nil {
						test.change(req)
					}
					resp := must.Get(s.roundTrip(req, "tenant", &Keep{"1", always}))(t)
					if test.read {
						_, _ = io.Copy(io.Discard, resp.Body)
					} else {
						_, _ = resp.Body.Read(make([]byte, 1))
					}
					must.Do(t, resp.Body.Close())
					time.Sleep(time.Second)
				}
				must.Same(t, "connections", int64(2), s.opened.Load())
			})
		})
	}
}

// Idle connections end after 90 seconds, and when the client is closed.
func TestKeptConnectionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) { s.answers(conn, r) })
		must.Get(s.get(t, "GET", "a.test", "1", nil))(t)
		time.Sleep(keptTimeout - time.Second)
		synctest.Wait()
		must.Same(t, "ended after 89 s", int64(0), s.ended.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		must.Same(t, "ended after 90 s", int64(1), s.ended.Load())
		must.Same(t, "idle", 0, s.idle.Len())
		must.Get(s.get(t, "GET", "a.test", "1", nil))(t)
		s.close()
		synctest.Wait()
		must.Same(t, "ended with the client", int64(2), s.ended.Load())
		must.Get(s.get(t, "GET", "a.test", "1", nil))(t)
		synctest.Wait()
		must.Same(t, "ended after the client", int64(3), s.ended.Load())
	})
}

// A tenant keeps a bounded number of connections, and of one to a host.
func TestKeptConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) { s.answers(conn, r) })
		defer s.close()
		for holder := range maxKeptPerHost + 10 {
			must.Get(s.get(t, "GET", "a.test", fmt.Sprint(holder), nil))(t)
		}
		synctest.Wait()
		must.Same(t, "of a host", maxKeptPerHost, s.idle.Len())
		must.Same(t, "closed", int64(10), s.ended.Load())
		for host := range maxKeptTenant + 10 {
			must.Get(s.get(t, "GET", fmt.Sprint(host, ".test"), "1", nil))(t)
		}
		synctest.Wait()
		must.Same(t, "of a tenant", maxKeptTenant, s.idle.Len())
		must.Same(t, "pools", maxKeptTenant, len(s.byKey))
		resp, err := s.roundTrip(request(t, t.Context(), "GET", "http://a.test", nil), "another", &Keep{"1", always})
		readAll(t, resp, err)
		must.Same(t, "of two tenants", maxKeptTenant+1, s.idle.Len())
	})
}

// No request to a destination that closes idle connections is lost, although none is
// sent twice. The destination must leave them open for 5 seconds, or announce its
// timeout.
func TestDestinationsThatCloseIdleConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		idle             time.Duration
		header, farewell string
	}{
		"Node":               {5 * time.Second, "Keep-Alive: timeout=5\r\n", ""},
		"without a word":     {5 * time.Second, "", ""},
		"with a word":        {5 * time.Second, "", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"},
		"an early end":       {2 * time.Second, "Keep-Alive: timeout=2, max=100\r\n", ""},
		"a broken promise":   {5 * time.Second, "Keep-Alive: timeout=75\r\n", ""},
		"after a minute":     {time.Minute, "", ""},
		"after each request": {0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
					for {
						_ = conn.SetReadDeadline(time.Now().Add(max(test.idle, time.Second)))
						if _, err := r.Peek(1); err != nil {
							break
						}
						_ = conn.SetReadDeadline(time.Time{})
						if !s.next(r) {
							return
						}
						time.Sleep(100 * time.Millisecond)
						fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%sContent-Length: 2\r\n\r\nok", test.header)
						if test.idle == 0 {
							break
						}
					}
					_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond)) // requests on the way are lost
					_, _ = io.WriteString(conn, test.farewell)
					_, _ = io.Copy(io.Discard, r)
				})
				defer s.close()
				r := rand.New(rand.NewPCG(5, 7))
				const requests = 400
				lost := 0
				for n := range requests {
					gap := time.Duration(r.Int64N(int64(2 * time.Second)))
					if n%4 == 0 {
						gap = test.idle + time.Duration(r.Int64N(int64(200*time.Millisecond))) - 100*time.Millisecond
					}
					time.Sleep(gap)
					if _, err := s.get(t, "POST", "a.test", "1", strings.NewReader("body")); err != nil && (name != "a broken promise" || n > 20) {
						lost++
					}
				}
				must.Same(t, "lost", 0, lost)
				if opened := s.opened.Load(); test.idle > 2*time.Second && opened > requests/2 {
					t.Errorf("%d connections for %d requests", opened, requests)
				}
			})
		})
	}
}

// stuck is a connection that fails when the second request is written to it.
type stuck struct {
	net.Conn
	writes int
	part   int // bytes that are written before
}

func (c *stuck) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 1 {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.part])
	return n, io.ErrClosedPipe
}

// No request is sent twice, unless nothing of it was written.
func TestKeptRequestsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		part   int // bytes of the second request that are written
		body   io.Reader
		opened int64
	}{
		"nothing was written":        {0, nil, 2},
		"nothing, with a body":       {0, strings.NewReader("body"), 2},
		"nothing, with a stream":     {0, io.MultiReader(strings.NewReader("body")), 1},
		"one byte was written":       {1, nil, 1},
		"one byte of a request more": {1, strings.NewReader("body"), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) { s.answers(conn, r) })
			dial, first := s.dial, true
			s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if first {
					conn = &stuck{Conn: conn, part: test.part}
				}
				first = false
				return conn, err
			}
			defer s.close()
			must.Get(s.get(t, "GET", "a.test", "1", nil))(t)
			_, err := s.get(t, "GET", "a.test", "1", test.body)
			must.Same(t, name+": sent", test.opened == 2, err == nil)
			must.Same(t, name+": connections", test.opened, s.opened.Load())
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
			if s.next(r) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
			_ = s.next(r) // and closes the connection
		})
		defer s.close()
		must.Get(s.get(t, "GET", "a.test", "1", nil))(t)
		if _, err := s.get(t, "GET", "a.test", "1", nil); err == nil || s.arrived.Load() != 2 || s.opened.Load() != 1 {
			t.Errorf("%v, %d requests, %d connections", err, s.arrived.Load(), s.opened.Load())
		}
	})
}

// Requests that fail end their connection and say why.
func TestKeptRequestsThatFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		response string
		limit    time.Duration // of the request
		want     error
	}{
		"no response":            {"", 0, context.DeadlineExceeded},
		"no response in time":    {"", time.Second, context.DeadlineExceeded},
		"not HTTP":               {"a secret\r\n\r\n", 0, ErrUnreachable},
		"long headers":           {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeaderBytes) + "\r\n\r\n", 0, ErrUnreachable},
		"informational for ever": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHeaderBytes/20), 0, ErrUnreachable},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
				if s.next(r) {
					_, _ = io.WriteString(conn, test.response)
				}
				_ = s.next(r)
			})
			defer s.close()
			ctx := t.Context()
			if test.limit > 0 {
				limited, cancel := context.WithTimeout(ctx, test.limit)
				defer cancel()
				ctx = limited
			}
			_, err := s.roundTrip(request(t, ctx, "GET", "http://a.test", nil), "tenant", &Keep{"1", always})
			must.Match(t, name, explain(ctx, err), test.want)
			synctest.Wait()
			must.Same(t, name+": ended", int64(1), s.ended.Load())
		})
	}
}

// A destination may respond before it has read the request.
func TestKeptConnectionsWithAnEarlyResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, r *bufio.Reader) {
			_, _ = r.Peek(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
			_ = s.next(r)
		})
		defer s.close()
		body, end := io.Pipe()
		defer end.Close()
		for n := range int64(2) {
			text, err := s.get(t, "POST", "a.test", "1", body)
			must.Match(t, "the response", err, nil)
			must.Same(t, "the response", "no", text)
			must.Same(t, "connections", n+1, s.opened.Load())
		}
	})
}

// halfClosed is a connection whose other end takes everything and sends nothing more.
type halfClosed struct {
	net.Conn
	over   atomic.Bool
	closed chan struct{}
	close  func() error
}

func (c *halfClosed) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

func (c *halfClosed) Write(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	if c.over.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *halfClosed) Close() error { return c.close() }

// held is a body that is read when a connection has been closed.
type held struct {
	io.Reader
	until <-chan struct{}
}

func (b *held) Read(p []byte) (int, error) {
	<-b.until
	return b.Reader.Read(p)
}

func (b *held) Close() error { return nil }

// The end of a TLS connection is no part of a request: a request whose connection ends
// before it is written takes another connection.
func TestKeptRequestsBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	config := &tls.Config{Certificates: server.TLS.Certificates}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	synctest.Test(t, func(t *testing.T) {
		s := newSite(func(s *site, conn net.Conn, _ *bufio.Reader) {
			secured := tls.Server(conn, config)
			s.answers(secured, bufio.NewReader(secured))
		})
		s.kept.Policy = &Policy{HeaderTimeout: time.Minute, TLSTimeout: time.Minute, RootCAs: roots}
		dial := s.dial
		var first *halfClosed
		s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if first != nil {
				return conn, err
			}
			first = &halfClosed{Conn: conn, closed: make(chan struct{})}
			first.close = sync.OnceValue(func() error {
				close(first.closed)
				return conn.Close()
			})
			return first, err
		}
		defer s.close()
		for n := range 2 {
			req := request(t, t.Context(), "POST", "https://example.com", nil)
			if n == 1 {
				req.Body, req.ContentLength = &held{strings.NewReader("body"), first.closed}, 4
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
			}
			resp, err := s.roundTrip(req, "tenant", &Keep{"1", func(before any) (any, bool) {
				first.over.Store(before != nil) // the connection was idle, and nothing was seen of its end
				return true, true
			}})
			must.Same(t, "the response", "ok", readAll(t, resp, err))
		}
		must.Same(t, "requests", int64(2), s.arrived.Load())
		must.Same(t, "connections", int64(2), s.opened.Load())
	})
}
