//go:build !race

package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// BenchmarkProxy measures what a proxy adds to a call of its destination. The calls
// with and without the proxy use loopback and the same TLS server.
func BenchmarkProxy(b *testing.B) {
	dest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	b.Cleanup(dest.Close)
	roots := x509.NewCertPool()
	roots.AddCert(dest.Certificate())
	v := vaulttest.Open(b, onSQLite.create(b), &vault.Config{Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: roots}})
	front := httptest.NewServer(httpserver.Handler(v.Vault, nil))
	b.Cleanup(front.Close)
	x := must.Get(v.Management.CreateProxy(b.Context(), vault.ProxyParams{Name: "bench", DestinationURL: dest.URL}))(b)
	client := clientFor(b, roots, 1)
	const body = `{"number":"4242424242424242"}`
	direct := caller(client, sent{"POST", "", "", body, http.StatusOK}, dest.URL, nil)
	through := caller(client, sent{"POST", "/proxy", v.PrivateKey, body, http.StatusOK}, front.URL, http.Header{"Svc-Proxy-Key": {x.Key}})
	const calls = 2000
	report(b, figure{what: "proxy call, added to direct", metric: "ms-added", backend: onSQLite.name, callers: "1",
		value: medianMillis(b, calls, through) - medianMillis(b, calls, direct), unit: "ms", goal: 1.0, atMost: true})
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
