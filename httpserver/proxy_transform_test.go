package httpserver

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// newScriptVault returns a proxyVault whose transforms are real JavaScript.
func newScriptVault(t testing.TB, answer http.HandlerFunc) *proxyVault {
	t.Helper()
	dest := newDestination(t, answer)
	w := newProxyVault(t, &vault.Config{Runtime: jsruntime.New(nil), Egress: trusting(dest.Server), MaxBytes: 1 << 20}, nil, nil)
	w.dest.Close()
	w.dest = dest
	return w
}

// transforms stores a proxy with transforms. Either may be empty.
func (w *proxyVault) transforms(request, response string) *vault.Proxy {
	w.t.Helper()
	return w.proxy(func(p *vault.ProxyParams) {
		p.DestinationURL += "/base?b=1"
		p.Configuration = map[string]string{"KEY": "sk_live"}
		p.ApplicationID = w.Private.ApplicationID()
		if request != "" {
			p.RequestTransform = &vault.ProxyTransform{Code: "module.exports = async function (req) {" + request + "}"}
		}
		if response != "" {
			p.ResponseTransform = &vault.ProxyTransform{Code: "module.exports = async function (req) {" + response + "}"}
		}
	})
}

func TestRequestTransform(t *testing.T) {
	t.Parallel()
	w := newScriptVault(t, nil)
	w.token("tok", "secret")
	echoArgs := w.transforms(`return {body: req.args, headers: {'content-type': 'application/json', 'X-Key': req.configuration.KEY}}`, "")
	for _, tc := range []struct{ method, suffix, typ, body, want string }{
		{"POST", "/a%2Fb/?q=1&svc-proxy-key=x", "application/json", `{"k":"{{ tok }}"}`,
			`{"body":{"k":"secret"},"headers":{"Content-Type":"application/json","X-A":"1, 2"},"method":"POST","path":"/a%2Fb/","query":"?q=1"}`},
		{"PUT", "", "text/plain", `{{ tok }}`, `{"body":"secret","headers":{"Content-Type":"text/plain","X-A":"1, 2"},"method":"PUT","path":"","query":""}`},
		{"POST", "", "application/vnd.x+json", `{}`, `{"body":"{}","headers":{"Content-Type":"application/vnd.x+json","X-A":"1, 2"},"method":"POST","path":"","query":""}`},
		{"DELETE", "", "application/json", ``, `{"body":null,"headers":{"Content-Type":"application/json","X-A":"1, 2"},"method":"DELETE","path":"","query":""}`},
	} {
		w.invoke(echoArgs, tc.method, tc.suffix, tc.body, "Content-Type", tc.typ, "X-A", "1", "X-A", "2", "SVC-OWN", "x", "Accept-Encoding", "").wantDestination(t, 200, "")
		got := w.dest.last(t)
		got.body = strings.Replace(got.body, `"Accept-Encoding":"",`, "", 1)
		got.body = strings.Replace(got.body, `"User-Agent":"Go-http-client/1.1",`, "", 1)
		same(t, tc.typ, got.body, tc.want)
		if got.Method != tc.method || got.Header.Get("X-Key") != "sk_live" || got.Header.Get("X-A") != "" || got.Header.Get("SVC-TRACE-ID") == "" {
			t.Errorf("%s: %s %v", tc.typ, got.Method, got.Header)
		}
	}
	w.invoke(echoArgs, "POST", "", "{", "Content-Type", "application/json").wantProxyError(t, 400)
}

// What transforms and reactors read takes memory of the tenant: bodies that are small
// until they are decompressed, responses, and results of code.
func TestMemoryOfTransformsIsBounded(t *testing.T) {
	t.Parallel()
	bomb := "[" + strings.Repeat("[],", 60<<10) + "1]" // its tree takes more than a tenant's 2 MiB
	dest := newDestination(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, map[bool]string{true: bomb, false: "{}"}[strings.HasSuffix(r.URL.Path, "/bomb")])
	})
	w := newProxyVault(t, &vault.Config{Runtime: jsruntime.New(nil), Egress: trusting(dest.Server), MaxMemory: 4 << 20}, nil, nil)
	w.dest.Close()
	w.dest = dest
	code := "const a = []; for (let i = 0; i < 60000; i++) a.push([]);"
	request, response, result := w.transforms(`return {body: {}, headers: {}}`, ""), w.transforms("", `return {body: {}, headers: {}}`), w.transforms(code+`return {body: a, headers: {}}`, "")
	pack := func(text string) string {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		must.Get(io.WriteString(z, text))(t)
		must.Do(t, z.Close())
		return packed.String()
	}
	packed := pack(bomb)
	for range 5 {
		w.invoke(request, "POST", "", "{}", "Content-Type", "application/json").wantDestination(t, 200, "{}")
		w.invoke(response, "POST", "", "{}", "Content-Type", "application/json").wantDestination(t, 200, "{}")
	}
	w.invoke(request, "POST", "", packed, "Content-Type", "application/json", "Content-Encoding", "gzip").wantProxyError(t, 413)
	w.invoke(request, "POST", "", packed, "Content-Type", "application/json", "Content-Encoding", "", "Content-Encoding", "gzip").wantProxyError(t, 413)
	w.invoke(response, "POST", "/bomb", "{}", "Content-Type", "application/json").wantProxyError(t, 413)
	w.invoke(result, "POST", "", "{}", "Content-Type", "application/json").wantProxyError(t, 413)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = async () => { " + code + " return {raw: a} }", Configuration: map[string]string{}}))(t)
	w.do("POST", "/reactors/"+reactor.ID.String()+"/react", w.PrivateKey, "{}").wantError(t, 413)

	half := "[" + strings.Repeat("[],", 20<<10) + "1]" // fits, but not beside the room below
	w.invoke(request, "POST", "", pack(half), "Content-Type", "application/json", "Content-Encoding", "gzip").wantDestination(t, 200, "{}")
	held := core.CallerOf(w.Private).Room(nil)
	defer held.Leave()
	must.Do(t, held.Reserve(t.Context(), 1<<20))
	w.invoke(request, "POST", "", pack(half), "Content-Type", "application/json", "Content-Encoding", "gzip").wantProxyError(t, 503)
}

func TestRequestTransformResults(t *testing.T) { //nolint:tparallel // each case looks at what arrived last
	t.Parallel()
	w := newScriptVault(t, nil)
	for name, tc := range map[string]struct {
		code, sent, want string
		header           http.Header // some of the headers that arrive
	}{
		"unchanged JSON stays byte for byte": {`return req.args`, `{ "b":1,  "a":[] }`, `{ "b":1,  "a":[] }`, http.Header{"Content-Type": {"application/json"}}},
		"text":                               {`return {body: 'plain', headers: {}}`, `{}`, `plain`, http.Header{"Content-Type": nil}},
		"no body":                            {`return {body: null, headers: {}}`, `{}`, ``, nil},
		"absent means unchanged":             {`return {}`, `{"a":1}`, `{"a":1}`, http.Header{"Content-Type": {"application/json"}}},
		"JSON gets a type":                   {`return {body: [1], headers: {}}`, `{}`, `[1]`, http.Header{"Content-Type": {"application/json"}}},
		"computed headers are computed": {`return {body: 'abc', headers: {'content-length': '99', host: 'evil', 'Transfer-Encoding': 'chunked', Connection: 'X-Y', 'x-y': '1', 'Keep-Alive': '1', 'svc-api-key': 'x', ok: '1'}}`,
			`{}`, `abc`, http.Header{"Content-Length": {"3"}, "X-Y": nil, "Svc-Api-Key": nil, "Keep-Alive": nil, "Ok": {"1"}}},
		"values of other types": {`return {body: '', headers: {n: 5, b: true, list: ['a', 'b'], none: null}}`, `{}`, ``, http.Header{"N": {"5"}, "B": {"true"}, "List": {"a", "b"}, "None": nil}},
		"tokenizes":             {`const id = await req.bt.tokenize('x'); return {body: await req.bt.detokenize('{{' + id + '}}'), headers: {}}`, `{}`, `x`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := w.transforms(tc.code, "")
			w.invoke(x, "POST", "", tc.sent, "Content-Type", "application/json").wantDestination(t, 200, "")
			got := w.dest.last(t)
			same(t, "arrived", got.body, tc.want)
			same(t, "host", "https://"+got.Host, w.dest.URL)
			for name, values := range tc.header {
				same(t, name, got.Header[name], values)
			}
		})
	}
}

func TestTransformErrors(t *testing.T) { //nolint:tparallel // each case counts what arrives
	t.Parallel()
	w := newScriptVault(t, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "fine") })
	for name, tc := range map[string]struct {
		code   string
		status int
	}{
		"class":             {`throw new BadRequestError('no')`, 400},
		"payment":           {`throw new InvalidPaymentMethodError('no')`, 402},
		"anything":          {`throw new Error('boom')`, 500},
		"no object":         {`return 5`, 500},
		"bad headers":       {`return {body: '', headers: 'x'}`, 500},
		"header of objects": {`return {body: '', headers: {a: {}}}`, 500},
		"smuggled header":   {`return {body: '', headers: {a: 'x\r\nEvil: 1'}}`, 500},
		"smuggled name":     {`return {body: '', headers: {'a: b\r\nEvil': '1'}}`, 500},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.dest.count()
			w.invoke(w.transforms(tc.code, ""), "POST", "", "").wantProxyError(t, tc.status)
			same(t, "requests at the destination", w.dest.count(), before)
			w.invoke(w.transforms("", tc.code), "POST", "", "").wantProxyError(t, tc.status)
		})
	}
	custom := `throw new CustomHttpResponseError({status: 418, headers: {'X-Own': '1', 'SVC-PROXY-DESTINATION-STATUS': '200'}, body: {tea: true}})`
	for _, x := range []*vault.Proxy{w.transforms(custom, ""), w.transforms("", custom)} {
		res := w.invoke(x, "POST", "", "")
		if res.StatusCode != 418 || res.body != `{"tea":true}` || res.Header.Get("X-Own") != "1" || res.Header.Get("SVC-PROXY-DESTINATION-STATUS") != "" {
			t.Errorf("%d %s %v", res.StatusCode, res.body, res.Header)
		}
	}
	for _, x := range []*vault.Proxy{w.transforms(chosenPage, ""), w.transforms("", chosenPage)} {
		wantSandboxed(t, w.invoke(x, "POST", "", ""))
	}
}

func TestResponseTransform(t *testing.T) {
	t.Parallel()
	compressed := func(typ string, body string) string {
		var buf bytes.Buffer
		var z io.WriteCloser
		switch typ {
		case "gzip":
			z = gzip.NewWriter(&buf)
		case "deflate":
			z = zlib.NewWriter(&buf)
		default:
			z, _ = flate.NewWriter(&buf, 5)
		}
		fmt.Fprint(z, body)
		z.Close()
		return buf.String()
	}
	w := newScriptVault(t, func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Content-Type", "application/json")
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("SVC-OWN", "theirs")
		answer := `{"pan":"4242"}`
		switch strings.TrimPrefix(r.URL.Path, "/base") {
		case "/gzip", "/deflate":
			typ := strings.TrimPrefix(r.URL.Path, "/base/")
			h.Set("Content-Encoding", typ)
			answer = compressed(typ, answer)
		case "/raw":
			h.Set("Content-Encoding", "deflate")
			answer = compressed("raw", answer)
		case "/br":
			h.Set("Content-Encoding", "br")
		case "/lie":
			h.Set("Content-Encoding", "gzip")
		case "/bomb":
			h.Set("Content-Encoding", "gzip")
			answer = compressed("gzip", strings.Repeat(" ", 6<<20))
		case "/large":
			answer = strings.Repeat(" ", 6<<20)
		case "/garbage":
			answer = "{"
		case "/text":
			h.Set("Content-Type", "text/plain")
			answer = "text \xff"
		case "/none":
			rw.WriteHeader(204)
			return
		case "/404":
			rw.WriteHeader(404)
		}
		fmt.Fprint(rw, answer)
	})
	x := w.transforms("", `
		const seen = Object.keys(req.args).join() + (req.args.headers['Svc-Own'] || '') + (req.args.headers['Content-Encoding'] || '');
		return {body: {seen, was: req.args.body}, headers: {...req.args.headers, 'X-New': '1', 'SVC-TRACE-ID': 'forged'}}`)
	const want = `{"seen":"body,headers","was":{"pan":"4242"}}`
	for _, path := range []string{"/", "/gzip", "/deflate", "/raw"} {
		res := w.invoke(x, "GET", path, "", "Accept-Encoding", "br").wantDestination(t, 200, want)
		if cookies := res.Header["Set-Cookie"]; cookies != nil {
			t.Errorf("the destination sets cookies of the API's origin: %q", cookies)
		}
		if res.Header.Get("X-New") != "1" || res.Header.Get("SVC-TRACE-ID") == "forged" || res.Header.Get("Content-Encoding") != "" || res.ContentLength != int64(len(want)) {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
	same(t, "Accept-Encoding", w.dest.last(t).Header.Get("Accept-Encoding"), "identity")
	w.invoke(x, "GET", "/text", "").wantDestination(t, 200, `{"seen":"body,headers","was":"text �"}`)
	w.invoke(x, "GET", "/404", "").wantDestination(t, 404, `{"pan":"4242"}`)
	w.invoke(x, "GET", "/none", "").wantDestination(t, 204, "")
	w.invoke(x, "HEAD", "/", "").wantDestination(t, 200, "")
	for _, path := range []string{"/br", "/lie", "/bomb", "/large", "/garbage"} {
		w.invoke(x, "GET", path, "").wantProxyError(t, 502)
	}
	keep := w.transforms("", `return req.args`)
	w.invoke(keep, "GET", "/text", "").wantDestination(t, 200, "text \xff")
	for _, path := range []string{"/gzip", "/"} {
		w.invoke(keep, "GET", path, "").wantDestination(t, 200, `{"pan":"4242"}`)
	}
}

// Code can call a proxy, and a cycle of such calls ends.
func TestTransformsCallProxies(t *testing.T) {
	t.Parallel()
	w := newScriptVault(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"uri":%q,"x":%q}`, r.RequestURI, r.Header.Get("X-A"))
	})
	inner := w.proxy(nil)
	outer := w.transforms("", fmt.Sprintf(`return {headers: {}, body: await req.bt.proxy.post({proxyKey: %q, path: '/p', query: {q: 'a b'}, headers: {'X-A': '1'}, body: {n: 1}})}`, inner.Key))
	w.invoke(outer, "GET", "", "").want(t, 200).has(t, `"status":200`, `{"uri":"/p?q=a+b","x":"1"}`)
	w.token("tok", "secret")
	for option, want := range map[string]string{"": "{{ tok }}", ", detokenize: true": "secret"} {
		// The inner proxy also has a transform, which gets the body that the
		// code sent.
		through := w.transforms(`return req.args`, "")
		code := fmt.Sprintf(`await req.bt.proxy.post({proxyKey: %q, body: {n: '{{ ' + 'tok }}'}%s}); return {}`, through.Key, option)
		w.invoke(w.transforms("", code), "GET", "", "")
		same(t, "with the options "+option, w.dest.last(t).body, `{"n":"`+want+`"}`)
	}
	circle := w.transforms(`return {}`, "")
	must.Get(w.Management.PatchProxy(t.Context(), circle.ID, vault.JSON(fmt.Sprintf(
		`{"request_transform":{"code":"module.exports = async (req) => ({headers: {}, body: await req.bt.proxy.get({proxyKey: '%s'})})"}}`, circle.Key))))(t)
	w.invoke(circle, "GET", "", "").wantProxyError(t, 500)
}

// A transform runs on a complete body. A destination that sends its body
// slowly has the same time limit as for a response.
func TestTransformOfASlowResponseIs408(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, &vault.Config{Runtime: jsruntime.New(nil), ProxyTimeout: 200 * time.Millisecond}, nil, nil)
	raw := rawDestination(t, w.dest.TLS.Certificates, func(c net.Conn) {
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
		for drops := time.NewTicker(20 * time.Millisecond); err == nil; <-drops.C {
			_, err = io.WriteString(c, "x")
		}
	})
	x := w.proxy(func(p *vault.ProxyParams) {
		p.DestinationURL = raw
		p.ResponseTransform = &vault.ProxyTransform{Code: "module.exports = async (r) => r.args"}
	})
	w.invoke(x, "GET", "", "").wantProxyError(t, 408)
}
