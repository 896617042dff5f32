package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder(contentLines, openapi3filter.JSONBodyDecoder)
	goleak.VerifyTestMain(m)
}

// card is the body of a request that creates a card token.
const card = `{"type":"card","data":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`

// restVault is a vault behind the handler, for one test. Every response is
// checked against the OpenAPI document.
type restVault struct {
	*vaulttest.Vault
	t   testing.TB
	h   http.Handler
	log *safeBuffer
}

func newRestVault(t testing.TB, opts *Options) *restVault {
	t.Helper()
	return restVaultOf(t, vaulttest.New(t), opts)
}

func restVaultOf(t testing.TB, v *vaulttest.Vault, opts *Options) *restVault {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	w := &restVault{Vault: v, t: t, log: &safeBuffer{}}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewJSONHandler(w.log, nil))
	}
	w.h = Handler(v.Vault, &o)
	return w
}

// response is an HTTP response with its body.
type response struct {
	*http.Response
	body string
}

// do sends a request through the handler. More headers come in pairs.
func (w *restVault) do(method, path, key, body string, header ...string) *response {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("SVC-API-KEY", key)
	}
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", mergePatch)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.send(r)
}

// send handles a request and validates the response.
func (w *restVault) send(r *http.Request) *response {
	w.t.Helper()
	res := w.serve(r)
	validate(w.t, r, res)
	return res
}

// serve handles a request.
func (w *restVault) serve(r *http.Request) *response {
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	res := rec.Result()
	res.Request = r
	return &response{res, rec.Body.String()}
}

// name returns the request of a response.
func (r *response) name() string {
	if r.Request == nil {
		return "a raw request"
	}
	return r.Request.Method + " " + r.Request.URL.String()
}

// want fails the test unless the response has the status.
func (r *response) want(t testing.TB, status int) *response {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%.300s: status %d, want %d: %s", r.name(), r.StatusCode, status, r.body)
	}
	return r
}

// has fails the test unless the body has these parts.
func (r *response) has(t testing.TB, parts ...string) *response {
	t.Helper()
	for _, part := range parts {
		must.Contain(t, r.name(), r.body, part)
	}
	return r
}

// lacks fails the test if the body has one of these parts.
func (r *response) lacks(t testing.TB, parts ...string) {
	t.Helper()
	for _, part := range parts {
		must.Lack(t, r.name(), r.body, part)
	}
}

// headers fails the test unless the response has these headers. They come in
// pairs, and an empty value stands for an absent header.
func (r *response) headers(t testing.TB, pairs ...string) *response {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		same(t, r.name()+": "+pairs[i], r.Header.Get(pairs[i]), pairs[i+1])
	}
	return r
}

// wantFields fails the test unless the response is an error about exactly these
// fields, which are in order.
func (r *response) wantFields(t testing.TB, fields ...string) {
	t.Helper()
	errs, _ := r.wantError(t, http.StatusBadRequest)["errors"].(map[string]any)
	same(t, r.name()+": fields", slices.Sorted(maps.Keys(errs)), fields)
}

// decode reads the body as a JSON object.
func (r *response) decode(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("the body is not a JSON object: %v\n%s", err, r.body)
	}
	return v
}

// text returns a string field of the body.
func (r *response) text(t testing.TB, name string) string {
	t.Helper()
	s, ok := r.decode(t)[name].(string)
	if !ok {
		t.Fatalf("the body has no string %s: %s", name, r.body)
	}
	return s
}

// wantError fails the test unless the response is an error of the common
// form.
func (r *response) wantError(t testing.TB, status int) map[string]any {
	t.Helper()
	body := r.want(t, status).decode(t)
	if body["status"] != float64(status) || body["title"] == "" || body["detail"] == "" {
		t.Errorf("not an error body: %s", r.body)
	}
	if _, has := body["errors"]; has != (status == http.StatusBadRequest) {
		t.Errorf("errors belongs to a 400: %s", r.body)
	}
	return body
}

// loadDocument parses the embedded OpenAPI document.
var loadDocument = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openAPIDocument)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func theDocument(t testing.TB) *openapi3.T {
	t.Helper()
	doc := must.Get(loadDocument())(t)
	return doc
}

// patterns finds the pattern of a path, as the handler does.
var patterns = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	for _, e := range (&handler{}).endpoints() {
		mux.Handle(e.name, e)
	}
	return mux
})

// validate checks a response against the OpenAPI document: its status must be
// one of the operation's, and its headers and body must match the schema.
func validate(t testing.TB, r *http.Request, res *response) {
	t.Helper()
	if res.Header.Get("SVC-TRACE-ID") == "" && r.Header.Get("X-Test-Prefix") == "" {
		t.Errorf("%s %s: no trace id", r.Method, r.URL.Path)
	}
	op, path := operationOf(t, r)
	if op == nil || res.StatusCode == http.StatusMethodNotAllowed || r.Method == http.MethodOptions {
		return
	}
	if strings.Contains(res.body, "1e400") {
		return // the validator cannot read this number
	}
	bodies := []string{res.body}
	if res.Header.Get("Content-Type") == contentLines {
		bodies = strings.SplitAfter(res.body, "\n")
		bodies = bodies[:len(bodies)-1] // the empty text after the last line
	}
	for _, body := range bodies {
		err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: &routers.Route{
				Spec: theDocument(t), Path: path, Method: r.Method, Operation: op}},
			Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(strings.NewReader(body)),
			Options: &openapi3filter.Options{IncludeResponseStatus: true},
		})
		if err == nil {
			continue
		}
		t.Errorf("%s %s, status %d, does not match openapi.json: %v", r.Method, path, res.StatusCode, err)
	}
}

// operationOf finds the operation of a request in the document.
func operationOf(t testing.TB, r *http.Request) (*openapi3.Operation, string) {
	t.Helper()
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/")
	if !isClean(path) || r.Header.Get("X-Test-Prefix") != "" {
		return nil, ""
	}
	bare := httptest.NewRequest(http.MethodGet, path, nil)
	_, pattern := patterns().Handler(bare)
	item := theDocument(t).Paths.Value(pattern)
	if item == nil {
		return nil, ""
	}
	return item.GetOperation(r.Method), pattern
}

// safeBuffer is a buffer that several goroutines may write to.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// same fails the test unless two values are equal.
func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
