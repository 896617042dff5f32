package outgoing

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// tracker is a destination that tells on which connection a request came.
type tracker struct {
	mu     sync.Mutex
	conns  []string // addresses of connections
	answer func(w http.ResponseWriter, body string)
}

func (k *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body is kept as it is
	k.mu.Lock()
	defer k.mu.Unlock()
	n := slices.Index(k.conns, r.RemoteAddr)
	if n < 0 {
		n, k.conns = len(k.conns), append(k.conns, r.RemoteAddr)
	}
	w.Header().Set("X-Connection", fmt.Sprint(n))
	if k.answer != nil {
		k.answer(w, string(body))
	}
}

// send sends a text and returns the number of the connection and the response.
func (g *gate) send(t testing.TB, c *vault.Client, body string) (conn, response string) {
	t.Helper()
	answer := must.Get(c.InvokeProxy(t.Context(), vault.ProxyCall{URL: g.url, Method: "POST", Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader(body)}))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	return answer.Header.Get("X-Connection"), string(text)
}

// Bound requests of one session, or of one key, share a connection. No one else does,
// and requests that are not bound have their own.
func TestWhoSharesAConnection(t *testing.T) {
	t.Parallel()
	g := newGate(t, &tracker{})
	rules := []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{vault.PermissionTokenUse}, Destinations: []string{g.to}}}
	app := must.Get(g.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: rules}))(t)
	second := must.Get(g.Owner.CreateApplicationKey(t.Context(), app.ID, vault.ApplicationKeyParams{}))(t)
	other := must.Get(g.CreateTenant(t.Context(), "Other"))(t)
	owner := g.Tenant(other.ID)
	must.Get(owner.CreateToken(t.Context(), vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: password}))(t)
	foreign := must.Get(owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: rules}))(t)
	client := func(key string) *vault.Client { return must.Get(g.Authenticate(t.Context(), key))(t) }
	session := func() *vault.Client {
		s := must.Get(g.Public.CreateSession(t.Context()))(t)
		must.Do(t, client(app.Key).AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Rules: rules}))
		return client(s.SessionKey)
	}
	callers := map[string]*vault.Client{
		"the application": client(app.Key), "its second key": client(second.Key), "another application": client(g.pass),
		"another tenant": client(foreign.Key), "a session": session(), "another session": session(),
	}
	seen := map[string]string{}
	for range 3 {
		for name, c := range callers {
			conn, _ := g.send(t, c, "{{ secret }}")
			if who := seen[conn]; who != "" && who != name {
				t.Errorf("%s and %s share connection %s", who, name, conn)
			}
			seen[conn] = name
			conn, _ = g.send(t, c, "no token")
			if who := seen[conn]; who != "" && who != "requests without tokens" {
				t.Errorf("%s and requests without tokens share connection %s", who, conn)
			}
			seen[conn] = "requests without tokens"
		}
	}
	again := client(app.Key)
	g.shares(t, "the caller, authenticated again", callers["the application"], again, "{{ secret }}")
}

// shares sends a text as two callers until both use the same connection. They do not if
// the machine is so slow that the destination might have closed it.
func (g *gate) shares(t testing.TB, what string, a, b *vault.Client, body string) {
	t.Helper()
	for range 20 {
		first, _ := g.send(t, a, body)
		if second, _ := g.send(t, b, body); first == second {
			return
		}
	}
	t.Errorf("%s: no connection is shared", what)
}

// A destination may repeat the data of a request in the response to the next one on the
// connection, which does not use it. It does not get past the vault.
func TestEchoesOfEarlierRequests(t *testing.T) {
	t.Parallel()
	k := &tracker{}
	g := newGate(t, k)
	c := must.Get(g.Authenticate(t.Context(), g.pass))(t)
	var all []string
	k.answer = func(w http.ResponseWriter, body string) {
		all = append(all, body)
		w.Header().Set("X-Earlier", all[0])
		fmt.Fprint(w, strings.Join(all, " "))
	}
	conns := map[string]bool{}
	var want []string
	for i := range 60 {
		id := fmt.Sprint("token-", i)
		must.Get(g.Private.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: fmt.Sprintf("4242-%d-secret-%d", i*7919, i)}))(t)
		conn, got := g.send(t, c, "{{ "+id+" }}")
		if !conns[conn] { // a new connection has nothing to do with what was sent before
			conns[conn] = true
			all, want = all[len(all)-1:], nil
			continue
		}
		want = append(want, "{{ "+id+" }}")
		must.Same(t, "the response", true, strings.HasSuffix(got, strings.Join(want, " ")))
		must.Lack(t, "the response", got, "secret-")
	}
	if len(conns) == 60 {
		t.Errorf("each request took its own connection")
	}
	g.shares(t, "one token", c, c, "{{ secret }}")
	must.Get(g.Private.CreateToken(t.Context(), vault.TokenParams{ID: "large", Type: vault.TypeGeneric, Data: strings.Repeat("a large secret ", 10_000)}))(t)
	first, _ := g.send(t, c, "{{ large }}")
	next, _ := g.send(t, c, "{{ large }}")
	must.Same(t, "a large token is not remembered", false, first == next)
}
