package httpserver

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestImportLines(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{MaxBody: 2000})
	w.do("POST", "/tokens", w.PrivateKey, `{"id":"there","type":"token","data":"x"}`).want(t, 201)
	body := strings.Join([]string{
		`{"id":"one","type":"token","data":"x"}`, "", "  \r",
		`{"id":"bad","type":"card","data":{"number":"4111111111111112"}}`,
		`{"id":"there","type":"token","data":"y"}`,
		`{"id":"more`, `null`, `[]`, `{"id":"one","type":"token","data":"x","colour":"red"}`,
		`{"type":"token","data":"` + strings.Repeat("x", 3000) + `"}`,
		`{"id":"last","type":"token","data":"` + strings.Repeat("x", 1000) + `"}`,
	}, "\n")
	res := w.do("POST", "/tokens/import?first_row=7", w.PublicKey, body).want(t, 200)
	want := []string{
		`{"row":7,"outcome":"created","id":"one"}`,
		`{"row":8,"outcome":"failed","status":400,"errors":{"data.number":["must have a valid check digit (Luhn)"]}}`,
		`{"row":9,"outcome":"failed","status":409,"errors":{"id":["is the id of another token"]}}`,
		`{"row":10,"outcome":"failed","status":400,"errors":{"":["`,
		`{"row":11,"outcome":"failed","status":400,"errors":{"":["must be an object"]}}`,
		`{"row":12,"outcome":"failed","status":400,"errors":{"":["must be an object"]}}`,
		`{"row":13,"outcome":"failed","status":400,"errors":{"colour":["is not a field of this object"]}}`,
		`{"row":14,"outcome":"failed","status":400,"errors":{"":["must have at most 2000 bytes"]}}`,
		`{"row":15,"outcome":"created","id":"last"}`,
	}
	got := strings.Split(strings.TrimSuffix(res.body, "\n"), "\n")
	for i := range want {
		if len(got) != len(want) || !sameFields(got[i], want[i]) {
			t.Fatalf("line %d of %d is %s, want %s", i, len(got), got[i], want[i])
		}
	}
	if typ := res.Header.Get("Content-Type"); typ != contentLines || res.Header.Get("Content-Length") != "" {
		t.Errorf("content type %s, length %q", typ, res.Header.Get("Content-Length"))
	}
	w.do("POST", "/tokens/import?on_duplicate=skip", w.PublicKey, `{"id":"one","type":"token","data":"x"}`).has(t, `"skipped"`)
	if none := w.do("POST", "/tokens/import", w.PublicKey, "").want(t, 200); none.body != "" || none.Header.Get("Content-Type") != contentLines {
		t.Errorf("an import of nothing: %q, %v", none.body, none.Header)
	}
}

// sameFields compares two lines. The second one may be truncated.
func sameFields(got, want string) bool {
	var a, b map[string]any
	if json.Unmarshal([]byte(want), &b) != nil {
		return len(got) > len(want)
	}
	return json.Unmarshal([]byte(got), &a) == nil && cmp.Equal(a, b)
}

func TestImportIsRefused(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	row := `{"id":"one","type":"token","data":"x"}`
	res := w.do("POST", "/tokens/import", w.PublicKey, row, "SVC-IDEMPOTENCY-KEY", "k")
	must.Contain(t, "with an idempotency key", fmt.Sprint(res.wantError(t, 400)["errors"]), "rows with an id")
	w.do("POST", "/tokens/import", w.ManagementKey, row).wantError(t, 403)
	w.do("POST", "/tokens/import", "", row).wantError(t, 401)
	for _, query := range []string{"on_duplicate=x", "first_row=0", "resumed=maybe", "colour=red"} {
		w.do("POST", "/tokens/import?"+query, w.PublicKey, row).wantError(t, 400)
	}
	w.do("GET", "/tokens/one", w.PrivateKey, "").wantError(t, 404)

	small := smallVault(t)
	brackets := `{"type":"token","data":[` + strings.Repeat("[],", 100<<10) + `1]}`
	small.do("POST", "/tokens/import", small.PublicKey, brackets+"\n"+row).wantError(t, 413) // more than a tenant may ever hold
	small.do("GET", "/tokens/one", small.PrivateKey, "").wantError(t, 404)
}

// lines sends rows of an import over a connection, and reads results while it
// sends.
type lines struct {
	to   *io.PipeWriter
	from *bufio.Scanner
	res  *http.Response
}

func (l *lines) send(t testing.TB, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		must.Get(fmt.Fprintf(l.to, `{"id":"row-%d","type":"token","data":"x"}`+"\n", i))(t)
	}
}

func (l *lines) read(t testing.TB, n int) {
	t.Helper()
	for range n {
		if !l.from.Scan() || !strings.Contains(l.from.Text(), `"created"`) {
			t.Fatalf("read %q, %v", l.from.Text(), l.from.Err())
		}
	}
}

// importOver starts an import through a server.
func importOver(t *testing.T, srv *httptest.Server, key string) *lines {
	t.Helper()
	body, to := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/tokens/import", body)
	must.Do(t, err)
	req.Header.Set("SVC-API-KEY", key)
	l := &lines{to: to}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		l.send(t, 0, 2000)
	}()
	if l.res, err = srv.Client().Do(req); err != nil {
		t.Fatal(err)
	}
	<-sent
	t.Cleanup(func() { _, _ = l.to.Close(), l.res.Body.Close() })
	l.from = bufio.NewScanner(l.res.Body)
	return l
}

// TestImportStreams reads results while it still sends rows. The servers have
// timeouts, but these do not apply to an import: each read and write has a
// separate deadline.
func TestImportStreams(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*httptest.Server){
		"HTTP/1.1": func(srv *httptest.Server) { srv.Start() },
		"HTTP/2": func(srv *httptest.Server) {
			srv.EnableHTTP2, srv.TLS = true, &tls.Config{MinVersion: tls.VersionTLS12}
			srv.StartTLS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRestVault(t, &Options{BodyTimeout: 2 * time.Hour})
			limits := &deadlines{Handler: w.h}
			srv := httptest.NewUnstartedServer(limits)
			srv.Config.ReadTimeout, srv.Config.WriteTimeout = time.Hour, time.Hour
			configure(srv)
			t.Cleanup(srv.Close)
			l := importOver(t, srv, w.PublicKey)
			if proto := l.res.Proto; !strings.HasPrefix(proto, name) && !strings.HasPrefix(proto, "HTTP/2") {
				t.Fatalf("through %s", proto)
			}
			l.read(t, 1000) // while more rows are to come
			for _, until := range []*time.Time{limits.read.Load(), limits.write.Load()} {
				if until == nil || time.Until(*until) < time.Hour {
					t.Errorf("the timeout of the server ends the import: %v", until)
				}
			}
			const n = 4000
			for i := 2000; i < n; i += 1000 {
				l.send(t, i, 1000)
				l.read(t, 1000)
			}
			l.send(t, n, 5)
			_ = l.to.Close()
			l.read(t, 1005) // the remaining results
			if l.from.Scan() {
				t.Errorf("a result without a row: %s", l.from.Text())
			}
		})
	}
}

// TestImportEndsEarly checks that an import that fails after some results
// reports the reason.
func TestImportEndsEarly(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	quickPause(w)
	limits := &deadlines{Handler: w.h}
	srv := httptest.NewServer(limits)
	t.Cleanup(srv.Close)
	l := importOver(t, srv, w.PublicKey)
	l.read(t, 2000) // all rows, although the body has not ended
	limits.bodyIsLate(t)
	if !l.from.Scan() || !sameFields(l.from.Text(), `{"row":0,"outcome":"","error":{"title":"Request Timeout","status":408,"detail":"The body did not arrive in time."}}`) {
		t.Errorf("line after the results: %s, %v", l.from.Text(), l.from.Err())
	}
	if l.from.Scan() {
		t.Errorf("another line: %s", l.from.Text())
	}
}

// TestStalledImportIsAborted sends less than it announced, and then
// nothing. After a complete body, the connection stays open.
func TestStalledImportIsAborted(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{BodyTimeout: 50 * time.Millisecond})
	srv := w.listen()
	importHead := func(length int) string {
		return strings.Replace(head(w.PublicKey, length), "/tokens", "/tokens/import", 1)
	}
	for name, body := range map[string]string{"after a row": "null\n", "in a row": `{"type":`, "at once": ""} {
		conn := rawConn(t, srv)
		res := roundTrip(t, conn, importHead(1000)+body)
		if !res.Close || !strings.Contains(res.body, "did not arrive in time") {
			t.Errorf("%s: closes %v, %s", name, res.Close, res.body)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
	}
	w.h = Handler(w.Vault.Vault, nil)
	conn := rawConn(t, w.listen())
	for range 2 {
		if res := roundTrip(t, conn, importHead(5)+"null\n").want(t, 200); res.Close {
			t.Error("the connection ends after a complete body")
		}
	}
}

// TestImportIsSlowedDown checks that an import charges the limiter for each
// line, even a rejected one, and waits for it.
func TestImportIsSlowedDown(t *testing.T) {
	t.Parallel()
	var charged, refused atomic.Int64
	w := newRestVault(t, &Options{RateLimit: func(_ *http.Request, _ *vault.Client, cost int) (time.Duration, bool) {
		if cost > 1 && refused.Add(1) == 1 {
			return time.Millisecond, false
		}
		charged.Add(int64(cost))
		return 0, true
	}})
	var body strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&body, `{"id":"row-%d","type":"token","data":"x"}`+"\n", i)
		body.WriteString("null\n")
	}
	res := w.serve(request(t, "/tokens/import", w.PublicKey, body.String()))
	if n := strings.Count(res.body, `"created"`); n != 2500 || charged.Load() != 5000 || refused.Load() < 2 {
		t.Errorf("%d rows were imported, and %d lines charged, want 2500 and 5000", n, charged.Load())
	}
}

func request(t testing.TB, path, key, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("SVC-API-KEY", key)
	return r
}

func TestFollowLogs(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	start := w.do("GET", "/logs/follow", w.ManagementKey, "").want(t, 200)
	if start.decode(t)["data"] == nil {
		t.Errorf("entries are not a list: %s", start.body)
	}
	w.do("POST", "/tokens", w.PublicKey, `{"id":"tok","type":"token","data":"x"}`).want(t, 201)
	next := w.do("GET", "/logs/follow?wait=30&cursor="+start.text(t, "cursor"), w.ManagementKey, "").want(t, 200)
	next.has(t, `"entity_id":"tok"`)
	since := w.do("GET", "/logs/follow?cursor=since:2025-01-01T00:00:00Z", w.ManagementKey, "").want(t, 200)
	since.has(t, `"entity_id":"tok"`)
	for _, query := range []string{"cursor=x", "cursor=since:x", "wait=31", "wait=-1", "wait=x", "size=3"} {
		w.do("GET", "/logs/follow?"+query, w.ManagementKey, "").wantError(t, 400)
	}
	w.do("GET", "/logs/follow", w.PrivateKey, "").wantError(t, 403)
}
