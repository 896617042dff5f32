package httpserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestProxyForwardsMethodPathQueryHeadersAndBody(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Answer", "yes")
		rw.WriteHeader(http.StatusTeapot)
		fmt.Fprint(rw, "short and stout")
	})
	x := w.proxy(func(p *vault.ProxyParams) { p.DestinationURL += "/v1/?a=1&b=%20" })
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
		res := w.invoke(x, method, "/a%2Fb/c;d/e(f)'/?q=x%20y&&z", "ping", "Authorization", "Bearer dest", "Content-Type", "text/plain", "X-Two", "1", "X-Two", "2")
		res.wantDestination(t, http.StatusTeapot, "short and stout")
		same(t, "a header of the destination", res.Header.Get("X-Answer"), "yes")
		got := w.dest.last(t)
		if got.Method != method || got.RequestURI != "/v1/a%2Fb/c;d/e(f)'/?a=1&b=%20&q=x%20y&&z" || got.body != "ping" {
			t.Errorf("arrived: %s %s %q", got.Method, got.RequestURI, got.body)
		}
		same(t, "Authorization", got.Header.Get("Authorization"), "Bearer dest")
		same(t, "X-Two", got.Header["X-Two"], []string{"1", "2"})
		same(t, "Host", "https://"+got.Host, w.dest.URL)
	}
}

func TestProxyComposesPathsByteForByte(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	for _, tc := range []struct{ base, suffix, want string }{
		{"", "", "/"},
		{"", "/", "/"},
		{"/", "/x", "/x"},
		{"/v1", "", "/v1"},
		{"/v1/", "", "/v1/"},
		{"/v1", "/", "/v1/"},
		{"/v1/", "/x/", "/v1/x/"},
		{"/v%2F1", "//x//y", "/v%2F1//x//y"},
		{"", "/%E4%F6?", "/%E4%F6"},
		{"?k=v", "/x", "/x?k=v"},
		{"?k=v", "/x?svc-proxy-key=zzz", "/x?k=v"},
		{"", "/x?a&svc-proxy-key=zzz&SVC%2Dproxy-key=yyy&b=%7B", "/x?a&b=%7B"},
		{"", "/...", "/..."},
		{"", "/.well-known/a..b", "/.well-known/a..b"},
	} {
		x := w.proxy(func(p *vault.ProxyParams) { p.DestinationURL += tc.base })
		w.invoke(x, "GET", tc.suffix, "").wantDestination(t, 200, "")
		same(t, tc.base+" + "+tc.suffix, w.dest.last(t).RequestURI, tc.want)
	}
	x := w.proxy(nil)
	arrived := w.dest.count()
	for _, suffix := range []string{"/..", "/.", "/a/../b", "/a/%2e%2E/b", "/a/.%2e", "/%2e/x", "/a%2F..%2Fb", "/a/..%5Cb", `/a\..\b`, "/a/..;x=1/b", "/%2e%2e%3bx/b"} {
		r := w.request("GET", "/proxy", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key)
		r.URL = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: "/proxy" + suffix}
		w.call(r).wantProxyError(t, 400)
	}
	same(t, "requests at the destination", w.dest.count(), arrived)
}

func TestProxyKeyInHeaderOrQuery(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	x, other := w.proxy(nil), w.proxy(func(p *vault.ProxyParams) { p.DestinationURL += "/other" })
	key := []string{"SVC-API-KEY", w.PrivateKey}
	send := func(path string, header ...string) *response {
		return w.call(w.request("GET", path, "", append(slices.Clone(key), header...)...))
	}
	send("/proxy?svc-proxy-key="+x.Key).wantDestination(t, 200, "")
	send("/proxy?svc-proxy-key="+x.Key, "SVC-PROXY-KEY", other.Key).wantDestination(t, 200, "")
	same(t, "with both a header and a query", w.dest.last(t).RequestURI, "/other")
	send("/proxy", "SVC-PROXY-KEY", x.Key, "SVC-PROXY-URL", w.dest.URL+"/url").wantDestination(t, 200, "")
	same(t, "with both a key and a URL", w.dest.last(t).RequestURI, "/")
	for name, tc := range map[string]struct {
		status int
		res    *response
	}{
		"neither key nor URL": {400, send("/proxy")},
		"unknown key":         {404, send("/proxy", "SVC-PROXY-KEY", "nope")},
		"long key":            {404, send("/proxy", "SVC-PROXY-KEY", strings.Repeat("k", 5000))},
		"an API key":          {404, send("/proxy", "SVC-PROXY-KEY", w.PrivateKey)},
		"two keys":            {400, send("/proxy", "SVC-PROXY-KEY", x.Key, "SVC-PROXY-KEY", x.Key)},
		"two in the query":    {400, send("/proxy?svc-proxy-key=" + x.Key + "&svc-proxy-key=" + other.Key)},
	} {
		same(t, name, tc.res.StatusCode, tc.status)
		tc.res.wantProxyError(t, tc.status)
	}
	send("/proxy").has(t, `"errors":{"SVC-PROXY-KEY":[`)
	must.Do(t, w.Management.DeleteProxy(t.Context(), x.ID))
	send("/proxy", "SVC-PROXY-KEY", x.Key).wantProxyError(t, 404)
}

func TestProxyAuthentication(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	closed, opened := w.proxy(nil), w.proxy(anonymous)
	_, stranger := w.NewTenant(t, "Stranger")
	_, strangerKey := w.NewApplication(t, stranger, vault.ApplicationPrivate, nil)
	for name, tc := range map[string]struct {
		x      *vault.Proxy
		keys   []string
		status int
	}{
		"required, none":              {closed, nil, 401},
		"required, bad":               {closed, []string{"key_prv_nope"}, 401},
		"required, two":               {closed, []string{w.PrivateKey, w.PrivateKey}, 401},
		"required, without token:use": {closed, []string{w.PublicKey}, 403},
		"required, management":        {closed, []string{w.ManagementKey}, 403},
		"required, another tenant's":  {closed, []string{strangerKey}, 404},
		"required, good":              {closed, []string{w.PrivateKey}, 200},
		"open, none":                  {opened, nil, 200},
		"open, bad":                   {opened, []string{"key_prv_nope"}, 401},
		"open, without token:use":     {opened, []string{w.PublicKey}, 200},
		"open, another tenant's":      {opened, []string{strangerKey}, 404},
	} {
		header := []string{"SVC-PROXY-KEY", tc.x.Key}
		for _, key := range tc.keys {
			header = append(header, "SVC-API-KEY", key)
		}
		res := w.call(w.request("GET", "/proxy", "", header...))
		if res.StatusCode != tc.status {
			t.Errorf("%s: %d, want %d: %s", name, res.StatusCode, tc.status, res.body)
		} else if tc.status != 200 {
			res.wantProxyError(t, tc.status)
		}
	}
}

func TestEphemeralProxy(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	w.token("tok", "secret")
	send := func(key, target string) *response {
		header := []string{"SVC-PROXY-URL", target, "Content-Type", "text/plain"}
		if key != "" {
			header = append(header, "SVC-API-KEY", key)
		}
		return w.call(w.request("POST", "/proxy/suffix?q", "{{ tok }}", header...))
	}
	send(w.PrivateKey, w.dest.URL+"/base?b").wantDestination(t, 200, "")
	if got := w.dest.last(t); got.RequestURI != "/base/suffix?b&q" || got.body != "secret" {
		t.Errorf("arrived: %s %q", got.RequestURI, got.body)
	}
	send("", w.dest.URL).wantProxyError(t, 401)
	send(w.PublicKey, w.dest.URL).wantProxyError(t, 403)
	for _, target := range []string{"nowhere", "http://example.com/", "https://u:p@example.com/", "https://example.com/#f", "ftp://example.com", "https://2130706433/"} {
		body := send(w.PrivateKey, target).wantProxyError(t, 400)
		if fields, _ := body["errors"].(map[string]any); fields["SVC-PROXY-URL"] == nil {
			t.Errorf("%s: %v", target, body)
		}
	}
	logs, err := w.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "proxy"})
	if err != nil || len(logs.Data) == 0 || logs.Data[0].EntityID != "ephemeral" || logs.Data[0].Message != "Proxy invoked" {
		t.Errorf("log: %+v, %v", logs, err)
	}
}

func TestProxyHeaderRules(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h.Set("Svc-Secret", "x")
		h.Set("SVC-PROXY-DESTINATION-STATUS", "999")
		h.Set("SVC-TRACE-ID", "theirs")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=1")
		h["X-Two"] = []string{"a", "b"}
		h["Set-Cookie"] = []string{"a=1; Path=/", "b=2"}
		h["Content-Type"] = nil
		fmt.Fprint(rw, "<html>")
	})
	x := w.proxy(nil)
	res := w.invoke(x, "GET", "", "", "SVC-TRACE-ID", "trace-7", "traceparent", traceparent, "tracestate", "a=1", "Svc-Other", "x", "svc-idempotency-key", "k",
		"Connection", "X-Gone, close", "X-Gone", "1", "Te", "trailers", "Upgrade", "websocket", "Proxy-Authorization", "x", "Keep-Alive", "1",
		"Expect", "100-continue", "Accept-Encoding", "br", "X-Kept", "1")
	res.wantDestination(t, 200, "<html>")
	got := w.dest.last(t).Header
	want := http.Header{"Svc-Trace-Id": {"trace-7"}, "Traceparent": {traceparent}, "Tracestate": {"a=1"}, "X-Kept": {"1"}, "Accept-Encoding": {"br"}}
	got.Del("User-Agent")
	same(t, "headers at the destination", got, want)
	for _, name := range []string{"Date", "Content-Length"} {
		res.Header.Del(name)
	}
	want = http.Header{"Svc-Proxy-Destination-Status": {"200"}, "Svc-Trace-Id": {"trace-7"}, "X-Two": {"a", "b"},
		"Content-Security-Policy": {"sandbox"}, "Cross-Origin-Resource-Policy": {"same-origin"}, "X-Content-Type-Options": {"nosniff"}}
	same(t, "headers of the response", res.Header, want)
}

func TestProxyInjectsKeepAliveAndConnection(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	x := w.proxy(nil)
	w.invoke(x, "GET", "", "", "SVC-PROXY-KEEP-ALIVE", "timeout=5, max=100", "SVC-PROXY-CONNECTION", "keep-alive").wantDestination(t, 200, "")
	if got := w.dest.last(t).Header; got.Get("Keep-Alive") != "timeout=5, max=100" || got.Get("Connection") != "keep-alive" {
		t.Errorf("headers: %v", got)
	}
	w.invoke(x, "GET", "", "", "SVC-PROXY-CONNECTION", "close").wantDestination(t, 200, "")
	if got := w.dest.last(t); !got.Close || got.Header.Get("Connection") != "close" {
		t.Errorf("close: %v, %v", got.Close, got.Header)
	}
	w.invoke(x, "GET", "", "", "SVC-PROXY-CONNECTION", "upgrade").wantProxyError(t, 400)
}

func TestProxyWithAnotherPrefix(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, &Options{Prefix: "BT-"}, nil)
	x := w.proxy(nil)
	res := w.call(w.request("GET", "/proxy?bt-proxy-key="+x.Key+"&svc-proxy-key=kept", "", "BT-API-KEY", w.PrivateKey, "SVC-HEADER", "kept", "BT-HEADER", "dropped"))
	same(t, "status of the destination", res.Header.Get("BT-PROXY-DESTINATION-STATUS"), "200")
	got := w.dest.last(t)
	if got.RequestURI != "/?svc-proxy-key=kept" || got.Header.Get("SVC-HEADER") != "kept" || got.Header.Get("BT-HEADER") != "" || got.Header.Get("BT-TRACE-ID") == "" {
		t.Errorf("arrived: %s %v", got.RequestURI, got.Header)
	}
}

func TestProxyDetokenizesWithTheRightsOfTheCaller(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	w.token("tok", "secret")
	x := w.proxy(nil)
	const body, typ = `{"k": "{{ tok }}"}`, "application/json"
	w.invoke(x, "POST", "", body, "Content-Type", typ).wantDestination(t, 200, "")
	got := w.dest.last(t)
	same(t, "arrived", got.body, `{"k": "secret"}`)
	same(t, "its length", got.ContentLength, int64(len(got.body)))
	bad := w.invoke(x, "POST", "", `{"k":"{{ nobody }}"}`, "Content-Type", typ).wantProxyError(t, 400)
	must.Contain(t, "errors", fmt.Sprint(bad["errors"]), "Failed to detokenize some tokens: nobody")
	w.invoke(x, "POST", "", `{"k":"{{ a | b c }}"}`, "Content-Type", typ).wantProxyError(t, 400)
	w.invoke(x, "GET", "/?q=%7B%7Btok%7D%7D", "").wantProxyError(t, 400)
	w.invoke(x, "GET", "", "", "X-Name", "{{ tok }}").wantProxyError(t, 400)
	_, elsewhere := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{{Priority: 1, Container: "/pci/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}}})
	w.call(w.request("POST", "/proxy", body, "SVC-API-KEY", elsewhere, "SVC-PROXY-KEY", x.Key, "Content-Type", typ)).wantProxyError(t, 403)
	same(t, "requests at the destination", w.dest.count(), 1)
	w.invoke(x, "GET", "/?q=%7B%7Bnobody%7D%7D", "", "X-Name", "{{ {{tok}}").wantDestination(t, 200, "")
}

func TestAnonymousProxyDetokenizesAsItsApplication(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	w.token("tok", "secret")
	application := func(c *vault.Client) func(*vault.ProxyParams) {
		return func(p *vault.ProxyParams) {
			anonymous(p)
			p.ApplicationID = c.ApplicationID()
		}
	}
	send := func(x *vault.Proxy, header ...string) *response {
		return w.call(w.request("POST", "/proxy", "{{tok}}", append(header, "SVC-PROXY-KEY", x.Key, "Content-Type", "text/plain")...))
	}
	able := w.proxy(application(w.Private))
	send(able).wantDestination(t, 200, "")
	same(t, "arrived", w.dest.last(t).body, "secret")
	send(able, "SVC-API-KEY", w.PublicKey).wantProxyError(t, 403) // the key decides the identity
	send(w.proxy(application(w.Public))).wantProxyError(t, 403)
	send(w.proxy(anonymous)).wantProxyError(t, 403)
	send(w.proxy(anonymous), "SVC-API-KEY", w.PrivateKey).wantDestination(t, 200, "")
	must.Do(t, w.Owner.DeleteApplication(t.Context(), w.Private.ApplicationID()))
	send(able).wantProxyError(t, 403)
}

func TestProxyLogsInvocationsAndTokens(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	w.token("tok", "secret")
	x := w.proxy(nil)
	w.invoke(x, "POST", "", "{{tok}} {{ tok }}", "Content-Type", "text/plain").wantDestination(t, 200, "")
	entries := func(id string) []string {
		page := must.Get(w.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityID: id}))(t)
		var out []string
		for _, e := range page.Data {
			actor := ""
			if e.ActorID == w.Private.ApplicationID() {
				actor = " by private"
			}
			out = append(out, e.EntityType+" "+string(e.Operation)+" "+e.Message+actor)
		}
		return out
	}
	same(t, "log entries", entries("tok"), []string{"token use Token used by private", "token create Token created by private"})
	if diff := cmp.Diff([]string{"proxy use Proxy invoked by private", "proxy create Proxy created"}, entries(x.ID.String())); diff != "" {
		t.Error(diff)
	}
	if log := w.log.String(); !strings.Contains(log, `"route":"/proxy"`) || strings.Contains(log, "secret") || strings.Contains(log, x.Key) {
		t.Errorf("request log: %s", log)
	}
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A transform does not see the trace id and does not lose the trace.
func TestTransformKeepsTheTrace(t *testing.T) {
	t.Parallel()
	w := newScriptVault(t, nil)
	x := w.transforms(`return {body: '', headers: {'X-Saw': String(req.args.headers['Svc-Trace-Id'])}}`, "")
	w.invoke(x, "POST", "", "{}", "SVC-TRACE-ID", "trace-7", "traceparent", traceparent).wantDestination(t, 200, "")
	got := w.dest.last(t).Header
	for name, want := range map[string]string{"X-Saw": "undefined", "SVC-TRACE-ID": "trace-7", "traceparent": traceparent} {
		same(t, name, got.Get(name), want)
	}
}
