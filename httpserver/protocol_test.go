package httpserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestOrderOfChecks sends requests with everything wrong, and corrects one
// check after the other.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{MaxBody: 100})
	const good = "/reactors/3fa85f64-5717-4562-b3fc-2c963f66afa6"
	large := strings.Repeat("x", 200)
	for _, c := range []struct {
		path, key, contentType, body string
		want                         int
	}{
		{good + "/nope", "", "text/plain", large, 404},
		{good, "", "text/plain", large, 401},
		{good, "key_prv_forged", "text/plain", large, 401},
		{good, w.PrivateKey, "text/plain", large, 403},
		{good, w.ManagementKey, "text/plain", large, 415},
		{good, w.ManagementKey, mergePatch, large, 413},
		{good, w.ManagementKey, mergePatch, "x", 400},
		{"/reactors/no-uuid", w.ManagementKey, mergePatch, "x", 400},
		{"/reactors/no-uuid", w.ManagementKey, mergePatch, "{}", 404},
		{good, w.ManagementKey, mergePatch, `{"name":""}`, 400},
		{good, w.ManagementKey, mergePatch, "{}", 404},
	} {
		w.do("PATCH", c.path, c.key, c.body, "Content-Type", c.contentType).want(t, c.want)
	}
	w.do("TRACE", good, "", "").wantError(t, 405)
}

// TestInvalidPatchIsReportedBeforeMissingEntity patches entities that do
// not exist. Errors in the patch are reported first, unless they depend on
// the entity.
func TestInvalidPatchIsReportedBeforeMissingEntity(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	const id = "/3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for patch, c := range map[string]struct{ path, key, field string }{
		`{"containers":["x"]}`:                             {"/tokens", w.PrivateKey, "containers[0]"},
		`{"metadata":{"a":"\u0000"}}`:                      {"/tokens", w.PrivateKey, "metadata.a"},
		`{"metadata":{"a":1}}`:                             {"/tokens", w.PrivateKey, "metadata.a"},
		`{"mask":{"a":"{{ data | nope }}"}}`:               {"/tokens", w.PrivateKey, "mask.a"},
		`{"fingerprint_expression":"{{"}`:                  {"/tokens", w.PrivateKey, "fingerprint_expression"},
		`{"search_indexes":["{{ data }}","{{"]}`:           {"/tokens", w.PrivateKey, "search_indexes[1]"},
		`{"expires_at":"1/1/2020"}`:                        {"/tokens", w.PrivateKey, "expires_at"},
		`{"data":{"number":"1"},"metadata":{"a":null}}`:    {"/tokens", w.PrivateKey, ""},
		`{"name":null}`:                                    {"/reactors", w.ManagementKey, "name"},
		`{"configuration":{"a":1}}`:                        {"/reactors", w.ManagementKey, "configuration.a"},
		`{"application":{"id":"no"}}`:                      {"/reactors", w.ManagementKey, "application.id"},
		`{"name":"new","configuration":{"a":null}}`:        {"/reactors", w.ManagementKey, ""},
		`{"destination_url":"here"}`:                       {"/proxies", w.ManagementKey, "destination_url"},
		`{"request_transform":null,"require_auth":null}`:   {"/proxies", w.ManagementKey, ""},
		`{"name":"` + strings.Repeat("x", 201) + `"}`:      {"/applications", w.ManagementKey, "name"},
		`{"expires_at":"2020-01-01T00:00:00Z"}`:            {"/applications", w.ManagementKey, "expires_at"},
		`{"permissions":["token:create"],"name":"public"}`: {"/applications", w.ManagementKey, ""},
	} {
		res := w.do("PATCH", c.path+id, c.key, patch)
		if c.field == "" {
			res.wantError(t, 404)
			continue
		}
		res.wantError(t, 400)
		fields, _ := res.decode(t)["errors"].(map[string]any)
		if _, ok := fields[c.field]; !ok || len(fields) != 1 {
			t.Errorf("%s %s: errors about %v, want %s", c.path, patch, fields, c.field)
		}
	}
}

// By RFC 7386, an empty object in a patch leaves the object unchanged.
func TestEmptyObjectInPatchChangesNothing(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	at := w.do("POST", "/reactors", w.ManagementKey, `{"name":"r","code":"module.exports = () => 1","configuration":{"a":"b"},
		"application":{"id":"`+w.do("GET", "/applications/key", w.PrivateKey, "").text(t, "id")+`"}}`).want(t, 201).Header.Get("Location")
	before := w.do("GET", at, w.ManagementKey, "").decode(t)
	w.do("PATCH", at, w.ManagementKey, `{"application":{},"configuration":{}}`).want(t, 204)
	after := w.do("GET", at, w.ManagementKey, "").decode(t)
	for _, field := range []string{"application", "configuration"} {
		same(t, field, after[field], before[field])
	}
}

func TestTrailingSlashIsTheSameRoute(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	res := w.do("POST", "/tokens/", w.PrivateKey, card).want(t, 201)
	id := res.text(t, "id")
	same(t, "Location", res.Header.Get("Location"), "/tokens/"+id)
	w.do("GET", "/tokens/"+id+"/", w.PrivateKey, "").want(t, 200)
	w.do("PATCH", "/tokens/"+id+"/", w.PrivateKey, "{}").want(t, 200)
	w.do("POST", "/tokens/search/", w.PrivateKey, `{"query":"type:card"}`).want(t, 200)
	w.do("GET", "/logs/entity-types/", w.ManagementKey, "").want(t, 200)
	w.do("GET", "/tokens/?size=1", w.PrivateKey, "").want(t, 200)
	w.do("DELETE", "/tokens/"+id+"/", w.PrivateKey, "").want(t, 204)
}

func TestUnknownPathsAre404AndNeverRedirects(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for _, path := range []string{
		"/", "/nope", "//tokens", "/tokens//", "//", "/./tokens", "/tokens/../tokens", "/tokens/.", "/tokens/..",
		"/tokens/a/b", "/Tokens", "/tokens%2F", "/v1/tokens", "/reactors/x/y", "/proxyx", "/sessions/x/y", "/tokens/a%2Fb/c",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "CONNECT"} {
			res := w.do(method, path, w.PrivateKey, "{}")
			same(t, method+" "+path, res.StatusCode, 404)
			res.wantError(t, 404)
		}
	}
}

func TestWrongMethodIs405WithAllow(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for path, want := range map[string]string{
		"/tokens": "GET, HEAD, POST", "/tokens/x": "DELETE, GET, HEAD, PATCH", "/tokens/search": "POST",
		"/reactors/x": "DELETE, GET, HEAD, PATCH, PUT", "/healthz": "GET, HEAD", "/tenants/self/": "GET, HEAD, PUT",
	} {
		for _, method := range []string{"OPTIONS", "TRACE", "PROPFIND", "get"} {
			res := w.do(method, path, "", "")
			res.wantError(t, 405)
			same(t, method+" "+path+": Allow", res.Header.Get("Allow"), want)
		}
	}
}

func TestRequestWithoutServer(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", "/sessions", nil))(t)
	req.Header.Set("SVC-API-KEY", w.PublicKey)
	w.send(req).want(t, 201)
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	srv := httptest.NewServer(w.h)
	defer srv.Close()
	req := must.Get(http.NewRequestWithContext(context.Background(), "HEAD", srv.URL+"/tokens", nil))(t)
	req.Header.Set("SVC-API-KEY", w.PrivateKey)
	res := must.Get(srv.Client().Do(req))(t)
	res.Body.Close()
	if res.StatusCode != 200 || res.ContentLength <= 0 {
		t.Errorf("status %d, length %d", res.StatusCode, res.ContentLength)
	}
}

func TestHandlerCanBeMountedUnderAPrefix(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/vault/", http.StripPrefix("/vault", w.h))
	for _, target := range []string{"/vault/tokens", "/vault/tokens/?a=b", "http://host/vault/tokens"} {
		r := httptest.NewRequest("POST", target, strings.NewReader(card))
		r.Header.Set("SVC-API-KEY", w.PrivateKey)
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, r)
		if got := rec.Header().Get("Location"); rec.Code != 201 || !strings.HasPrefix(got, "/vault/tokens/") {
			t.Errorf("%s: %d, Location %q", target, rec.Code, got)
		}
	}
}

func TestPrefixNamesEveryHeader(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{Prefix: "BT-"})
	call := func() *response {
		return w.do("POST", "/tokens", "", card, "X-Test-Prefix", "BT", "BT-API-KEY", w.PrivateKey, "BT-IDEMPOTENCY-KEY", "k", "BT-TRACE-ID", "abc")
	}
	call().want(t, 201)
	again := call().want(t, 201)
	again.headers(t, "BT-IDEMPOTENT-REPLAYED", "true", "BT-TRACE-ID", "abc", "SVC-TRACE-ID", "")
	w.do("POST", "/tokens", w.PrivateKey, card, "X-Test-Prefix", "BT").want(t, 401)
	if doc := w.do("GET", "/openapi.json", "", "", "X-Test-Prefix", "BT").body; strings.Contains(doc, "SVC-") || !strings.Contains(doc, "BT-API-KEY") {
		t.Error("the OpenAPI document has the wrong prefix")
	}
}

// TestRequestsOfVendorSDKs sends requests as the vendor's SDKs send them.
// The long run uses the SDKs themselves.
func TestRequestsOfVendorSDKs(t *testing.T) {
	t.Parallel()
	const plain, form, patch = "application/json", "application/x-www-form-urlencoded", "application/merge-patch+json"
	w := newRestVault(t, &Options{Prefix: "BT-"})
	send := func(method, path, key, typ, body string) *response {
		return w.do(method, path, "", body, "X-Test-Prefix", "BT", "BT-API-KEY", key, "Content-Type", typ,
			"BT-CLIENT-USER-AGENT", `{"client":"BasisTheoryJS"}`, "Accept", "application/json, text/plain, */*")
	}
	token := send("POST", "/tokens/", w.PrivateKey, plain, card).want(t, 201).text(t, "id")
	app := send("POST", "/applications/", w.ManagementKey, plain, `{"name":"js","type":"public","permissions":["token:create"]}`).want(t, 201).text(t, "id")
	proxy := send("POST", "/proxies/", w.ManagementKey, plain, `{"name":"js 3","destination_url":"https://a.example"}`).want(t, 201).text(t, "id")
	for _, r := range []struct {
		method, path, key, typ, body string
		status                       int
	}{
		{"PATCH", "/tokens/" + token, w.PrivateKey, patch, `{"metadata":{"user":"JOE"}}`, 200},
		{"GET", "/tokens/?type=card&metadata.user=JOE&page=1&size=5", w.PrivateKey, "", "", 200},
		{"POST", "/tokens/search", w.PrivateKey, plain, `{"query":"metadata.user:JOE","size":2}`, 200},
		{"POST", "/tokenize/", w.PrivateKey, plain, `{"first":"Jane"}`, 200},
		{"PUT", "/applications/" + app, w.ManagementKey, plain, `{"name":"js","permissions":["token:create"]}`, 200},
		{"GET", "/applications/?id=" + app + "&page=1&size=5", w.ManagementKey, "", "", 200},
		{"POST", "/applications/" + app + "/regenerate", w.ManagementKey, form, "", 200},
		{"GET", "/applications/key", w.ManagementKey, "", "", 200},
		{"PUT", "/proxies/" + proxy, w.ManagementKey, plain, `{"name":"js 3","destination_url":"https://b.example"}`, 200},
		{"PATCH", "/proxies/" + proxy, w.ManagementKey, patch, `{"name":"js 3"}`, 204},
		{"GET", "/proxies/?name=js+3", w.ManagementKey, "", "", 200},
		{"GET", "/proxies?name=js%203&page=2", w.ManagementKey, "", "", 200},
		{"POST", "/sessions/", w.PublicKey, form, "", 201},
		{"GET", "/logs?entity_type=card&size=2", w.ManagementKey, "", "", 200},
		{"PUT", "/tenants/self", w.ManagementKey, plain, `{"name":"Acme","settings":{"deduplicate_tokens":"true"}}`, 200},
		{"DELETE", "/tokens/" + token, w.PrivateKey, "", "", 204},
	} {
		send(r.method, r.path, r.key, r.typ, r.body).want(t, r.status)
	}
}

func TestOptionsCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []*Options{
		{Prefix: "a b"}, {Prefix: "x:"}, {Prefix: "é"}, {Prefix: "a\r\n"}, {MaxBody: -1}, {MaxResponse: -1}, {BodyTimeout: -1},
		{Origins: []string{"shop.example"}}, {Origins: []string{"https://shop.example/"}}, {Origins: []string{"https://Shop.example"}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	for _, good := range []*Options{nil, {}, {Prefix: "BT-", Origins: []string{"*", "https://shop.example:8443"}}} {
		must.Do(t, good.Check())
	}
	defer func() {
		if recover() == nil {
			t.Error("Handler took bad options")
		}
	}()
	Handler(nil, &Options{Prefix: " "})
}

func TestAuthenticationIsByTheKeyHeader(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	typo := w.PrivateKey[:len(w.PrivateKey)-1] + "?"
	for _, key := range []string{"", "x", typo, " ", strings.Repeat("k", 10000), w.PrivateKey + w.PrivateKey} {
		res := w.do("GET", "/tokens", key, "")
		res.wantError(t, 401)
		if key != "" && strings.Contains(res.body, key) && len(key) > 2 {
			t.Errorf("the key is repeated: %s", res.body)
		}
	}
	r := httptest.NewRequest("GET", "/tokens", nil)
	r.Header["Svc-Api-Key"] = []string{w.PrivateKey, w.PublicKey}
	w.send(r).wantError(t, 401)
	r = httptest.NewRequest("GET", "/tokens?svc-api-key="+w.PrivateKey, nil)
	r.Header.Set("Authorization", "Bearer "+w.PrivateKey)
	w.send(r).wantError(t, 401)
}

// TestPermissionOfEachRoute calls every route with keys of each type. A key
// that cannot have the permission gets 403, whatever else is wrong.
func TestPermissionOfEachRoute(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	holders := map[vault.Permission]string{
		"token:create": "public private", "token:update": "public private", vault.PermissionSessionCreate: "public", vault.PermissionSessionAuthorize: "private",
	}
	keys := map[string]string{"public": w.PublicKey, "private": w.PrivateKey, "management": w.ManagementKey}
	for _, rt := range (&handler{}).table() {
		if rt.open || rt.permission() == "" {
			continue
		}
		allowed := holders[vault.Permission(rt.permission())]
		switch {
		case allowed != "":
		case strings.HasPrefix(rt.permission(), "token:"):
			allowed = "private"
		default:
			allowed = "management"
		}
		for typ, key := range keys {
			path := strings.ReplaceAll(rt.path, "{id}", "no-such-thing")
			res := w.do(rt.method, path, key, "[")
			if got, want := res.StatusCode == 403, !strings.Contains(allowed, typ); got != want {
				t.Errorf("%s %s with a %s key: %d", rt.method, rt.path, typ, res.StatusCode)
			}
		}
	}
}

func TestTraceIDIsEchoedInEveryResponse(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for _, path := range []string{"/tokens", "/nope", "//", "/healthz", "/tokens/x/y/z"} {
		for _, method := range []string{"GET", "PUT"} {
			same(t, method+" "+path+": trace id", w.do(method, path, "", "", "SVC-TRACE-ID", "trace-1").Header.Get("SVC-TRACE-ID"), "trace-1")
		}
	}
	for _, bad := range []string{"", " ", "a b", "tab\there", strings.Repeat("x", 129), "é"} {
		first := w.do("GET", "/healthz", "", "", "SVC-TRACE-ID", bad).Header.Get("SVC-TRACE-ID")
		second := w.do("GET", "/healthz", "", "", "SVC-TRACE-ID", bad).Header.Get("SVC-TRACE-ID")
		if first == bad || first == second || len(first) != 36 {
			t.Errorf("%q: trace ids %q and %q", bad, first, second)
		}
	}
}

func TestOneLogLineForEachRequestWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	id := w.create(card)
	w.do("GET", "/tokens/"+id+"?secret=query", w.PrivateKey, "", "SVC-TRACE-ID", "my-trace", "X-Secret", "header")
	w.do("POST", "/tokens", w.PrivateKey, `{"type":"card","data":{"number":"4000000000000001"}}`)
	w.do("GET", "/nope/"+id, "key_prv_forged", "")
	w.do("POST", "/tokens", w.PrivateKey, card, "SVC-IDEMPOTENCY-KEY", "idem-secret")
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5:\n%s", len(lines), w.log)
	}
	for _, want := range []string{`"trace_id":"my-trace"`, `"route":"/tokens/{id}"`, `"status":200`, `"duration":`,
		`"tenant_id":"` + w.Acme.ID.String() + `"`, `"application_id":"` + w.Private.ApplicationID().String() + `"`} {
		must.Contain(t, "the line", lines[1], want)
	}
	for _, secret := range []string{id, "secret", "query", "header", "42424242", "4000000000000001", w.PrivateKey, "key_prv", "idem"} {
		must.Lack(t, "the log", w.log.String(), secret)
	}
}

// observed collects the calls of an observer.
type observed chan RequestInfo

func (o observed) Observe(ctx context.Context, r RequestInfo) {
	if vault.TraceID(ctx) != r.TraceID {
		panic("the context is not the request's")
	}
	o <- r
}

func TestObserverIsCalledForEachRequest(t *testing.T) {
	t.Parallel()
	seen := make(observed, 10)
	w := newRestVault(t, &Options{Observer: seen})
	w.do("POST", "/tokens/", w.PrivateKey, card, "SVC-IDEMPOTENCY-KEY", "k")
	w.do("POST", "/tokens", w.PrivateKey, card, "SVC-IDEMPOTENCY-KEY", "k")
	w.do("GET", "/no/such/path", "", "")
	w.do("HACK", "/tokens/x", "", "")
	close(seen)
	var got []string
	for r := range seen {
		if r.Duration <= 0 || r.Bytes == 0 {
			t.Errorf("%+v", r)
		}
		got = append(got, fmt.Sprint(r.Method, r.Route, r.Status, r.Replayed))
		if known := r.TenantID == w.Acme.ID && r.ApplicationID == w.Private.ApplicationID(); known != (r.Status == 201) || r.TraceID == "" {
			t.Errorf("wrong caller or trace id: %+v", r)
		}
	}
	want := []string{"POST/tokens201 false", "POST/tokens201 true", "GETunmatched404 false", "other/tokens/{id}405 false"}
	same(t, "got", got, want)
}

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	w, _ := breakableVault(t)
	w.do("GET", "/healthz", "", "").want(t, 200)
	w.do("GET", "/readyz", "", "").want(t, 200)
	w, down := breakableVault(t)
	down.broken.Store(true)
	w.do("GET", "/healthz", "", "").want(t, 200)
	res := w.do("GET", "/readyz", "", "")
	res.wantError(t, 503)
	same(t, "Retry-After", res.Header.Get("Retry-After"), "1")
}

func TestServerErrorHidesItsCause(t *testing.T) {
	t.Parallel()
	w, down := breakableVault(t)
	down.broken.Store(true)
	res := w.do("GET", "/tokens/x", w.PrivateKey, "", "SVC-TRACE-ID", "find-me")
	res.wantError(t, 500)
	res.lacks(t, "disk")
	must.Contain(t, "the log", w.log.String(), `"trace_id":"find-me"`)
	must.Contain(t, "the log", w.log.String(), errBroken.Error())
	down.broken.Store(false)
	w.do("GET", "/tokens/x", w.PrivateKey, "").wantError(t, 404)
}

func TestPanicIs500AndTheServerContinues(t *testing.T) {
	t.Parallel()
	w, down := breakableVault(t)
	for _, value := range []any{"card 4242424242424242", errors.New("4242424242424242"), http.ErrAbortHandler} {
		down.panics.Store(&value)
		res := w.do("GET", "/tokens/x", w.PrivateKey, "")
		res.wantError(t, 500)
		down.panics.Store(nil)
		w.do("GET", "/tokens/x", w.PrivateKey, "").wantError(t, 404)
		must.Lack(t, "response and log", res.body+w.log.String(), "42424242")
	}
	must.Contain(t, "the log", w.log.String(), "panic with a value of type string")
	must.Contain(t, "the log", w.log.String(), "exchange.go")
}

func TestCanceledCallIsNotAnError(t *testing.T) {
	t.Parallel()
	seen := make(observed, 1)
	w := newRestVault(t, &Options{Observer: seen})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest("GET", "/tokens", nil).WithContext(ctx)
	r.Header.Set("SVC-API-KEY", w.PrivateKey)
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	if got := <-seen; got.Status != trace.StatusGone || rec.Code != http.StatusInternalServerError {
		t.Errorf("observed status %d, response status %d", got.Status, rec.Code)
	}
	must.Lack(t, "the log", w.log.String(), `"level":"ERROR"`)
}

func TestResponsesAreNotCachedOrSniffed(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	res := w.do("GET", "/permissions", w.PrivateKey, "").want(t, 200)
	if res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
		res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", res.Header)
	}
}

// The trace id comes from the request, from its W3C trace context, or from
// the context of the program, in this order. Otherwise it is new.
func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent := "00-" + id + "-00f067aa0ba902b7-01"
	handler := Handler(vaulttest.New(t).Vault, nil)
	for name, c := range map[string]struct {
		header http.Header
		ctx    string
		want   string // empty for a new id
	}{
		"its own":              {http.Header{"Svc-Trace-Id": {"mine"}, "Traceparent": {parent}}, "program", "mine"},
		"of the trace context": {http.Header{"Traceparent": {parent}}, "program", id},
		"malformed":            {http.Header{"Traceparent": {parent[:54]}}, "program", "program"},
		"two trace contexts":   {http.Header{"Traceparent": {parent, parent}}, "", ""},
		"of the program":       {nil, "program", "program"},
		"new":                  {nil, "", ""},
	} {
		req := httptest.NewRequestWithContext(vault.WithTraceID(t.Context(), c.ctx), http.MethodGet, "/healthz", nil)
		maps.Copy(req.Header, c.header)
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		got := res.Header().Get("SVC-TRACE-ID")
		if _, err := uuid.Parse(got); c.want != got && (c.want != "" || err != nil) {
			t.Errorf("%s: trace id %q, want %q", name, got, c.want)
		}
	}
}
