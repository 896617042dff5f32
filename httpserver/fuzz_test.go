package httpserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests sends any method, path and body with a sufficient key. The
// server must not fail. An error must have the common form and leave nothing
// behind. Every other response must match the OpenAPI document.
func FuzzRequests(f *testing.F) {
	for _, c := range malformedBodies {
		if len(c.body) < 10_000 {
			f.Add("POST", "/tokens", []byte(c.body))
			f.Add("POST", "/tokenize", []byte(c.body))
			f.Add("PATCH", "/tokens/existing", []byte(c.body))
		}
	}
	for _, c := range malformedRequests {
		if len(c.body)+len(c.path) < 10_000 {
			f.Add(c.method, c.path, []byte(c.body))
		}
	}
	f.Add("POST", "/tokens/", []byte(card))
	f.Add("POST", "/detokenize", []byte(`{"a":"{{ existing }}","b":["{{ token: existing | json: '$.metadata' }}"]}`))
	f.Add("PUT", "/reactors/3fa85f64-5717-4562-b3fc-2c963f66afa6", []byte(reactorBody))
	f.Add("POST", "/proxies", []byte(proxyBody))
	f.Add("OPTIONS", "*", []byte(nil))
	f.Add("CONNECT", "//x/../y", []byte(nil))
	w := newRestVault(f, nil)
	w.create(`{"id":"existing","type":"token","data":{"a":"b"},"metadata":{"k":"v"}}`)
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		target, err := url.ParseRequestURI(path)
		if err != nil || len(body) > 1<<20 {
			return
		}
		own := *w
		own.t = t
		own.probe(method, target, w.keyFor(method, target.Path), body)
	})
}

// probe sends one request and checks the response and the log.
func (w *restVault) probe(method string, target *url.URL, key string, body []byte) {
	w.t.Helper()
	before := w.totalLogs()
	r := httptest.NewRequest("GET", "/", bytes.NewReader(body))
	u := *target
	r.Method, r.URL, r.RequestURI = method, &u, target.RequestURI()
	r.Header.Set("SVC-API-KEY", key)
	r.Header.Set("Content-Type", mergePatch)
	res := w.serve(r)
	switch {
	case res.StatusCode >= http.StatusInternalServerError, res.StatusCode >= 300 && res.StatusCode < 400:
		w.t.Errorf("%s %s: status %d: %s", method, target, res.StatusCode, res.body)
	case res.StatusCode < 300:
		validate(w.t, r, res)
		return
	}
	res.wantError(w.t, res.StatusCode)
	used := strings.Contains(target.Path, "detokenize") // logs the tokens that it read before it failed
	if after := w.totalLogs(); after != before && !used {
		w.t.Errorf("%s %s: rejected with %d, but something changed", method, target, res.StatusCode)
	}
}
