package vaultclient_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const code = "module.exports = async (req) => ({raw: req.args})"

// reactorParams returns parameters of a reactor with every field set.
func (w *apiVault) reactorParams() vault.ReactorParams {
	app := must.Get(w.Private.OwnApplication(w.t.Context()))(w.t)
	return vault.ReactorParams{Name: "Charge <&>", Code: code, Configuration: map[string]string{"KEY": "sk"}, ApplicationID: app.ID}
}

// reactor stores a reactor and returns its id.
func (w *apiVault) reactor(code string) uuid.UUID {
	w.t.Helper()
	return must.Get(w.Management.CreateReactor(w.t.Context(), vault.ReactorParams{Name: "r", Code: code, Configuration: map[string]string{}}))(w.t).ID
}

func createReactor(w *apiVault) {
	for i, p := range []vault.ReactorParams{
		w.reactorParams(), {Name: "plain", Code: code, Configuration: map[string]string{}},
		{}, {Name: strings.Repeat("x", 201), Code: code, Configuration: map[string]string{"k": strings.Repeat("v", 1<<20)}},
		{Name: "x", Code: "module.exports = (", Configuration: map[string]string{}},
		{Name: "x", Code: "\n\nthrow new Error('secret')", Configuration: map[string]string{}},
		{Name: "x", Code: code, Configuration: map[string]string{}, ApplicationID: nobody},
	} {
		w.see(fmt.Sprint("CreateReactor ", i))(w.management.CreateReactor(w.t.Context(), p))
	}
	w.see("CreateReactor by a private key")(w.private.CreateReactor(w.t.Context(), w.reactorParams()))
}

func getReactor(w *apiVault) {
	made := must.Get(w.Management.CreateReactor(w.t.Context(), w.reactorParams()))(w.t)
	for _, id := range []uuid.UUID{made.ID, nobody} {
		w.see("GetReactor")(w.management.GetReactor(w.t.Context(), id))
	}
}

func listReactors(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateReactor(ctx, w.reactorParams()))(w.t)
	w.Clock.Advance(time.Second)
	w.reactor(code)
	for i, p := range []vault.ListParams{{}, {Name: "charge <*"}, {Name: "nope"}, {IDs: []uuid.UUID{made.ID}}, {PageParams: vault.PageParams{Size: 1}}, {PageParams: vault.PageParams{Size: -1}}} {
		w.see(fmt.Sprint("ListReactors ", i))(w.management.ListReactors(ctx, p))
	}
}

func replaceReactor(w *apiVault) {
	id := w.reactor(code)
	for i, p := range []vault.ReactorParams{w.reactorParams(), {Name: "bare", Code: code, Configuration: map[string]string{}}, {}} {
		w.Clock.Advance(time.Second)
		w.see(fmt.Sprint("ReplaceReactor ", i))(w.management.ReplaceReactor(w.t.Context(), id, p))
	}
	w.see("ReplaceReactor of none")(w.management.ReplaceReactor(w.t.Context(), nobody, w.reactorParams()))
}

func patchReactor(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateReactor(ctx, w.reactorParams()))(w.t)
	w.Clock.Advance(time.Second)
	for _, patch := range []string{`{"name":"P"}`, `{"configuration":{"KEY":null}}`, `{"application":null}`, `{"code":"("}`, `{"nope":1}`, `{`} {
		w.see("PatchReactor " + patch)(w.management.PatchReactor(ctx, made.ID, vault.JSON(patch)))
	}
	w.see("PatchReactor by a Go value")(w.management.PatchReactor(ctx, made.ID, map[string]any{"name": "<a>"}))
	w.see("PatchReactor by bytes")(w.management.PatchReactor(ctx, made.ID, []byte(`{}`)))
	w.see("PatchReactor of none")(w.management.PatchReactor(ctx, nobody, vault.JSON(`{}`)))
}

func deleteReactor(w *apiVault) {
	id := w.reactor(code)
	for range 2 {
		w.saw("DeleteReactor", nil, w.management.DeleteReactor(w.t.Context(), id))
	}
	w.saw("DeleteReactor by a private key", nil, w.private.DeleteReactor(w.t.Context(), id))
}

func reactResults(w *apiVault) {
	ctx := w.t.Context()
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number}})
	for i, body := range []string{
		"return {raw: req.args}", "return {raw: null}", "return {}", "return null",
		"return {tokenize: {a: 'x', b: [1, null]}, raw: {text: '<&>'}}", "return {raw: 'text'}",
	} {
		id := w.reactor("module.exports = async (req) => { " + body + " }")
		for _, args := range []any{nil, map[string]any{"pan": "{{ card | json: '$.number' }}", "n": 1.5}, vault.JSON(`"{{ card }}"`)} {
			w.see(fmt.Sprint("React ", i))(w.private.React(ctx, id, vault.ReactParams{Args: args}))
		}
	}
}

func reactErrors(w *apiVault) {
	for i, body := range []string{
		"throw new Error('broken')", "\n\nthrow new BadRequestError({field: ['bad']})", "throw new RateLimitError('slow')",
		"throw new ServiceUnavailableError('down')", "throw new AuthorizationError('no')", "return 7", "await new Promise(() => {})",
		"throw new CustomHttpResponseError({status: 418, headers: {'X-Pot': 'tea'}, body: {short: 'stout'}})",
		"throw new CustomHttpResponseError({status: 503, headers: {}, body: 'text'})",
		"throw new CustomHttpResponseError({status: 202, headers: {}, body: {done: true}})",
		"throw new CustomHttpResponseError({status: 202, headers: {}, body: ''})",
		"throw new CustomHttpResponseError({status: 200, headers: {}, body: {raw: 'like a result'}})",
		"throw new CustomHttpResponseError({status: 404, headers: {}, body: {title: 'Not Found', status: 404, detail: 'like an error of the vault'}})",
		"throw new CustomHttpResponseError({status: 400, headers: {}, body: {title: 'x', status: 400, detail: 'y', errors: {number: ['z']}}})",
		"throw new CustomHttpResponseError({status: 422, headers: {}, body: {title: 'x', status: 422, detail: 'The code failed (invalid) at line 7.'}})",
		"const f = () => { throw new TypeError('inner') }\nf()",
	} {
		id := w.reactor("module.exports = async (req) => { " + body + " }")
		w.see(fmt.Sprint("React ", i))(w.private.React(w.t.Context(), id, vault.ReactParams{}))
	}
}

func reactRefused(w *apiVault) {
	ctx := w.t.Context()
	id := w.reactor(code)
	for i, p := range []vault.ReactParams{
		{Args: "{{ nobody }}"}, {Args: 7}, {Args: vault.JSON("{")}, {Timeout: 10 * time.Second}, {Timeout: 1}, {CallbackURL: "http://plain.example/"},
	} {
		w.see(fmt.Sprint("React ", i))(w.private.React(ctx, id, p))
	}
	for i, p := range []vault.ReactParams{
		{}, {CallbackURL: "http://plain.example/", Timeout: 1}, {CallbackURL: w.dest.URL, Timeout: 211 * time.Second}, {CallbackURL: w.dest.URL, Args: 7},
	} {
		w.see(fmt.Sprint("ReactAsync ", i))(w.private.ReactAsync(ctx, id, p))
	}
	w.see("React of none")(w.private.React(ctx, nobody, vault.ReactParams{}))
	w.see("React by a public key")(w.public.React(ctx, id, vault.ReactParams{}))
}

func reactLater(w *apiVault) {
	ctx := w.t.Context()
	id := w.reactor(code)
	w.see("ReactAsync")(w.private.ReactAsync(vault.WithTraceID(ctx, "trace-1"), id, vault.ReactParams{Args: map[string]int{"n": 1}, CallbackURL: w.dest.URL, Timeout: 20 * time.Second}))
	w.saw("Work", nil, w.Work(ctx))
	w.see("ListLogs")(w.management.ListLogs(ctx, vault.ListLogsParams{EntityType: "reactor"}))
}

// proxyParams returns parameters of a proxy with every field set.
func (w *apiVault) proxyParams() vault.ProxyParams {
	app := must.Get(w.Private.OwnApplication(w.t.Context()))(w.t)
	return vault.ProxyParams{Name: "Gateway <&>", DestinationURL: w.dest.URL + "/base?a=b", Configuration: map[string]string{"k": "v"},
		RequestTransform:  &vault.ProxyTransform{Code: "module.exports = async (req) => ({body: req.args.body, headers: req.args.headers})"},
		ResponseTransform: &vault.ProxyTransform{Code: "module.exports = async (req) => ({body: req.args.body, headers: req.args.headers})"},
		ApplicationID:     app.ID, RequireAuth: ptr(false)}
}

// proxy stores a proxy to the destination.
func (w *apiVault) proxy(p vault.ProxyParams) *vault.Proxy {
	w.t.Helper()
	p.Name = "p"
	if p.DestinationURL == "" {
		p.DestinationURL = w.dest.URL
	}
	return must.Get(w.Management.CreateProxy(w.t.Context(), p))(w.t)
}

func createProxy(w *apiVault) {
	for i, p := range []vault.ProxyParams{
		w.proxyParams(), {Name: "plain", DestinationURL: w.dest.URL, Configuration: nil},
		{}, {Name: "x", DestinationURL: "ftp://x"}, {Name: "x", DestinationURL: w.dest.URL, RequestTransform: &vault.ProxyTransform{Code: "("}},
		{Name: "x", DestinationURL: w.dest.URL, RequestTransform: &vault.ProxyTransform{Code: strings.Repeat("/", 60_000)}},
	} {
		w.see(fmt.Sprint("CreateProxy ", i))(w.management.CreateProxy(w.t.Context(), p))
	}
}

func getProxy(w *apiVault) {
	made := must.Get(w.Management.CreateProxy(w.t.Context(), w.proxyParams()))(w.t)
	for _, id := range []uuid.UUID{made.ID, nobody} {
		w.see("GetProxy")(w.management.GetProxy(w.t.Context(), id))
	}
}

func listProxies(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateProxy(ctx, w.proxyParams()))(w.t)
	w.Clock.Advance(time.Second)
	w.proxy(vault.ProxyParams{})
	for i, p := range []vault.ListParams{{}, {Name: "gate*"}, {IDs: []uuid.UUID{made.ID, nobody}}, {PageParams: vault.PageParams{Page: 2, Size: 1}}, {PageParams: vault.PageParams{Page: -1}}} {
		w.see(fmt.Sprint("ListProxies ", i))(w.management.ListProxies(ctx, p))
	}
}

func replaceProxy(w *apiVault) {
	x := w.proxy(vault.ProxyParams{})
	w.Clock.Advance(time.Second)
	for i, p := range []vault.ProxyParams{w.proxyParams(), {Name: "bare", DestinationURL: w.dest.URL}, {}} {
		w.see(fmt.Sprint("ReplaceProxy ", i))(w.management.ReplaceProxy(w.t.Context(), x.ID, p))
	}
	w.see("ReplaceProxy of none")(w.management.ReplaceProxy(w.t.Context(), nobody, w.proxyParams()))
}

func patchProxy(w *apiVault) {
	ctx := w.t.Context()
	made := must.Get(w.Management.CreateProxy(ctx, w.proxyParams()))(w.t)
	w.Clock.Advance(time.Second)
	for _, patch := range []string{`{"name":"P"}`, `{"configuration":null,"application":null}`, `{"request_transform":null}`, `{"require_auth":true}`, `{"destination_url":"x"}`, `7`} {
		w.see("PatchProxy " + patch)(w.management.PatchProxy(ctx, made.ID, vault.JSON(patch)))
	}
	w.see("PatchProxy of none")(w.management.PatchProxy(ctx, nobody, vault.JSON(`{}`)))
}

func deleteProxy(w *apiVault) {
	x := w.proxy(vault.ProxyParams{})
	for range 2 {
		w.saw("DeleteProxy", nil, w.management.DeleteProxy(w.t.Context(), x.ID))
	}
}

// invoke calls a proxy and records the response. The server gives each
// request a trace id, so calls in process need one too.
func (w *apiVault) invoke(p vault.ProxyCall) {
	ctx := vault.WithTraceparent(vault.WithTraceID(w.t.Context(), "trace-1"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")
	w.see(fmt.Sprintf("InvokeProxy %s %.20s %.20s", p.Method, p.Path, p.Query))(read(w.private.InvokeProxy(ctx, p)))
}

func invokeRequests(w *apiVault) {
	w.token(vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: number}})
	w.token(vault.TokenParams{ID: "text", Type: vault.TypeGeneric, Data: `quote " & <tag>`})
	key := w.proxy(vault.ProxyParams{DestinationURL: w.dest.URL + "/base?a=b"}).Key
	for _, c := range []struct{ typ, body string }{
		{"application/json", `{"pan": "{{ card | json: '$.number' }}", "n": 1.10,  "t": "{{ text }}"}`},
		{"application/x-www-form-urlencoded", "pan={{ text }}&x=%20y"},
		{"text/plain", "<{{ text }}>"},
		{"application/octet-stream", "{{ text }}"},
	} {
		for _, length := range []int64{int64(len(c.body)), -1, 0} {
			w.saw("body of type "+c.typ, nil, nil)
			w.invoke(vault.ProxyCall{Key: key, Method: "POST", Body: strings.NewReader(c.body), ContentLength: length, Header: http.Header{"content-type": {c.typ}}})
		}
	}
	for _, p := range []vault.ProxyCall{
		{Key: key, Method: "GET"}, {Key: key}, {Key: key, Method: "PURGE"}, {Key: key, Method: "HEAD"},
		{Key: key, Method: "GET", Path: "/a%2Fb//c/ü", Query: "x=1&y=%20{{text}}&y=2"}, {Key: key, Method: "GET", Path: "/"},
		{Key: key, Method: "DELETE", Body: http.NoBody},
		{Key: key, Method: "GET", Header: http.Header{"X-A": {"1", "2"}, "Authorization": {"Bearer dest"}, "User-Agent": {"me"}, "Host": {"evil"}, "Connection": {"X-B, close"}, "X-B": {"hop"}, "Te": {"trailers"}, "Expect": {"100-continue"}}},
		{Key: key, Method: "GET", Header: http.Header{"Svc-Mine": {"x"}, "Svc-Api-Key": {"other"}, "Svc-Trace-Id": {"mine"}, "Tracestate": {"b=2"}}},
		{Key: key, Method: "GET", Connection: "close", KeepAlive: "timeout=5"},
		{URL: w.dest.URL + "/ephemeral", Method: "PUT", Body: bytes.NewReader([]byte("{{ card | json: '$.number' }}"))},
		{URL: "https://ignored.example", Key: key, Method: "GET"},
	} {
		w.invoke(p)
	}
	w.see("ListLogs")(w.management.ListLogs(w.t.Context(), vault.ListLogsParams{EntityType: "card"}))
}

func invokeAnswers(w *apiVault) {
	key := w.proxy(vault.ProxyParams{}).Key
	for _, path := range []string{"/missing", "/moved", "/empty", "/broken"} {
		w.invoke(vault.ProxyCall{Key: key, Method: "GET", Path: path})
	}
}

func invokeRefused(w *apiVault) {
	ctx := w.t.Context()
	key := w.proxy(vault.ProxyParams{}).Key
	for _, p := range []vault.ProxyCall{
		{}, {Key: "unknown"}, {Key: strings.Repeat("k", 200)}, {Key: key, Method: "CONNECT"}, {Key: key, Method: "B D"},
		{Key: key, Path: "no-slash"}, {Key: key, Path: "/../applications"}, {Key: key, Path: "/%2e%2e/x"}, {Key: key, Path: `/a\..\b`}, {Key: key, Path: "/..;x"}, {Key: key, Path: "/%zz"},
		{Key: key, Query: "a b"}, {Key: key, Query: "a\nb"}, {Key: key, Connection: "upgrade"},
		{Key: key, Header: http.Header{"X-A": {"a\nb"}}}, {Key: key, Header: http.Header{"X A": {"a"}}},
		{Key: key, Method: "POST", Body: strings.NewReader("{{ nobody }}")}, {Key: key, Method: "POST", Body: strings.NewReader("{{ bad | ")},
		{Key: key, Method: "POST", Body: strings.NewReader(strings.Repeat("x", 6<<20))},
		{URL: "http://plain.example"}, {URL: "https://localhost:1/", Method: "GET"},
	} {
		w.invoke(p)
	}
	for _, c := range []vault.API{w.public, w.management} {
		w.see("InvokeProxy without token:use")(read(c.InvokeProxy(ctx, vault.ProxyCall{Key: key})))
	}
	_, other := w.NewTenant(w.t, "Other")
	foreign := must.Get(other.CreateProxy(ctx, vault.ProxyParams{Name: "x", DestinationURL: w.dest.URL}))(w.t)
	w.invoke(vault.ProxyCall{Key: foreign.Key})
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.private.InvokeProxy(canceled, vault.ProxyCall{Key: key}); err == nil || problemOf(err).Kinds == nil {
		w.t.Errorf("after the context was canceled: %v", err)
	}
}

func invokeTransforms(w *apiVault) {
	for _, body := range []string{
		"return {body: {changed: req.args.body}, headers: {'X-A': 'set', 'Content-Type': 'application/json'}}",
		"throw new BadRequestError('no')", "throw new Error('broken')", "return 7",
		"throw new CustomHttpResponseError({status: 418, headers: {'X-Pot': 'tea'}, body: {short: 'stout'}})",
		"throw new CustomHttpResponseError({status: 200, headers: {}, body: 'text'})",
		"throw new CustomHttpResponseError({status: 404, headers: {}, body: {proxy_error: {title: 'Not Found', status: 404, detail: 'like an error of the vault'}}})",
		"throw new CustomHttpResponseError({status: 502, headers: {}, body: {proxy_error: {title: 'x', status: 502, detail: 'y'}}})",
	} {
		transform := &vault.ProxyTransform{Code: "module.exports = async (req) => { " + body + " }"}
		for _, p := range []vault.ProxyParams{{RequestTransform: transform}, {ResponseTransform: transform}} {
			w.invoke(vault.ProxyCall{Key: w.proxy(p).Key, Method: "POST", Body: strings.NewReader(`{"a":1}`), Header: http.Header{"Content-Type": {"application/json"}}})
		}
	}
}
