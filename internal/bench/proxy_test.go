package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// BenchmarkProxy compares calls through a proxy with direct calls to the
// destination. Both use loopback and the same TLS server.
func BenchmarkProxy(b *testing.B) {
	const callers = 32
	dest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	b.Cleanup(dest.Close)
	roots := x509.NewCertPool()
	roots.AddCert(dest.Certificate())
	v := vaulttest.Open(b, onSQLite.create(b), &vault.Config{
		Runtime: jsruntime.New(nil), Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: roots},
	})
	front := httptest.NewServer(httpserver.Handler(v.Vault, nil))
	b.Cleanup(front.Close)
	tok := must.Get(v.Private.CreateToken(b.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "4242424242424242"}))(b)
	client := clientFor(b, roots, callers)
	proxied := func(body string, transform *vault.ProxyTransform) func() error {
		x, err := v.Management.CreateProxy(b.Context(), vault.ProxyParams{Name: "bench", DestinationURL: dest.URL, RequestTransform: transform})
		if err != nil {
			b.Fatal(err)
		}
		return caller(client, sent{"POST", "/proxy", v.PrivateKey, body, http.StatusOK}, front.URL, http.Header{"Svc-Proxy-Key": {x.Key}})
	}
	const plain = `{"number":"4242424242424242"}`
	direct := &contender{name: "direct", call: caller(client, sent{"POST", "", "", plain, http.StatusOK}, dest.URL, nil)}
	through := &contender{name: "pass-through", call: proxied(plain, nil)}
	token := &contender{name: "one token", call: proxied(`{"number":"{{ `+tok.ID+` }}"}`, nil)}
	transform := &contender{name: "transform", call: proxied(plain, &vault.ProxyTransform{Code: "module.exports = async (req) => req.args"})}

	added := medianTime(b, through.call) - medianTime(b, direct.call)
	race(b, callers, direct, through, token, transform)
	report(b, figure{what: "proxy call, added to direct", metric: "ms-added", backend: onSQLite.name, callers: "1",
		value: added.Seconds() * 1000, unit: "ms", goal: 1.0, atMost: true})
	for _, f := range []struct {
		*contender
		metric string
		goal   float64
	}{{through, "x/direct", 0.25}, {token, "token-x/direct", 0.2}, {transform, "transform-x/direct", 0.08}} {
		report(b, figure{what: "proxy " + f.name + " / direct", metric: f.metric, backend: onSQLite.name, callers: strconv.Itoa(callers),
			value: f.over(direct), unit: "x", goal: f.goal, rates: f.perSecond() + ", " + direct.perSecond()})
	}
}

// clientFor returns a client that keeps one connection per caller.
func clientFor(b *testing.B, roots *x509.CertPool, callers int) *http.Client {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: callers, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// caller returns a function that sends a request with a JSON body and reads the
// response.
func caller(client *http.Client, s sent, url string, header http.Header) func() error {
	return func() error {
		req, err := http.NewRequestWithContext(context.Background(), s.method, url+s.path, strings.NewReader(s.body))
		if err != nil {
			return err
		}
		for name, values := range header {
			req.Header[name] = values
		}
		req.Header.Set("SVC-API-KEY", s.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != s.want {
			err = fmt.Errorf("status %d: %s", res.StatusCode, text)
		}
		return err
	}
}

// medianTime returns the median duration of a call without other load.
func medianTime(b *testing.B, call func() error) time.Duration {
	b.Helper()
	const calls = 2000
	times := make([]time.Duration, 0, calls)
	for range calls {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[calls/2]
}
