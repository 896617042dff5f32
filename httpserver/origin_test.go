package httpserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Log entries have the origin of a request. X-Forwarded-For counts only as
// far as trusted proxies have written it.
func TestOrigin(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, tc := range map[string]struct {
		remote    string
		forwarded []string
		trusted   []netip.Prefix
		want      string
	}{
		"direct":             {"192.0.2.7:4711", nil, nil, "192.0.2.7"},
		"IPv6":               {"[2001:db8::7%eth0]:4711", nil, nil, "2001:db8::7"},
		"mapped":             {"[::ffff:192.0.2.7]:4711", nil, nil, "192.0.2.7"},
		"no proxy trusted":   {"10.0.0.1:4711", []string{"192.0.2.7"}, nil, "10.0.0.1"},
		"another's header":   {"198.51.100.1:4711", []string{"192.0.2.7"}, trusted, "198.51.100.1"},
		"a proxy":            {"10.0.0.1:4711", []string{"192.0.2.7"}, trusted, "192.0.2.7"},
		"a forged hop":       {"10.0.0.1:4711", []string{"203.0.113.9, 192.0.2.7"}, trusted, "192.0.2.7"},
		"two proxies":        {"10.0.0.1:4711", []string{"203.0.113.9, 192.0.2.7", "10.0.0.2"}, trusted, "192.0.2.7"},
		"only proxies":       {"10.0.0.1:4711", []string{"10.0.0.3"}, trusted, "10.0.0.3"},
		"no address":         {"10.0.0.1:4711", []string{"192.0.2.7, unknown"}, trusted, "10.0.0.1"},
		"a proxy, no header": {"10.0.0.1:4711", nil, trusted, "10.0.0.1"},
		"a socket":           {"@", nil, trusted, "@"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/tokens", strings.NewReader(`{"type":"token","data":"x"}`))
			r.RemoteAddr, r.Header["X-Forwarded-For"] = tc.remote, tc.forwarded
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("SVC-API-KEY", v.PrivateKey)
			w := httptest.NewRecorder()
			httpserver.Handler(v.Vault, &httpserver.Options{TrustedProxies: tc.trusted}).ServeHTTP(w, r)
			must.Same(t, fmt.Sprint("status: ", w.Body), http.StatusCreated, w.Code)
			page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"})
			if err != nil || len(page.Data) != 1 {
				t.Fatalf("%v, %v", page, err)
			}
			must.Same(t, "origin", tc.want, page.Data[0].Origin)
		})
	}
}

// A route that refuses a caller before it reads the body leaves an entry too.
func TestDeniedRoutes(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{FullAudit: true})
	for range 2 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/logs", nil)
		r.Header.Set("SVC-API-KEY", v.PrivateKey)
		w := httptest.NewRecorder()
		httpserver.Handler(v.Vault, nil).ServeHTTP(w, r)
		must.Same(t, fmt.Sprint("status: ", w.Body), http.StatusForbidden, w.Code)
	}
	page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationDenied})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	if e := page.Data[0]; e.Message != "Denied: GET /logs (log:read)" || e.Origin != "192.0.2.1" || e.ActorID != v.Private.ApplicationID() {
		t.Errorf("the entry is %+v", e)
	}
}
