package httpserver

import (
	"net/netip"
	"testing"

	"github.com/seed-72ea4aab/vault"
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
			w := newRestVault(t, &Options{TrustedProxies: tc.trusted})
			r := request(t, "/tokens", w.PrivateKey, `{"type":"token","data":"x"}`)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = tc.remote, tc.forwarded
			w.send(r).want(t, 201)
			page := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"}))(t)
			if len(page.Data) != 1 || page.Data[0].Origin != tc.want {
				t.Errorf("%+v, want the origin %s", page.Data, tc.want)
			}
		})
	}
}

// A route that refuses a caller before it reads the body leaves an entry too.
func TestDeniedRoutes(t *testing.T) {
	t.Parallel()
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{FullAudit: true}), nil)
	for range 2 {
		w.do("GET", "/logs", w.PrivateKey, "").want(t, 403)
	}
	page := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationDenied}))(t)
	var got []any
	for _, e := range page.Data {
		got = append(got, e.Message, e.Origin, e.ActorID)
	}
	same(t, "entries", got, []any{"Denied: GET /logs (log:read)", "192.0.2.1", w.Private.ApplicationID()})
}
