package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Names and code that a page must show as text.
const (
	hostile = `<script>document.title='owned'</script>"'><img src=x onerror=alert(1)>`
	rightly = "\u202eabc\u2066\u200f end"
)

var wide = strings.Repeat("w", 200)

// Values that must never reach a browser. The cvc has its own check, because its
// digits may be part of another text.
const (
	secretCard   = "4000056655665556"
	secretCVC    = "8317"
	secretText   = "canary-generic-7c1f"
	secretConfig = "canary-configuration-91be"
	secretArg    = "canary-argument-55aa"
)

// record collects bytes.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// text returns the collected bytes, both as sent and with HTML entities decoded.
func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.buf.String()
	return sent + "\n" + html.UnescapeString(sent)
}

// alone matches the cvc where it is not part of an id, a number or a time, and not
// a length in HTTP.
var alone = regexp.MustCompile(`(?:^|[^0-9A-Za-z.-]|%[0-9A-Fa-f]{2})` + secretCVC + `(?:$|[^0-9A-Za-z.\r-])`)

// recordedListener records the bytes sent on all connections.
type recordedListener struct {
	net.Listener
	to *record
}

func (l *recordedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recordedConn{conn, l.to}, nil
}

type recordedConn struct {
	net.Conn
	to *record
}

func (c *recordedConn) Write(p []byte) (int, error) {
	_, _ = c.to.Write(p)
	return c.Conn.Write(p)
}

// consoleVault is a vault with at least one entity of each kind, and a console in front
// of it. Visitors sign in by naming a role.
type consoleVault struct {
	*vaulttest.Vault
	t        *testing.T
	rec      *console.Recorder
	server   *httptest.Server
	sent     *record
	secrets  []string
	app      *vault.Application
	reactor  *vault.Reactor
	proxy    *vault.Proxy
	session  uuid.UUID
	dead     uuid.UUID
	stop     chan struct{}
	receiver *httptest.Server
}

var errStranger = errors.New("no role")

// roleOf reads the role from a cookie.
func roleOf(r *http.Request) (console.User, error) {
	cookie, err := r.Cookie("role")
	if err != nil {
		return console.User{}, errStranger
	}
	role := map[string]console.Role{"viewer": console.Viewer, "operator": console.Operator, "owner": console.Owner}[cookie.Value]
	return console.User{ID: cookie.Value + "@example.com", Role: role}, nil
}

// newConsoleVault makes a vault whose reactors run in this process, which is faster than
// workers.
func newConsoleVault(t *testing.T) *consoleVault {
	t.Helper()
	return newConsoleVaultOn(t, jsruntime.NewInProcess(nil))
}

// trailed keeps evidence and has two log sinks, one of them broken.
func trailed(c *vault.Config) {
	c.Evidence = &vault.EvidenceConfig{Origin: "vault.example/log"}
	c.Sinks = []vault.Sink{{Name: "archive", Sender: vault.LogWriter(io.Discard), FromStart: true}, {Name: "siem", Sender: deaf{}, Format: vault.FormatOCSF, FromStart: true}}
}

func newConsoleVaultOn(t *testing.T, runtime script.Runtime, adjust ...func(*vault.Config)) *consoleVault {
	t.Helper()
	w := &consoleVault{t: t, rec: console.NewRecorder(), sent: &record{}, stop: make(chan struct{})}
	config := &vault.Config{Observer: w.rec, Runtime: runtime, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}}
	for _, a := range adjust {
		a(config)
	}
	w.Vault = vaulttest.Open(t, ":memory:", config)
	w.receiver = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(w.receiver.Close)
	w.fill()
	mux := http.NewServeMux()
	mux.Handle("/vault/console/", http.StripPrefix("/vault/console", console.Handler(w.Vault.Vault, &console.Options{
		Authorize: roleOf, Recorder: w.rec, Refresh: 100 * time.Millisecond, Stop: w.stop, SignOut: func(http.ResponseWriter, *http.Request) {},
	})))
	mux.HandleFunc("/login/{role}", func(rw http.ResponseWriter, r *http.Request) {
		http.SetCookie(rw, &http.Cookie{Name: "role", Value: r.PathValue("role"), Path: "/", HttpOnly: true})
		http.Redirect(rw, r, "/vault/console/", http.StatusSeeOther)
	})
	w.server = httptest.NewUnstartedServer(mux)
	w.server.Listener = &recordedListener{w.server.Listener, w.sent}
	w.server.Start()
	t.Cleanup(func() {
		close(w.stop)
		w.server.Close()
	})
	return w
}

// fill adds at least one entity of each kind to the vault.
func (w *consoleVault) fill() {
	t, ctx := w.t, w.t.Context()
	w.secrets = []string{secretCard, secretText, secretConfig, secretArg, w.PublicKey, w.PrivateKey, w.ManagementKey, must.Get(w.Owner.GetTenant(ctx))(t).WebhookSecret}
	w.name(hostile[:min(len(hostile), 180)])
	w.app = must.Get(w.Owner.CreateApplication(ctx, vault.ApplicationParams{
		Name: "\u200f" + hostile, Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:search"},
		Rules: []vault.AccessRule{
			{Priority: 1, Description: "<b>bold</b>", Container: "/pci/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read", "token:use"}},
			{Priority: 5, Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:read"}, Conditions: []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: "<i>"}}},
		},
	}))(t)
	w.secrets = append(w.secrets, w.app.Key)
	w.reactor = must.Get(w.Owner.CreateReactor(ctx, vault.ReactorParams{
		Name: "Charge " + hostile[:60], Configuration: map[string]string{"api_key": secretConfig}, ApplicationID: w.app.ID,
		Code: "// " + hostile + "\n// " + rightly + "\nmodule.exports = async function (req) {\n  console.log('amount', req.args.amount, req.configuration.api_key)\n  if (req.args.fail) {\n    throw new Error('declined: ' + '" + wide + "')\n  }\n  return {raw: {paid: req.args.amount, key: req.configuration.api_key, bt: req.bt}}\n}\n",
	}))(t)
	w.proxy = must.Get(w.Owner.CreateProxy(ctx, vault.ProxyParams{
		Name: "Gateway", DestinationURL: "https://example.com/pay?key=" + secretConfig, Configuration: map[string]string{"token": secretConfig},
		RequestTransform: &vault.ProxyTransform{Code: "module.exports = async req => ({body: req.args.body, headers: {}})"},
	}))(t)
	w.secrets = append(w.secrets, w.proxy.Key)
	w.killJob()
	w.fillTokens()
	w.session = w.newSession()
}

// fillTokens adds tokens, and passes them to the reactor. Nothing may advance the
// clock by an hour afterwards, because the cvc would be deleted and could not
// leak.
func (w *consoleVault) fillTokens() {
	w.t.Helper()
	t, ctx := w.t, w.t.Context()
	tokens := []vault.TokenParams{
		{ID: "order-1", Type: vault.TypeCard, Data: vault.CardData{Number: secretCard, ExpirationMonth: 12, ExpirationYear: 2031, CVC: secretCVC}, Metadata: map[string]string{"customer": "Jane Doe", hostile[:60]: rightly}},
		{ID: "order-2", Type: vault.TypeGeneric, Data: map[string]any{"secret": secretText}, Containers: []string{"/pii/high/", "/tests/"}},
		{ID: wide, Type: vault.TypeGeneric, Data: secretText + " with a tail", Metadata: map[string]string{"plan": wide}},
		{ID: "a " + rightly, Type: vault.TypeGeneric, Data: 12345},
	}
	for _, p := range tokens {
		must.Get(w.Owner.CreateToken(ctx, p))(t)
	}
	_, _ = w.Owner.React(ctx, w.reactor.ID, vault.ReactParams{Args: map[string]any{"fail": true, "card": secretArg}})
	must.Get(w.Owner.React(ctx, w.reactor.ID, vault.ReactParams{Args: map[string]any{"amount": 12, "card": "{{ order-1 }}"}}))(t)
	var card vault.CardData
	if err := json.Unmarshal(must.Get(w.Owner.GetToken(ctx, "order-1"))(t).Data, &card); err != nil || card.CVC != secretCVC {
		t.Fatalf("the stored cvc is missing: %v", err)
	}
}

// name names the tenant.
func (w *consoleVault) name(name string) {
	w.t.Helper()
	must.Get(w.Owner.PatchTenant(w.t.Context(), map[string]any{"name": name}))(w.t)
}

// newSession opens a session and returns its id.
func (w *consoleVault) newSession() uuid.UUID {
	w.t.Helper()
	ctx := w.t.Context()
	s := must.Get(w.Public.CreateSession(ctx))(w.t)
	w.secrets = append(w.secrets, s.SessionKey, s.Nonce)
	must.Do(w.t, w.Private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:read"}, ExpiresAt: w.Clock.Now().Add(24 * time.Hour)}))
	return must.Get(w.Owner.ListSessions(ctx, vault.PageParams{}))(w.t).Data[0].ID
}

// killJob makes a callback fail until its job is dead.
func (w *consoleVault) killJob() {
	w.t.Helper()
	ctx := w.t.Context()
	must.Get(w.Owner.ReactAsync(ctx, w.reactor.ID, vault.ReactParams{Args: map[string]any{"amount": 7}, CallbackURL: w.receiver.URL}))(w.t)
	for range 10 {
		must.Do(w.t, w.Work(ctx))
		w.Clock.Advance(2 * time.Hour)
	}
	w.dead = must.Get(w.Owner.ListJobs(ctx, vault.ListJobsParams{Dead: true}))(w.t)[0].ID
}

// checkSecrets fails when a secret has reached a browser.
func (w *consoleVault) checkSecrets() {
	w.t.Helper()
	sent := w.sent.text()
	for i, secret := range w.secrets {
		if secret == "" || strings.Contains(sent, secret) || strings.Contains(sent, url.QueryEscape(secret)) {
			w.t.Errorf("secret %d reached the browser, or is empty", i)
		}
	}
	if alone.MatchString(sent) {
		w.t.Error("the cvc reached the browser")
	}
	must.Contain(w.t, "no mask reached the browser, so the recorder does not work", sent, "XXXXXXXXXXXX5556")
}

// TestCVCIsFound sends the cvc in each form that a page could have, and its digits
// as part of other texts.
func TestCVCIsFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		secretCVC: true, `{"cvc":"` + secretCVC + `"}`: true, "&#34;cvc&#34;:&#34;" + secretCVC + "&#34;": true, "<dd>" + secretCVC + "</dd>": true,
		"?q=" + secretCVC + "&x": true, "cvc%3A%22" + secretCVC + "%22": true, "4000056655665556 " + secretCVC + "\n": true,
		"5f0c1d2e-1111-4222-" + secretCVC + "-123456789abc": false, "1" + secretCVC: false, secretCVC + "a": false, "10:00:00." + secretCVC: false,
		"\r\n" + secretCVC + "\r\n<!doctype": false,
	} {
		var r record
		_, _ = r.Write([]byte(text))
		must.Same(t, text, want, alone.MatchString(r.text()))
	}
}

func (w *consoleVault) console(path string) string { return w.server.URL + "/vault/console/" + path }

func (w *consoleVault) inTenant(path string) string {
	return w.console("tenants/" + w.Acme.ID.String() + "/" + path)
}

// pages returns the paths of all pages, by name.
func (w *consoleVault) pages() map[string]string {
	explain := url.Values{"holder": {"application " + w.app.ID.String()}, "permission": {"token:read"}, "token": {"order-1"}}
	return map[string]string{
		"overview": w.console(""), "day": w.console("?span=day"), "tenants": w.console("tenants"), "tenant": strings.TrimSuffix(w.inTenant(""), "/"),
		"applications": w.inTenant("applications"), "application": w.inTenant("applications/" + w.app.ID.String()),
		"explain": w.inTenant("explain?" + explain.Encode()), "tokens": w.inTenant("tokens"), "found": w.inTenant("tokens?q=" + url.QueryEscape(`metadata.customer:"jane doe"`)),
		"token": w.inTenant("tokens/order-1"), "long": w.inTenant("tokens/" + wide), "hostile": w.inTenant("tokens/" + url.PathEscape("a "+rightly)),
		"log": w.inTenant("log"), "code": w.inTenant("code"), "reactor": w.inTenant("reactors/" + w.reactor.ID.String()),
		"proxy": w.inTenant("proxies/" + w.proxy.ID.String()), "sessions": w.inTenant("sessions"), "system": w.console("system"),
		"evidence": w.console("evidence"), "sinks": w.console("sinks"),
		"found nothing": w.console("find?id=nothing"), "failed": w.inTenant("log?operation=react"),
		"missing": w.inTenant("tokens/no-such-token"),
	}
}

// visitor is an HTTP client with cookies.
type visitor struct {
	t      *testing.T
	w      *consoleVault
	client *http.Client
	token  string // of forms
}

// as signs in.
func (w *consoleVault) as(role string) *visitor {
	w.t.Helper()
	jar, _ := cookiejar.New(nil)
	v := &visitor{t: w.t, w: w, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	v.get(w.server.URL + "/login/" + role)
	_, body := v.get(w.console("tenants/" + w.Acme.ID.String()))
	_, rest, _ := strings.Cut(body, `name="form" value="`)
	v.token, _, _ = strings.Cut(rest, `"`)
	return v
}

func (v *visitor) do(req *http.Request) (int, string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	res := must.Get(v.client.Do(req.WithContext(ctx)))(v.t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(v.t)
	return res.StatusCode, string(body) + res.Header.Get("Location")
}

func (v *visitor) get(address string) (int, string) {
	v.t.Helper()
	return v.do(must.Get(http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, nil))(v.t))
}

// post sends a form like a page of the console.
func (v *visitor) post(address string, form url.Values) (int, string) {
	v.t.Helper()
	return v.send(address, form, map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": v.w.server.URL})
}

func (v *visitor) send(address string, form url.Values, header map[string]string) (int, string) {
	v.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("form") {
		form.Set("form", v.token)
	}
	req := must.Get(http.NewRequestWithContext(v.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode())))(v.t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return v.do(req)
}
