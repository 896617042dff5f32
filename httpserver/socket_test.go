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
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// listen puts the vault behind a real TLS listener.
func (w *restVault) listen() *httptest.Server {
	srv := httptest.NewUnstartedServer(w.h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
	return srv
}

// rawConn opens a TLS connection for raw HTTP/1.1.
func rawConn(t testing.TB, srv *httptest.Server) *tls.Conn {
	t.Helper()
	conf := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.NextProtos = []string{"http/1.1"}
	conn := must.Get(tls.Dial("tcp", srv.Listener.Addr().String(), conf))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// deadlines records the last deadlines that a handler sets, and lets a test
// decide when a body is late.
type deadlines struct {
	http.Handler
	read, write atomic.Pointer[time.Time]
	late        atomic.Bool
	conn        atomic.Pointer[http.ResponseController]
}

func (d *deadlines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.conn.Store(http.NewResponseController(w))
	d.Handler.ServeHTTP(&deadlineWriter{w, d}, r)
}

// bodyIsLate makes the unread rest of the body late.
func (d *deadlines) bodyIsLate(t testing.TB) {
	t.Helper()
	if until := d.read.Load(); until == nil || until.IsZero() {
		t.Error("the body has no deadline")
	}
	d.late.Store(true)
	must.Do(t, d.conn.Load().SetReadDeadline(time.Now()))
}

type deadlineWriter struct {
	http.ResponseWriter
	d *deadlines
}

func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *deadlineWriter) SetReadDeadline(until time.Time) error {
	w.d.read.Store(&until)
	if w.d.late.Load() {
		until = time.Now()
	}
	return w.d.conn.Load().SetReadDeadline(until)
}

func (w *deadlineWriter) SetWriteDeadline(until time.Time) error {
	w.d.write.Store(&until)
	return w.d.conn.Load().SetWriteDeadline(until)
}

// head returns the start of a request that creates a token and announces a
// body of the given length.
func head(key string, length int) string {
	return fmt.Sprintf("POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: %s\r\nContent-Length: %d\r\n\r\n", key, length)
}

// roundTrip writes bytes and reads a response.
func roundTrip(t testing.TB, conn net.Conn, sent string) *response {
	t.Helper()
	must.Get(io.WriteString(conn, sent))(t)
	return readAnswer(t, conn)
}

func readAnswer(t testing.TB, conn net.Conn) *response {
	t.Helper()
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	return &response{res, string(body)}
}

func TestOverTLSAndHTTP2(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	srv := w.listen()
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/tokens/", strings.NewReader(card)))(t)
	req.Header.Set("SVC-API-KEY", w.PublicKey)
	res := must.Get(srv.Client().Do(req))(t)
	defer res.Body.Close()
	same(t, "status", res.StatusCode, 201)
	same(t, "HTTP version", res.ProtoMajor, 2)
}

func TestSlowBodyIsAborted(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{BodyTimeout: 50 * time.Millisecond})
	srv := w.listen()
	for key, status := range map[string]int{w.PrivateKey: 408, "": 401} {
		conn := rawConn(t, srv)
		roundTrip(t, conn, head(key, 1000)+`{"type":`).wantError(t, status)
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection of a slow client is still open (%d)", n)
		}
	}
}

func TestBodyTimeoutDoesNotEndARequest(t *testing.T) {
	t.Parallel()
	w, store := breakableVault(t)
	limits := &deadlines{Handler: w.h}
	w.h = limits
	srv := w.listen()
	gate := make(chan struct{})
	store.gate.Store(&gate)
	working := rawConn(t, srv)
	must.Get(io.WriteString(working, head(w.PrivateKey, len(card))+card))(t)
	<-gate
	if got := limits.read.Load(); got == nil || !got.IsZero() {
		t.Errorf("the read deadline is %v while the request is handled", got)
	}
	store.gate.Store(nil)
	store.leave <- struct{}{}
	readAnswer(t, working).want(t, 201)
	roundTrip(t, working, head(w.PrivateKey, len(card))+card).want(t, 201) // and the connection is still open
}

func TestACutOffBodyChangesNothing(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	srv := w.listen()
	before := w.state()
	for _, sent := range []string{card[:40], card, ""} { // including a complete JSON object that is shorter than announced
		conn := rawConn(t, srv)
		must.Get(io.WriteString(conn, head(w.PrivateKey, len(card)+1)+sent))(t)
		must.Do(t, conn.CloseWrite())
		readAnswer(t, conn).wantError(t, 400)
	}
	same(t, "state", w.state(), before)
}

func TestABodyOfUnknownLengthIsBounded(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{MaxBody: 1000})
	srv := w.listen()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 600, strings.Repeat(" ", 600))
	conn := rawConn(t, srv)
	must.Get(io.WriteString(conn, "POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: "+w.PrivateKey+"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+chunk))(t)
	must.Do(t, conn.CloseWrite()) // so that the server does not wait for the rest
	res := readAnswer(t, conn)
	if res.wantError(t, 413); !res.Close {
		t.Error("the connection is still open")
	}
}

func TestUnreadLargeResponseIsAborted(t *testing.T) {
	t.Parallel()
	done := make(observed, 1)
	w := newRestVault(t, &Options{BodyTimeout: 50 * time.Millisecond, Observer: done})
	for range 3 {
		must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Mask: strings.Repeat("long ", 400_000)}))(t)
	}
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	conn := must.Get(net.Dial("tcp", srv.Listener.Addr().String()))(t)
	defer conn.Close()
	must.Do(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	must.Get(fmt.Fprintf(conn, "GET /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: %s\r\n\r\n", w.PrivateKey))(t)
	if r := <-done; r.Status != 200 || r.Bytes < 5<<20 { // the client reads nothing, and yet the request ends
		t.Errorf("status %d, %d bytes", r.Status, r.Bytes)
	}
}

// TestAnnouncedBodiesTakeNoMemory is not parallel because it measures the
// heap.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	const clients = 100
	arrived := make(chan struct{}, clients)
	w := newRestVault(t, &Options{RateLimit: func(*http.Request, *vault.Client, int) (time.Duration, bool) {
		arrived <- struct{}{}
		return 0, true
	}})
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	before := heap()
	for range clients {
		conn := must.Get(net.Dial("tcp", srv.Listener.Addr().String()))(t)
		defer conn.Close()
		must.Get(io.WriteString(conn, head(w.PrivateKey, 5<<20)+`{"type":"token","data":"`))(t)
	}
	for range clients {
		<-arrived
	}
	if grown := heap() - before; grown > clients*100<<10 {
		t.Errorf("%d clients that announced 5 MiB each hold %d KiB", clients, grown>>10)
	}
}

// TestImportsThatWaitTakeNoMemory is not parallel either. An import that has one row,
// and waits for others, holds no more than is charged for it.
func TestImportsThatWaitTakeNoMemory(t *testing.T) {
	const imports = 100
	w := newRestVault(t, nil)
	waiting, end := make(chan bool), make(chan bool)
	rows := func(yield func(vault.TokenParams, error) bool) {
		yield(vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}, nil)
		waiting <- true
		<-end
	}
	before := heap()
	for range imports {
		go func() {
			for _, err := range w.Private.Import(t.Context(), rows, nil) {
				if err != nil {
					t.Error(err)
				}
			}
			waiting <- true
		}()
	}
	for range imports {
		<-waiting
	}
	if grown := heap() - before; grown > imports*100<<10 {
		t.Errorf("%d imports that wait for their second row hold %d KiB", imports, grown>>10)
	}
	close(end)
	for range imports {
		<-waiting
	}
}

// The buffers of an import count as memory of its tenant.
func TestImportsAreCharged(t *testing.T) {
	t.Parallel()
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{MaxMemory: 4 * smallBody}), nil)
	w.do("POST", "/tokens/import", w.PublicKey, `{"type":"token","data":"x"}`).wantError(t, 413)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
