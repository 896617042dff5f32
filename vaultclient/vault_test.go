package vaultclient_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiVault is a vault for one test, called in process or over HTTP.
type apiVault struct {
	*vaulttest.Vault
	t    *testing.T
	dest *httptest.Server // echoes requests
	// as returns a client with an API key.
	as func(key string) vault.API
	// Clients with a key of each type and all its permissions.
	public, private, management vault.API

	records []record
}

// record is the result of a call.
type record struct {
	Call  string
	Value any
	Err   *problem
}

// newVault opens a vault that can run code and reach the echoing destination.
// Its writes wait at most writeWait for other writers; zero means the
// default.
func newVault(t *testing.T, writeWait time.Duration) (*vaulttest.Vault, *httptest.Server) {
	t.Helper()
	dest := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(dest.Close)
	pool := x509.NewCertPool()
	pool.AddCert(dest.Certificate())
	store := must.Get(sqlite.OpenOptions(t.Context(), ":memory:", &sqlite.Options{WriteWait: writeWait}))(t)
	return vaulttest.OpenStorage(t, store, &vault.Config{
		Runtime: jsruntime.New(&jsruntime.Options{Workers: 2}), Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: pool},
	}), dest
}

// inProcess returns a vault whose clients call the vault directly.
func inProcess(t *testing.T, writeWait time.Duration) *apiVault {
	t.Helper()
	v, dest := newVault(t, writeWait)
	w := &apiVault{Vault: v, t: t, dest: dest}
	w.as = func(key string) vault.API {
		c := must.Get(v.Authenticate(t.Context(), key))(t)
		return c.From("127.0.0.1") // the origin of calls through the server
	}
	return w.open()
}

// overHTTP returns a vault whose clients use a server, over TLS.
func overHTTP(t *testing.T, writeWait time.Duration) *apiVault {
	t.Helper()
	v, dest := newVault(t, writeWait)
	srv := httptest.NewTLSServer(httpserver.Handler(v.Vault, &httpserver.Options{RawProxy: true}))
	t.Cleanup(srv.Close)
	w := &apiVault{Vault: v, t: t, dest: dest}
	w.as = func(key string) vault.API { return newClient(t, srv, key, nil) }
	return w.open()
}

func (w *apiVault) open() *apiVault {
	w.public, w.private, w.management = w.as(w.PublicKey), w.as(w.PrivateKey), w.as(w.ManagementKey)
	return w
}

// newClient returns a client that trusts the server's certificate and does
// not wait between attempts.
func newClient(t testing.TB, srv *httptest.Server, key string, opts *vaultclient.Options) *vaultclient.Client {
	t.Helper()
	var o vaultclient.Options
	if opts != nil {
		o = *opts
	}
	if o.Transport == nil {
		o.Transport = srv.Client().Transport
	}
	if o.Retry.Sleep == nil {
		o.Retry.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	return must.Get(vaultclient.New(srv.URL, key, &o))(t)
}

// saw records the result of a call.
func (w *apiVault) saw(call string, value any, err error) {
	w.records = append(w.records, record{call, value, problemOf(err)})
}

// see returns a function that records the results of a call.
func (w *apiVault) see(call string) func(value any, err error) {
	return func(value any, err error) { w.saw(call, value, err) }
}

// token stores a token.
func (w *apiVault) token(p vault.TokenParams) {
	w.t.Helper()
	must.Get(w.Private.CreateToken(w.t.Context(), p))(w.t)
}

// echo sends the request back. Some paths select another response.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body is kept as it is
	w.Header().Set("X-Echo", "yes")
	w.Header().Set("Set-Cookie", "a=b")
	w.Header().Set("SVC-Forged", "destination")
	w.Header().Set("Date", "Thu, 01 Jan 2026 12:00:00 GMT")
	switch r.URL.Path {
	case "/missing":
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	case "/moved":
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(http.StatusFound)
		return
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/broken":
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("half"))
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "uri": r.RequestURI, "body": string(body), "length": r.ContentLength,
		"x": r.Header.Values("X-A"), "auth": r.Header.Get("Authorization"), "type": r.Header.Get("Content-Type"),
		"agent": r.Header.Get("User-Agent"), "key": r.Header.Get("SVC-API-KEY"), "own": r.Header.Get("SVC-Mine"),
		"connection": r.Header.Get("Connection"), "encoding": strings.TrimPrefix(r.Header.Get("Accept-Encoding"), "identity"),
	})
}

// problem is the part of an error that a caller can distinguish.
type problem struct {
	Text   string
	Kinds  []string
	Fields map[string][]string
	Script *script.Error
}

// sentinels are the errors that a caller may check for.
var sentinels = map[string]error{
	"invalid": vault.ErrInvalid, "unauthenticated": vault.ErrUnauthenticated, "forbidden": vault.ErrForbidden,
	"not found": vault.ErrNotFound, "conflict": vault.ErrConflict, "in progress": vault.ErrInProgress, "too large": vault.ErrTooLarge,
	"busy": vault.ErrBusy, "unavailable": vault.ErrUnavailable, "code": vault.ErrCode, "timeout": vault.ErrTimeout, "unreachable": vault.ErrUnreachable,
	"canceled": context.Canceled, "deadline": context.DeadlineExceeded, "answer": vaultclient.ErrAnswer,
}

func problemOf(err error) *problem {
	if err == nil {
		return nil
	}
	p := &problem{Text: err.Error()}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			p.Kinds = append(p.Kinds, name)
		}
	}
	slices.Sort(p.Kinds)
	var bad *vault.InvalidError
	if errors.As(err, &bad) {
		p.Fields = bad.Fields
	}
	var taken *vault.ConflictError
	if errors.As(err, &taken) {
		p.Fields = taken.Fields
	}
	var failed *script.Error
	if errors.As(err, &failed) {
		p.Script, p.Text = carried(failed), ""
	}
	if errors.Is(err, vault.ErrTooLarge) || errors.Is(err, vault.ErrUnavailable) {
		p.Text = "" // the text names whose limit it is, or the reason
	}
	return p
}

// carried returns the parts of an error of tenant code that REST can
// transport.
func carried(e *script.Error) *script.Error {
	out := &script.Error{Kind: e.Kind, Status: e.Status, Response: e.Response}
	if e.Response != nil {
		return out
	}
	out.Title, out.Messages = e.Title, e.Messages
	for _, f := range e.Frames {
		out.Frames = append(out.Frames, script.Frame{Line: f.Line})
	}
	return out
}

// answered is the response of a destination.
type answered struct {
	Status int
	Header http.Header
	Body   string
	Err    *problem // error of reading the body
}

// read reads a whole response of a destination.
func read(a *vault.ProxyAnswer, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	a.Header.Del("Date") // every server in between may set one
	body, err := io.ReadAll(a.Body)
	return answered{a.Status, a.Header, string(body), problemOf(err)}, nil
}

// same fails the test unless two values are equal.
func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
