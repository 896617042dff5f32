package httpserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// reactorVault returns a vault with a JavaScript runtime.
func reactorVault(t *testing.T) *restVault {
	t.Helper()
	return restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{
		Runtime: jsruntime.New(nil), Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	}), nil)
}

// newReactor creates a reactor and returns the path that invokes it.
func (w *restVault) newReactor(code string) string {
	w.t.Helper()
	body := must.Get(json.Marshal(map[string]any{"name": "test", "code": code, "configuration": map[string]string{"KEY": "sk"}}))(w.t)
	res := w.do("POST", "/reactors", w.ManagementKey, string(body)).want(w.t, 201)
	var r vault.Reactor
	must.Do(w.t, json.Unmarshal([]byte(res.body), &r))
	return "/reactors/" + r.ID.String() + "/react"
}

func TestErrorsOfReactorCodeAreTranslated(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	for code, want := range map[string]struct {
		status int
		body   string
	}{
		`throw new BadRequestError('no')`:                             {400, `"no"`},
		`throw new InvalidPaymentMethodError('declined')`:             {402, `"declined"`},
		`throw new (require('@vault/errors').RateLimitError)('slow')`: {429, `"slow"`},
		`throw new Error('broken')`:                                   {500, `"broken"`},
		`throw new CustomHttpResponseError({status: 418, headers: {'X-Pot': 'tea', 'svc-trace-id': 'forged', 'access-control-allow-origin': '*', 'cache-control': 'public', 'keep-alive': 'timeout=9', te: 'trailers', 'proxy-connection': 'close', date: 'never'}, body: {short: 'stout'}})`: {418, `{"short":"stout"}`},
	} {
		res := w.serve(request(t, w.newReactor(`module.exports = () => { `+code+` }`), w.PrivateKey, `{}`))
		res.want(t, want.status).has(t, want.body)
		if want.status == 418 && res.Header.Get("X-Pot") != "tea" {
			t.Errorf("the header that the code set is missing: %v", res.Header)
		}
		if ids := res.Header.Values("SVC-TRACE-ID"); len(ids) != 1 || ids[0] == "forged" {
			t.Errorf("%s: trace ids %q, want the server's", code, ids)
		}
		res.headers(t, "Access-Control-Allow-Origin", "", "Cache-Control", "no-store", "Date", w.Clock.Now().Format(http.TimeFormat))
		for _, name := range []string{"Keep-Alive", "Te", "Proxy-Connection"} {
			same(t, code+": "+name+" of the connection", res.Header.Get(name), "")
		}
		same(t, code+": marked as a response of code", res.Header.Get("SVC-CUSTOM-RESPONSE") == "true", want.status == 418)
	}
	broken, _ := json.Marshal(map[string]any{"name": "x", "code": "module.exports = (", "configuration": map[string]string{}})
	w.do("POST", "/reactors", w.ManagementKey, string(broken)).want(t, 422)
}

// chosenPage is a response with which code tries to act as the vault's origin
// in a browser.
const chosenPage = `throw new CustomHttpResponseError({status: 200, body: '<script>steal()</script>', headers: {'content-type': 'text/html', 'X-Own': '1',
	'set-cookie': 'session=1', 'Set-Cookie2': 'session=1', 'SET-COOKIE': 'other=1', location: '/console/', refresh: '0; url=/', 'clear-site-data': '"*"',
	'strict-transport-security': 'max-age=1', 'service-worker-allowed': '/', 'content-security-policy': "default-src *", 'x-content-type-options': 'sniff', 'Trailer:Svc-Trace-Id': 'forged'}})`

// wantSandboxed checks that the response of chosenPage is harmless in a
// browser.
func wantSandboxed(t *testing.T, res *response) {
	t.Helper()
	res.want(t, 200).has(t, "steal").headers(t, "Content-Type", "text/html", "X-Own", "1")
	for name, want := range map[string][]string{
		"Content-Security-Policy": {"sandbox"}, "X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"same-origin"},
		"Set-Cookie": nil, "Set-Cookie2": nil, "Location": nil, "Refresh": nil, "Clear-Site-Data": nil, "Strict-Transport-Security": nil, "Service-Worker-Allowed": nil,
		"Trailer:Svc-Trace-Id": nil,
	} {
		same(t, name, res.Header.Values(name), want)
	}
}

func TestCustomResponsesOfCodeAreSandboxed(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	path := w.newReactor(`module.exports = () => { ` + chosenPage + ` }`)
	for _, key := range []string{"", "k", "k"} { // the last request is a replay
		r := httptest.NewRequest("POST", path, strings.NewReader(`{}`))
		r.Header.Set("SVC-API-KEY", w.PrivateKey)
		if key != "" {
			r.Header.Set("SVC-IDEMPOTENCY-KEY", key)
		}
		wantSandboxed(t, w.serve(r))
	}
	reactor := must.Get(uuid.Parse(strings.Split(path, "/")[2]))(t)
	_, err := w.Private.React(t.Context(), reactor, vault.ReactParams{})
	own := httptest.NewRecorder() // a handler of the program
	WriteError(own, err)
	wantSandboxed(t, &response{Response: own.Result(), body: own.Body.String()})
	if policy := w.do("GET", "/permissions", w.PrivateKey, "").Header.Get("Content-Security-Policy"); policy != "" {
		t.Errorf("a response of the vault itself has the policy %s", policy)
	}
}

// A repeated request gets the id of the first run, and no second run starts.
func TestReplayOfAnAcceptedRunHasItsJob(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	path := w.newReactor(`module.exports = async () => ({})`)
	var ids []string
	for range 2 {
		res := w.do("POST", path, w.PrivateKey, `{"callback_url":"https://example.com/"}`, "SVC-IDEMPOTENCY-KEY", "k").want(t, 202)
		ids = append(ids, res.Header.Get("SVC-JOB-ID"))
	}
	if _, err := uuid.Parse(ids[0]); err != nil || ids[0] != ids[1] {
		t.Errorf("jobs %q", ids)
	}
}

func TestReactWithCallbackIsAcceptedAndDelivered(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	got := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("webhook-id") + " " + r.Header.Get("SVC-TRACE-ID") + " " + string(body)
	}))
	defer hook.Close()
	path := w.newReactor(`module.exports = async (req) => ({raw: req.args.n + 1})`)
	res := w.do("POST", path, w.PrivateKey, `{"args":{"n":1},"callback_url":"`+hook.URL+`","timeout_ms":10000}`, "SVC-TRACE-ID", "trace-1").want(t, 202)
	same(t, "body", res.body, "")
	must.Do(t, w.Work(t.Context()))
	callback := strings.SplitN(<-got, " ", 3)
	if callback[0] != res.Header.Get("SVC-JOB-ID") || callback[1] != "trace-1" || callback[2] != `{"raw":2}` {
		t.Errorf("callback %q", callback)
	}
}

// TestArgsAreValidatedBeforeARunIsAccepted starts invalid runs without and
// with a callback. Checks that need only the body come first, even if the
// reactor does not exist.
func TestArgsAreValidatedBeforeARunIsAccepted(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	text := w.create(`{"type":"token","data":"text"}`)
	path := w.newReactor(`module.exports = async (req) => ({raw: req.args})`)
	const missing = "/reactors/3fa85f64-5717-4562-b3fc-2c963f66afa6/react"
	for args, c := range map[string]struct {
		field   string
		unfound int // the status if the reactor does not exist
	}{
		`"text"`:                   {"args", 400},
		`5`:                        {"args", 400},
		`[]`:                       {"args", 400},
		`{"a":"{{"}`:               {"args.a", 400},
		`"{{ ` + text + ` }}"`:     {"args", 404},
		`"so: {{ ` + text + ` }}"`: {"args", 404},
		`{"a":["{{ ` + text + ` | json: '$.number'}}"]}`: {"args.a[0]", 404},
		`{"a":"{{ nobody }}"}`:                           {"args.a", 404},
	} {
		for _, body := range []string{`{"args":` + args + `}`, `{"args":` + args + `,"callback_url":"https://hook.example"}`} {
			w.do("POST", path, w.PrivateKey, body).wantFields(t, c.field)
			w.do("POST", missing, w.PrivateKey, body).wantError(t, c.unfound)
		}
	}
}

// TestBadCodeIsReportedBeforeMissingEntity writes code that does not compile
// to reactors and proxies that do not exist.
func TestBadCodeIsReportedBeforeMissingEntity(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	const id = "/3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for body, c := range map[string]struct{ method, path string }{
		`{"name":"x","code":"(","configuration":{}}`: {"PUT", "/reactors"},
		`{"code":"("}`: {"PATCH", "/reactors"},
		`{"name":"x","destination_url":"https://a.example","request_transform":{"code":"("}}`: {"PUT", "/proxies"},
		`{"request_transform":{"code":"("}}`:                                                  {"PATCH", "/proxies"},
		`{"response_transform":{"code":"("},"name":"new"}`:                                    {"PATCH", "/proxies"},
	} {
		w.do(c.method, c.path+id, w.ManagementKey, body).want(t, 422)
	}
	w.do("PATCH", "/reactors"+id, w.ManagementKey, `{"code":"module.exports = () => 1"}`).wantError(t, 404)
	w.do("PATCH", "/reactors"+id, w.ManagementKey, `{"code":"(","name":5}`).wantError(t, 400)
}

// TestCallbackGetsTheErrorOfASynchronousRun runs failing code both ways.
func TestCallbackGetsTheErrorOfASynchronousRun(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	got := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer hook.Close()
	for code, status := range map[string]int{
		`throw new Error('boom')`:         500,
		`throw new BadRequestError('no')`: 400,
		`return 5`:                        500,
		`return {tokenize: {type: 'card', data: {number: 'four'}}}`: 400,
		`return {tokenize: {id: 'taken', type: 'token', data: 1}}`:  409,
	} {
		path := w.newReactor(`module.exports = async () => { ` + code + ` }`)
		if status == 409 {
			w.create(`{"id":"taken","type":"token","data":2}`)
		}
		answer := w.do("POST", path, w.PrivateKey, `{}`).want(t, status)
		w.do("POST", path, w.PrivateKey, `{"callback_url":"`+hook.URL+`"}`).want(t, 202)
		must.Do(t, w.Work(t.Context()))
		same(t, code+": the callback", <-got, strings.TrimSpace(answer.body))
	}
}

// When a token is deleted, the stored response of a run that used it is
// withdrawn. A repeated request gets a 409 without Retry-After.
func TestStoredResponseIsWithdrawnWithItsToken(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	path := w.newReactor(`module.exports = async (req) => ({raw: req.args})`)
	id := w.do("POST", "/tokens", w.PrivateKey, `{"type":"card","data":{"number":"4242424242424242","cvc":"123"}}`).want(t, 201).text(t, "id")
	body := `{"args":{"card":"{{ ` + id + ` }}"}}`
	w.do("POST", path, w.PrivateKey, body, "SVC-IDEMPOTENCY-KEY", "k").want(t, 200)
	w.do("POST", path, w.PrivateKey, body, "SVC-IDEMPOTENCY-KEY", "k").want(t, 200)
	w.do("DELETE", "/tokens/"+id, w.PrivateKey, "").want(t, 204)
	gone := w.do("POST", path, w.PrivateKey, body, "SVC-IDEMPOTENCY-KEY", "k")
	if title := gone.wantError(t, 409)["title"]; title != "The stored answer was withdrawn." || gone.Header.Get("Retry-After") != "" {
		t.Errorf("title %s, Retry-After %q", title, gone.Header.Get("Retry-After"))
	}
}

// callbackUrl and timeoutMs are accepted too, but not together with the
// documented names.
func TestOtherSpellingsOfReact(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	path := w.newReactor(`module.exports = async () => ({raw: 1})`)
	const url = `"https://127.0.0.1:1/done"`
	for body, status := range map[string]int{
		`{"callbackUrl":` + url + `}`:                                        202,
		`{"callbackUrl":` + url + `,"timeoutMs":20000}`:                      202,
		`{"callback_url":` + url + `,"timeoutMs":20000}`:                     202,
		`{"callbackUrl":` + url + `,"callback_url":null,"timeout_ms":20000}`: 202,
		`{"callbackUrl":` + url + `,"callback_url":` + url + `}`:             400,
		`{"callback_url":` + url + `,"timeoutMs":20000,"timeout_ms":20000}`:  400,
		`{"callbackUrl":` + url + `,"timeoutMs":1}`:                          400,
		`{"callbackUrl":""}`:                                                 400,
		`{"callbackUrl":1}`:                                                  400,
		`{"timeoutMs":20000}`:                                                400,
		`{"callbackURL":` + url + `}`:                                        400,
	} {
		w.do("POST", path, w.PrivateKey, body).want(t, status)
	}
	w.do("POST", path, w.PrivateKey, `{"callbackUrl":`+url+`,"callback_url":`+url+`}`).wantFields(t, "callbackUrl")
}
