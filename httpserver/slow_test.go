package httpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// quickPause makes the imports of a vault wait only a moment for rows.
func quickPause(w *restVault) { w.h.(*handler).importPause = time.Millisecond }

// Imports whose callers have stopped sending write the rows they have, so
// that they hold no memory that another tenant needs.
func TestSlowImportsHoldNoMemory(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	quickPause(w)
	srv := w.listen()
	newKey := func(name string, kind vault.ApplicationType) string {
		_, owner := w.NewTenant(t, name)
		_, key := w.NewApplication(t, owner, kind, nil)
		return key
	}
	row := fmt.Sprintf(`{"type":"token","data":%q}`+"\n", strings.Repeat("x", 10<<10))
	const imports, rows = 8, 8
	var open []*lines
	for tenant := range 2 {
		key := newKey(fmt.Sprint("Slow ", tenant), vault.ApplicationPublic)
		for range imports {
			body, to := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/tokens/import", body)
			must.Do(t, err)
			req.Header.Set("SVC-API-KEY", key)
			go func() { _, _ = io.WriteString(to, strings.Repeat(row, rows)) }()
			l := &lines{to: to}
			if l.res, err = srv.Client().Do(req); err != nil {
				t.Fatal(err)
			}
			l.from = bufio.NewScanner(l.res.Body)
			t.Cleanup(func() { _, _ = to.Close(), l.res.Body.Close() })
			open = append(open, l)
		}
	}
	for _, l := range open {
		l.read(t, rows) // although the body has not ended
	}
	large := fmt.Sprintf(`{"type":"token","data":%q}`, strings.Repeat("x", 200<<10))
	w.do("POST", "/tokens", newKey("Quick", vault.ApplicationPrivate), large).want(t, 201)
}

// drip sends a text repeatedly until the connection ends.
func drip(to io.Writer, text string) {
	for {
		if _, err := io.WriteString(to, text); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // the caller must be slow
	}
}

// Blank lines and single bytes do not keep a body alive, because it has a
// minimum rate.
func TestBodiesHaveAMinimumRate(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, &Options{BodyTimeout: 100 * time.Millisecond}, nil)
	srv := w.listen()
	x := w.proxy(anonymous)
	const head = "POST %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: 1000000\r\n\r\n"
	for _, test := range map[string]struct{ head, text string }{
		"blank lines of an import": {fmt.Sprintf(head, "/tokens/import", "SVC-API-KEY", w.PublicKey), "\n"},
		"upload through a proxy":   {fmt.Sprintf(head, "/proxy", "SVC-PROXY-KEY", x.Key), "x"},
	} {
		conn := rawConn(t, srv)
		must.Get(io.WriteString(conn, test.head))(t)
		go drip(conn, test.text)
		readAnswer(t, conn).has(t, "did not arrive in time")
	}
}

// Patience shrinks while the server waits, and grows with the bytes that
// arrive, up to its initial value.
func TestSlowBodiesNeedAMinimumRate(t *testing.T) {
	t.Parallel()
	start := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	const second = time.Second
	for _, test := range []struct {
		name  string
		waits []time.Duration
		bytes int // that arrive after each wait
		left  time.Duration
	}{
		{"nothing sent", []time.Duration{10 * second, 10 * second}, 0, 10 * second},
		{"one byte every 12 seconds", []time.Duration{12 * second, 12 * second, 12 * second}, 1, 0},
		{"at the rate", []time.Duration{second, second, second, second}, 100, 30 * second},
		{"half the rate", []time.Duration{2 * second, 2 * second}, 100, 28 * second},
		{"much at once", []time.Duration{0}, 1 << 30, 30 * second},
	} {
		p := relay.NewPatience(30*second, 100)
		for _, wait := range test.waits {
			p.Note(wait, test.bytes)
		}
		same(t, test.name, p.Until(start).Sub(start), test.left)
	}
}

// newHolding returns a destination that holds the requests to /wait, and a policy with
// four places for each tenant.
func newHolding(t *testing.T) (dest *destination, egress vault.EgressPolicy, arrived, hold chan struct{}) {
	t.Helper()
	arrived, hold = make(chan struct{}), make(chan struct{})
	dest = newDestination(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- struct{}{}
			<-hold
		}
	})
	egress = trusting(dest.Server)
	egress.MaxConnsPerTenant = 4
	return dest, egress, arrived, hold
}

// A tenant has a number of slots. Anonymous calls of an open proxy can use neither all
// of the slots nor the slots of another proxy.
func TestPlacesOfATenant(t *testing.T) {
	t.Parallel()
	dest, egress, arrived, hold := newHolding(t)
	w := newProxyVault(t, &vault.Config{Egress: egress}, nil, nil)
	open := func(p *vault.ProxyParams) {
		p.DestinationURL = dest.URL
		anonymous(p)
	}
	x, other := w.proxy(open), w.proxy(open)
	stranger := func(path string) *response {
		return w.call(w.request("POST", "/proxy"+path, "x", "SVC-PROXY-KEY", x.Key))
	}
	done := make(chan *response)
	for range 2 {
		go func() { done <- stranger("/wait") }()
		<-arrived
	}
	stranger("").wantProxyError(t, 429)
	w.call(w.request("POST", "/proxy", "x", "SVC-PROXY-KEY", other.Key)).wantDestination(t, 200, "")
	for range 4 {
		w.invoke(x, "GET", "", "").wantDestination(t, 200, "")
		go func() { done <- w.invoke(x, "GET", "/wait", "") }()
		<-arrived
	}
	w.invoke(x, "GET", "", "").headers(t, "Retry-After", "1").wantProxyError(t, 429)
	close(hold)
	for range 6 {
		(<-done).wantDestination(t, 200, "")
	}
	w.invoke(x, "GET", "", "").wantDestination(t, 200, "")
	stranger("").wantDestination(t, 200, "")
}

// fetching is a runtime whose code fetches an address. Code with the id of a reactor
// as its source invokes that reactor.
type fetching struct{ address string }

func (fetching) Check(context.Context, script.Program) error { return nil }

func (f fetching) Run(ctx context.Context, p script.Program, _ json.RawMessage, host script.Host) (json.RawMessage, error) {
	var err error
	if _, bad := uuid.Parse(p.Source); bad == nil {
		_, err = host.Call(ctx, "reactors.react", json.RawMessage(`{"id":"`+p.Source+`","body":{"args":{}}}`))
	} else {
		_, err = host.Call(ctx, "fetch", json.RawMessage(`{"method":"GET","url":"`+f.address+`"}`))
	}
	if err != nil {
		return nil, script.ErrBusy
	}
	return json.RawMessage(`{"raw":{}}`), nil
}

func (fetching) Close() error { return nil }

// The code of an open proxy, and the reactors that it invokes, cannot use all the
// places of the tenant for its fetches.
func TestAnonymousFetchesHaveSeparatePlaces(t *testing.T) {
	t.Parallel()
	dest, egress, arrived, hold := newHolding(t)
	w := newProxyVault(t, &vault.Config{Egress: egress, Runtime: fetching{dest.URL + "/wait"}}, nil, nil)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}}))(t)
	app := must.Get(w.Management.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:use"}}))(t)
	open := func(code string) *vault.Proxy {
		return w.proxy(func(p *vault.ProxyParams) {
			p.DestinationURL, p.RequestTransform, p.ApplicationID = dest.URL, &vault.ProxyTransform{Code: code}, app.ID
			anonymous(p)
		})
	}
	direct, nested := open("fetch"), open(reactor.ID.String())
	stranger := func(x *vault.Proxy) *response {
		return w.call(w.request("POST", "/proxy", "{}", "SVC-PROXY-KEY", x.Key, "Content-Type", "application/json"))
	}
	done := make(chan error, 8)
	for _, x := range []*vault.Proxy{direct, nested, direct, nested} {
		go func() { stranger(x); done <- nil }()
		<-arrived
	}
	stranger(direct).wantProxyError(t, 429)
	stranger(nested).wantProxyError(t, 429)
	for range 4 {
		go func() {
			_, err := w.Private.React(context.WithoutCancel(t.Context()), reactor.ID, vault.ReactParams{Args: map[string]any{}})
			done <- err
		}()
		<-arrived
	}
	close(hold)
	for range 8 {
		must.Match(t, "a reactor", <-done, nil)
	}
}
