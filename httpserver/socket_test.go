package httpserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// listen puts the world behind a real TLS listener.
func (w *world) listen() *httptest.Server {
	srv := httptest.NewUnstartedServer(w.h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
	return srv
}

// rawConn opens a TLS connection that speaks HTTP/1.1 by hand.
func rawConn(t testing.TB, srv *httptest.Server) *tls.Conn {
	t.Helper()
	conf := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// head is the start of a request for a token that announces a body of a length.
func head(key string, length int) string {
	return fmt.Sprintf("POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: %s\r\nContent-Length: %d\r\n\r\n", key, length)
}

// roundTrip writes bytes and reads an answer.
func roundTrip(t testing.TB, conn net.Conn, sent string) *response {
	t.Helper()
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, conn)
}

func readAnswer(t testing.TB, conn net.Conn) *response {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{res, string(body)}
}

func TestOverTLSAndHTTP2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	srv := w.listen()
	req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/tokens/", strings.NewReader(card))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("SVC-API-KEY", w.PublicKey)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 201 || res.ProtoMajor != 2 {
		t.Errorf("status %d over %s", res.StatusCode, res.Proto)
	}
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{BodyTimeout: 50 * time.Millisecond})
	srv := w.listen()
	for key, status := range map[string]int{w.PrivateKey: 408, "": 401} {
		conn := rawConn(t, srv)
		roundTrip(t, conn, head(key, 1000)+`{"type":`).wantError(t, status)
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection of a slow client is still open (%d)", n)
		}
	}
}

func TestABodyTimeoutDoesNotEndTheWorkOnARequest(t *testing.T) {
	t.Parallel()
	w, store := breakableWorld(t)
	w.h = Handler(w.Vault.Vault, &Options{BodyTimeout: 50 * time.Millisecond})
	srv := w.listen()
	gate := make(chan struct{})
	store.gate.Store(&gate)
	working := rawConn(t, srv)
	if _, err := io.WriteString(working, head(w.PrivateKey, len(card))+card); err != nil {
		t.Fatal(err)
	}
	<-gate
	// When this one is given up, the time of the first has passed as well.
	roundTrip(t, rawConn(t, srv), head(w.PrivateKey, 1000)).wantError(t, 408)
	store.gate.Store(nil)
	store.leave <- struct{}{}
	readAnswer(t, working).want(t, 201)
	roundTrip(t, working, head(w.PrivateKey, len(card))+card).want(t, 201) // and the connection lives
}

func TestACutOffBodyChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	srv := w.listen()
	before := w.state()
	for _, sent := range []string{card[:40], card, ""} { // also one that would be complete
		conn := rawConn(t, srv)
		if _, err := io.WriteString(conn, head(w.PrivateKey, len(card)+1)+sent); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readAnswer(t, conn).wantError(t, 400)
	}
	if after := w.state(); after != before {
		t.Errorf("%s, then %s", before, after)
	}
}

func TestABodyOfUnknownLengthIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{MaxBody: 1000, BodyTimeout: 50 * time.Millisecond})
	srv := w.listen()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 600, strings.Repeat(" ", 600))
	conn := rawConn(t, srv)
	res := roundTrip(t, conn, "POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: "+w.PrivateKey+"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+chunk)
	res.wantError(t, 413)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
}

func TestALargeAnswerThatIsNotTakenIsGivenUp(t *testing.T) {
	t.Parallel()
	done := make(observed, 1)
	w := newWorld(t, &Options{BodyTimeout: 50 * time.Millisecond, Observer: done})
	for range 3 {
		_, err := w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Mask: strings.Repeat("long ", 400_000)})
		if err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: %s\r\n\r\n", w.PrivateKey); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Status != 200 || r.Bytes < 5<<20 { // nothing was read, and yet the request is over
		t.Errorf("status %d, %d bytes", r.Status, r.Bytes)
	}
}

// TestAnnouncedBodiesTakeNoMemory is not parallel, since it looks at the heap.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	const clients = 100
	arrived := make(chan struct{}, clients)
	w := newWorld(t, &Options{RateLimit: func(*http.Request, *vault.Client, int) (time.Duration, bool) {
		arrived <- struct{}{}
		return 0, true
	}})
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	before := heap()
	for range clients {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, head(w.PrivateKey, 5<<20)+`{"type":"token","data":"`); err != nil {
			t.Fatal(err)
		}
	}
	for range clients {
		<-arrived
	}
	if grown := heap() - before; grown > clients*100<<10 {
		t.Errorf("%d clients that announced 5 MiB each hold %d KiB", clients, grown>>10)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
