package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// freeAddress returns an address that no one listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", freePort))(t)
	defer l.Close()
	return l.Addr().String()
}

// TestMetricsHaveAnAddress checks which paths each address serves.
func TestMetricsHaveAnAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", freeAddress(t)} {
		s := runServer(t, "-metrics-addr", addr)
		_, api, _ := strings.Cut(s.await(`listening at \S+`), " at ")
		want := map[string]int{api + "/metrics": http.StatusOK, api + "/readyz": http.StatusOK}
		if addr != "" {
			own := "http://" + addr
			want = map[string]int{
				api + "/metrics": http.StatusNotFound, api + "/readyz": http.StatusOK, api + "/healthz": http.StatusOK,
				own + "/metrics": http.StatusOK, own + "/readyz": http.StatusOK, own + "/healthz": http.StatusOK,
				own + "/openapi.json": http.StatusNotFound, own + "/tokens": http.StatusNotFound, own + "/": http.StatusNotFound,
			}
		}
		for address, status := range want {
			if got, _ := get(t, http.DefaultClient, address); got != status {
				t.Errorf("-metrics-addr %q: %s is a %d, want %d", addr, address, got, status)
			}
		}
		s.end()
	}
}

// TestForward checks that a server with TLS has a forward proxy without TLS, and logs
// its requests.
func TestForward(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	writePair(t, cert, key, 1)
	addr := freeAddress(t)
	s := runServer(t, "-forward", addr, "-prefix", "BT-", "-tls-cert", cert, "-tls-key", key)
	s.await("forward proxy is listening")
	proxy := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}}
	res := must.Get(proxy.Get("http://pay.example"))(t)
	defer res.Body.Close()
	if res.StatusCode != http.StatusProxyAuthRequired || res.Header.Get("BT-Trace-Id") == "" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	s.await(`route=forward status=407`)
	s.end()
}

// TestFlagsReachTheVault opens vaults with flags of the audit log and of keys.
func TestFlagsReachTheVault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags      []string
		age, grace time.Duration
	}{{nil, time.Minute, 5 * time.Minute}, {[]string{"-key-age", "3s", "-key-grace", "7s"}, 3 * time.Second, 7 * time.Second}, {[]string{"-key-age", "0", "-key-grace", "0"}, -1, -1}} {
		dir := t.TempDir()
		c := must.Get(parseFlags(append([]string{
			"-db", filepath.Join(dir, "v.db"), "-key-file", filepath.Join(dir, "k"), "-evidence", "-log-retention", "8760h", "-evidence-verify-every", "1h",
		}, test.flags...), io.Discard))(t)
		v, err := openVault(t.Context(), c, slog.New(slog.DiscardHandler))
		must.Do(t, err)
		defer v.Close()
		info, err := v.Info(t.Context())
		if err != nil || info.Config.LogRetention != 8760*time.Hour || info.Config.Evidence.VerifyEvery != time.Hour {
			t.Errorf("%+v %v", info, err)
		}
		if got := info.Config; got.KeyAge != test.age || got.KeyGrace != test.grace {
			t.Errorf("%v: the age is %s, the grace %s", test.flags, got.KeyAge, got.KeyGrace)
		}
	}
}

// TestJSONFromTheFirstLine checks that every line of a server is JSON, also the
// error that ends it.
func TestJSONFromTheFirstLine(t *testing.T) {
	t.Parallel()
	s := runServer(t, "-log-format", "json")
	s.await("Ctrl-C")
	s.end()
	var failed bytes.Buffer
	dir := t.TempDir()
	args := []string{"-log-format", "json", "-addr", "127.0.0.1:0", "-db", filepath.Join(dir, "no", "v.db"), "-key-file", filepath.Join(dir, "k")}
	err := Main(t.Context(), args, OIDC{}, func(string) string { return "" }, io.Discard, &failed)
	var reported *ReportedError
	if !errors.As(err, &reported) || failed.Len() == 0 {
		t.Errorf("%v, with the log %q", err, failed.String())
	}
	for line := range strings.Lines(s.printed.text.String() + failed.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}
