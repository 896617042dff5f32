package vaultclient_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestProxyIsNotChosenByAQuery finds that a query which comes from elsewhere
// cannot send a request through another proxy.
func TestProxyIsNotChosenByAQuery(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	c := f.client(t, f.PrivateKey, vaultclient.Options{})
	for _, query := range []string{"svc-proxy-key=other", "a=b&SVC-Proxy-Key=other", "svc%2Dproxy-key", "a&%73vc-proxy-key=x&b"} {
		_, err := c.InvokeProxy(t.Context(), vault.ProxyCall{URL: "https://destination.example", Query: query})
		var bad *vault.InvalidError
		if !errors.As(err, &bad) || bad.Fields["query"] == nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	if f.count() != 0 {
		t.Errorf("%d requests were sent", f.count())
	}
}

// TestProxyIsNotChosenByAHeader finds that headers of the API's own are the
// client's alone to set.
func TestProxyIsNotChosenByAHeader(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{}).InvokeProxy(t.Context(), vault.ProxyCall{
		URL: "https://localhost", Header: http.Header{"svc-proxy-key": {"other"}, "Svc-Api-Key": {"other"}, "SVC-Else": {"x"}}})
	if !errors.Is(err, vault.ErrInvalid) && !errors.Is(err, vault.ErrUnreachable) {
		t.Errorf("error %v, want that the destination is not allowed", err)
	}
	for name, want := range map[string]string{"SVC-PROXY-KEY": "", "SVC-API-KEY": f.PrivateKey, "SVC-ELSE": "", "SVC-PROXY-URL": "https://localhost"} {
		if got := f.headers(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// TestAnswersOfProxiesStream finds that a piece of an answer arrives before the
// next one is sent, and that pieces of a request do too.
func TestAnswersOfProxiesStream(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan string), make(chan struct{})
	dest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		piece := make([]byte, 3)
		_, _ = io.ReadFull(r.Body, piece)
		arrived <- string(piece)
		_, _ = io.WriteString(w, "one")
		_ = control.Flush()
		<-release
		_, _ = io.WriteString(w, "two")
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(dest.Close)
	pool := x509.NewCertPool()
	pool.AddCert(dest.Certificate())
	f := frontOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: pool}}), pass)
	body, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, _ = io.WriteString(feed, "abc") // and then neither more nor the end
	}()
	got := make(chan string)
	go func() {
		defer close(got)
		a, err := f.client(t, f.PrivateKey, vaultclient.Options{}).InvokeProxy(t.Context(), vault.ProxyCall{
			URL: dest.URL, Method: "POST", Body: body, ContentLength: -1, Header: http.Header{"Content-Type": {"application/octet-stream"}}})
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Body.Close()
		for {
			piece := make([]byte, 3)
			if _, err := io.ReadFull(a.Body, piece); err != nil {
				return
			}
			got <- string(piece)
		}
	}()
	for _, step := range []struct {
		from <-chan string
		want string
	}{{arrived, "abc"}, {got, "one"}} {
		if piece := <-step.from; piece != step.want {
			t.Errorf("%q arrived, want %q", piece, step.want)
		}
	}
	close(release)
	feed.Close()
	if piece := <-got; piece != "two" {
		t.Errorf("%q arrived at the end", piece)
	}
	<-got
}
