package httpserver

import (
	"net/http"
	"strings"
	"testing"
)

// hostileHeaders act on the origin of the server that relays them.
var hostileHeaders = map[string]string{
	"Set-Cookie": "session=1", "Set-Cookie2": "session=1", "Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`,
	"Strict-Transport-Security": "max-age=1", "Alt-Svc": `h3=":1"`, "Public-Key-Pins": "max-age=1", "Refresh": "0; url=/",
	"NEL": "{}", "Report-To": "{}", "Reporting-Endpoints": `a="/"`, "Accept-CH": "DPR",
	"Set-Login": "logged-in", "Secure-Session-Registration": `(ES256);path="x"`, "Use-As-Dictionary": `match="/*"`,
}

func hostilePage(w http.ResponseWriter, _ *http.Request) {
	for name, value := range hostileHeaders {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Security-Policy", "sandbox allow-scripts allow-same-origin; default-src *")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("X-Own", "1")
	_, _ = w.Write([]byte("<script>steal()</script>"))
}

func TestRelayedPagesAreSandboxed(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, hostilePage)
	res := w.invoke(w.proxy(anonymous), "GET", "/page", "")
	res.has(t, "steal").headers(t, "Content-Type", "text/html", "X-Own", "1")
	want := map[string][]string{
		"Content-Security-Policy":      {"sandbox", "sandbox allow-scripts allow-same-origin; default-src *"},
		"X-Content-Type-Options":       {"nosniff"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}
	for name := range hostileHeaders {
		want[name] = nil
	}
	for name, values := range want {
		same(t, name, res.Header.Values(name), values)
	}
}

func TestBrowsersCannotOpenProxies(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, hostilePage)
	proxy := w.proxy(anonymous)
	tests := []struct {
		name, value string
		refused     bool
	}{
		{"Sec-Fetch-Dest", "document", true},
		{"Sec-Fetch-Dest", "iframe", true},
		{"Sec-Fetch-Dest", "frame", true},
		{"Sec-Fetch-Dest", "embed", true},
		{"Sec-Fetch-Dest", "object", true},
		{"Sec-Fetch-Dest", "serviceworker", true},
		{"Sec-Fetch-Dest", "worker", true},
		{"Sec-Fetch-Dest", "sharedworker", true},
		{"Sec-Fetch-Dest", "script", true},
		{"Service-Worker", "script", true},
		{"Sec-Fetch-Dest", "empty", false},
		{"Sec-Fetch-Dest", "image", false},
		{"Sec-Fetch-Mode", "cors", false},
	}
	for _, test := range tests {
		for _, method := range []string{"GET", "POST"} {
			before := w.dest.count()
			res := w.invoke(proxy, method, "/page", "", test.name, test.value)
			if refused := res.StatusCode == http.StatusForbidden; refused != test.refused {
				t.Errorf("%s with %s: %s: %d, want refused: %v", method, test.name, test.value, res.StatusCode, test.refused)
			}
			if test.refused && (!strings.Contains(res.body, `"proxy_error"`) || w.dest.count() != before) {
				t.Errorf("%s with %s: %s: the destination was called, or the response is no proxy_error: %s", method, test.name, test.value, res.body)
			}
		}
	}
}

// A browser sends the cookies of the API's host with a call of a proxy. The tenant's
// destination must not get them.
func TestCookiesOfABrowserAreNotForwarded(t *testing.T) {
	t.Parallel()
	cookie := func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Cookie", r.Header.Get("Cookie")) }
	for name, test := range map[string]struct {
		options *Options
		header  []string
		want    string
	}{
		"fetch":        {nil, []string{"Sec-Fetch-Site", "same-origin"}, ""},
		"image":        {nil, []string{"Sec-Fetch-Dest", "image"}, ""},
		"old browser":  {nil, []string{"Origin", "https://shop.example"}, ""},
		"no browser":   {nil, nil, "session=1"},
		"raw response": {&Options{RawProxy: true}, []string{"Sec-Fetch-Site", "same-origin"}, "session=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProxyVault(t, nil, test.options, cookie)
			res := w.invoke(w.proxy(anonymous), "GET", "/", "", append([]string{"Cookie", "session=1"}, test.header...)...)
			if got := res.Header.Get("X-Cookie"); res.StatusCode != 200 || got != test.want {
				t.Errorf("the destination got %q (%d), want %q", got, res.StatusCode, test.want)
			}
		})
	}
}

func TestRawProxyChangesNothing(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, &Options{RawProxy: true}, hostilePage)
	res := w.invoke(w.proxy(anonymous), "GET", "/page", "", "Sec-Fetch-Dest", "document")
	res.want(t, 200)
	for name, want := range hostileHeaders {
		same(t, name, res.Header.Get(name), want)
	}
	same(t, "Content-Security-Policy", len(res.Header.Values("Content-Security-Policy")), 1)
}
