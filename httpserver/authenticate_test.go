package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// signedIn authenticates users of the program by a bearer token, with the
// rights of an application.
func signedIn(v *vaulttest.Vault) func(*http.Request) (*vault.Client, error) {
	return func(r *http.Request) (*vault.Client, error) {
		subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !ok:
			return nil, nil
		case subject == "expired":
			return nil, fmt.Errorf("the token 42424242 is old: %w", vault.ErrUnauthenticated)
		case subject == "broken":
			return nil, errors.New("the provider is down: 42424242")
		case subject == "homeless":
			return v.Vault.Tenant(v.Acme.ID).As(r.Context(), uuid.New())
		}
		r.Header.Del("Authorization")
		return v.Vault.Tenant(v.Acme.ID).AsUser(subject).As(r.Context(), v.Private.ApplicationID())
	}
}

// A user of the program can call the API next to holders of keys. It has the
// rights of the application it acts as, and the log has its own name.
func TestAuthenticate(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := restVaultOf(t, v, &Options{Authenticate: signedIn(v), Origins: []string{"https://shop.example"}})
	for _, c := range map[string]struct {
		bearer, key string
		status      int
	}{
		"a user":               {"Bearer jane", "", 201},
		"a user with a key":    {"Bearer jane", w.PublicKey, 201},
		"a key":                {"", w.PrivateKey, 201},
		"another scheme":       {"Basic x", w.PrivateKey, 201},
		"neither":              {"", "", 401},
		"a user that is out":   {"Bearer expired", w.PrivateKey, 401},
		"a provider that ails": {"Bearer broken", w.PrivateKey, 500},
		"no such application":  {"Bearer homeless", w.PrivateKey, 401},
	} {
		headers := []string{}
		if c.bearer != "" {
			headers = append(headers, "Authorization", c.bearer)
		}
		w.do("POST", "/tokens", c.key, `{"type":"token","data":"x"}`, headers...).want(t, c.status).lacks(t, "42424242")
	}
	page := must.Get(v.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"}))(t)
	janes := 0
	for _, e := range page.Data {
		if e.ActorName == "jane" && e.ActorType == vault.ActorUser && e.ActorID == uuid.NewSHA1(v.Acme.ID, []byte("jane")) {
			janes++
		}
	}
	same(t, "janes", janes, 2)
	w.do("GET", "/logs", "", "", "Authorization", "Bearer jane").want(t, 403)
	res := w.do("OPTIONS", "/tokens", "", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST")
	must.Contain(t, "pages may send", res.Header.Get("Access-Control-Allow-Headers"), "Authorization")
}

// Idempotency keys of two users are separate, and proxies accept users too.
func TestAuthenticatedUsersAreSeparate(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := restVaultOf(t, v, &Options{Authenticate: signedIn(v)})
	var ids []string
	for _, user := range []string{"jane", "john", "jane"} {
		res := w.do("POST", "/tokens", "", `{"type":"token","data":"x"}`, "Authorization", "Bearer "+user, "SVC-IDEMPOTENCY-KEY", "k").want(t, 201)
		ids = append(ids, res.Header.Get("Location"))
	}
	if ids[0] == ids[1] || ids[0] != ids[2] {
		t.Errorf("the three requests created %q", ids)
	}
	for bearer, status := range map[string]int{"Bearer jane": 404, "Bearer expired": 401, "Bearer broken": 500} {
		w.do("GET", "/proxy", "", "", "Authorization", bearer, "SVC-PROXY-KEY", "nope").want(t, status)
	}
}

// The header that identifies a user of the program does not reach
// destinations.
func TestAuthenticateHidesCredentialsFromDestinations(t *testing.T) {
	t.Parallel()
	var w *proxyVault
	w = newProxyVault(t, nil, &Options{Authenticate: func(r *http.Request) (*vault.Client, error) { return signedIn(w.Vault)(r) }}, nil)
	x := w.proxy(nil)
	for bearer, want := range map[string]string{"Bearer jane": "", "Basic the-destination's": "Basic the-destination's"} {
		r := w.request("POST", "/proxy", "{}", "SVC-PROXY-KEY", x.Key, "Authorization", bearer, "SVC-API-KEY", w.PrivateKey)
		w.call(r).want(t, 200)
		same(t, "the destination of "+bearer, w.dest.last(t).Header.Get("Authorization"), want)
	}
}

// signedInByCookie authenticates users of the program by a session cookie. They may
// do everything.
func signedInByCookie(v *vaulttest.Vault) func(*http.Request) (*vault.Client, error) {
	return func(r *http.Request) (*vault.Client, error) {
		if len(r.CookiesNamed("session")) == 0 {
			return nil, nil
		}
		return v.Vault.Tenant(v.Acme.ID).AsUser("jane").Client, nil
	}
}

// Other sites cannot change anything, or use a proxy, with the cookies of a user. The
// test covers every route of the table.
func TestOtherSitesCannotActForAUser(t *testing.T) {
	t.Parallel()
	const here, shop, evil = "https://vault.example", "https://shop.example", "https://evil.example"
	v := vaulttest.New(t)
	open := http.NewCrossOriginProtection()
	open.AddInsecureBypassPattern("/")
	handlers := map[string]http.Handler{
		"as it is":     Handler(v.Vault, &Options{Authenticate: signedInByCookie(v)}),
		"with origins": Handler(v.Vault, &Options{Authenticate: signedInByCookie(v), Origins: []string{shop}}),
		"with any":     Handler(v.Vault, &Options{Authenticate: signedInByCookie(v), Origins: []string{"*"}}),
		"switched off": Handler(v.Vault, &Options{Authenticate: signedInByCookie(v), CrossOrigin: open}),
	}
	const refused = "A page of another origin may not act for a user."
	senders := []struct {
		site, origin string
		refusedBy    []string
	}{
		{"cross-site", evil, []string{"as it is", "with origins", "with any"}},
		{"cross-site", "null", []string{"as it is", "with origins", "with any"}},
		{"cross-site", "", []string{"as it is", "with origins", "with any"}},
		{"same-site", "https://other.vault.example", []string{"as it is", "with origins", "with any"}},
		{"", evil, []string{"as it is", "with origins", "with any"}},
		{"", "null", []string{"as it is", "with origins", "with any"}},
		{"cross-site", shop, []string{"as it is", "with any"}},
		{"same-origin", here, nil},
		{"same-origin", "", nil},
		{"", here, nil},
		{"none", "", nil},
		{"", "", nil}, // not a browser
	}
	routes := append(Handler(v.Vault, nil).(*handler).table(),
		route{method: "GET", path: "/proxy"}, route{method: "HEAD", path: "/proxy/a"}, route{method: "POST", path: "/proxy/a"}, route{method: "QUERY", path: "/proxy"})
	for name, h := range handlers {
		for _, rt := range routes {
			for _, s := range senders {
				for _, key := range []string{"", v.PrivateKey} {
					r := httptest.NewRequest(rt.method, here+strings.ReplaceAll(rt.path, "{id}", uuid.NewString()), strings.NewReader("?"))
					r.Header.Set("Content-Type", "text/plain")
					header := map[string]string{"Sec-Fetch-Site": s.site, "Origin": s.origin, "SVC-API-KEY": key, "Cookie": "session=1"}
					if key != "" {
						delete(header, "Cookie")
					}
					for name, value := range header {
						if value != "" {
							r.Header.Set(name, value)
						}
					}
					if rt.waits {
						continue // it waits for an entry
					}
					res := httptest.NewRecorder()
					h.ServeHTTP(res, r)
					unsafe := rt.method != http.MethodGet || strings.HasPrefix(rt.path, "/proxy")
					want := key == "" && !rt.open && unsafe && slices.Contains(s.refusedBy, name)
					if got := res.Code == http.StatusForbidden && strings.Contains(res.Body.String(), refused); got != want && rt.method != http.MethodHead {
						t.Errorf("%s: %s %s from %q %q with key %q: %d %s", name, rt.method, rt.path, s.site, s.origin, key, res.Code, res.Body)
					}
				}
			}
		}
	}
}

// The example is the attack that a form of another site would make.
func TestAFormOfAnotherSiteErasesNothing(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := restVaultOf(t, v, &Options{Authenticate: signedInByCookie(v)})
	w.create(`{"id":"kept","type":"token","data":"x"}`)
	erase := func(site string) *response {
		return w.do("POST", "/tokens/erase", "", `{"ids":["kept"],"reason":"="}`, "Content-Type", "text/plain", "Cookie", "session=1", "Sec-Fetch-Site", site)
	}
	erase("cross-site").want(t, 403)
	w.do("GET", "/tokens/kept", w.PrivateKey, "").want(t, 200)
	erase("same-origin").want(t, 200)
	w.do("GET", "/tokens/kept", w.PrivateKey, "").want(t, 404)
}

// countingStore counts the keys that are looked up.
type countingStore struct {
	storage.Storage
	lookups atomic.Int32
}

func (s *countingStore) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	s.lookups.Add(1)
	return s.Storage.Lookup(ctx, key)
}

// A request resolves its key once, whatever it does.
func TestOneLookupPerRequest(t *testing.T) {
	t.Parallel()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	counting := &countingStore{Storage: store}
	w := restVaultOf(t, vaulttest.OpenStorage(t, counting, nil), nil)
	for name, c := range map[string]struct{ method, path, body string }{
		"create":   {http.MethodPost, "/tokens", `{"type":"token","data":"x"}`},
		"tokenize": {http.MethodPost, "/tokenize", `{"a":"x","b":"y"}`},
		"list":     {http.MethodGet, "/tokens", ""},
		"search":   {http.MethodPost, "/tokens/search", `{"query":"type:token"}`},
	} {
		app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{
			Name: name, Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate)}))(t)
		counting.lookups.Store(0)
		began := time.Now()
		answer := w.do(c.method, c.path, app.Key, c.body, "SVC-IDEMPOTENCY-KEY", name)
		again := time.Since(began) >= core.MaxAge // then the rights are read again
		if n := counting.lookups.Load(); n != 1 && !again || answer.StatusCode >= http.StatusBadRequest {
			t.Errorf("%s: status %d, %d look-ups", name, answer.StatusCode, n)
		}
	}
}
