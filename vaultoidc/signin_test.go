package vaultoidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// people is a provider where one person is signed in.
type people struct {
	*provider
	asked   url.Values     // the parameters of the last redirect
	form    url.Values     // of the last exchange of a code
	basic   string         // its name and secret
	changes map[string]any // of the ID token
	key     any
	methods []string
}

func newPeople(t *testing.T) *people {
	t.Helper()
	p := &people{provider: newProvider(t, public("a", rsaKey())), key: rsaKey()}
	p.respond = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": p.url, "jwks_uri": p.url + "/keys", "authorization_endpoint": p.url + "/auth?tenant=1", "token_endpoint": p.url + "/token",
				"token_endpoint_auth_methods_supported": p.methods,
			})
		case "/token":
			_ = r.ParseForm()
			name, secret, _ := r.BasicAuth()
			p.form, p.basic = r.PostForm, name+":"+secret
			claims := map[string]any{"aud": "vault", "nonce": p.asked.Get("nonce"), "email": "ann@example.com", "email_verified": true, "groups": []string{"staff", "admins"}}
			for name, value := range p.changes {
				claims[name] = value
			}
			token := signed(t, jose.RS256, p.key, map[string]any{"kid": "a"}, p.claims(claims))
			_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": token})
		default:
			p.usual(w, r, p.keys)
		}
	}
	return p
}

// site is a console behind a sign-in.
type site struct {
	t      *testing.T
	p      *people
	signIn *SignIn
	*httptest.Server
	base string
}

// usualRoles are the roles of tests.
var usualRoles = []RoleRule{{"groups", "owners", console.Owner}, {"groups", "admins", console.Operator}, {"email", "ann@example.com", console.Viewer}}

func newSite(t *testing.T, p *people, change func(*SignInConfig)) *site {
	t.Helper()
	s := &site{t: t, p: p}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/console", s.signIn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, err := s.signIn.Authorize(r)
			if err != nil {
				http.Error(w, "not signed in", http.StatusForbidden)
				return
			}
			if r.Method == http.MethodPost && r.URL.Path == "/signout" {
				s.signIn.SignOut(w, r)
				return
			}
			_, _ = io.WriteString(w, r.URL.RequestURI()+" as "+user.ID+", "+user.Role.String())
		}))).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.base = s.URL + "/console"
	config := SignInConfig{Issuer: p.url, CAFile: p.ca, ClientID: "vault", URL: s.base + "/", Roles: usualRoles}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.signIn = must.Get(NewSignIn(ctx, config))(t)
	s.signIn.verifier.now = p.clock.time
	t.Cleanup(func() {
		cancel()
		s.signIn.verifier.settle()
	})
	return s
}

// browser follows no redirect, and keeps cookies.
func (s *site) browser() *http.Client {
	jar := must.Get(cookiejar.New(nil))(s.t)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// open opens a page as a browser does.
func (s *site) open(b *http.Client, address string, header ...string) (*http.Response, string) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodGet, address, nil))(s.t)
	req.Header.Set("Accept", "text/html,*/*")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	resp := must.Get(b.Do(req))(s.t)
	defer resp.Body.Close()
	return resp, string(must.Get(io.ReadAll(resp.Body))(s.t))
}

// begin opens a page and returns the address that the provider leads back to.
func (s *site) begin(b *http.Client, page string) string {
	s.t.Helper()
	resp, body := s.open(b, s.base+page)
	to := must.Get(url.Parse(resp.Header.Get("Location")))(s.t)
	if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.String(), s.p.url+"/auth?") {
		s.t.Fatalf("%s: %d to %q: %s", page, resp.StatusCode, to, body)
	}
	s.p.asked = to.Query()
	return s.p.asked.Get("redirect_uri") + "?code=abc&state=" + s.p.asked.Get("state")
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)

// enter signs in and opens the page.
func (s *site) enter(b *http.Client, page string) string {
	s.t.Helper()
	resp, body := s.open(b, s.begin(b, page))
	to := refresh.FindStringSubmatch(body)
	if resp.StatusCode != http.StatusOK || to == nil {
		s.t.Fatalf("the callback: %d %s", resp.StatusCode, body)
	}
	resp, body = s.open(b, strings.ReplaceAll(to[1], "&amp;", "&"))
	must.Same(s.t, "status of the page", http.StatusOK, resp.StatusCode)
	return body
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	b := s.browser()
	must.Same(t, "the page", "/tenants/a%2Fb?page=2&x=1 as ann@example.com, operator", s.enter(b, "/tenants/a%2Fb?page=2&x=1"))
	challenge := sha256.Sum256([]byte(p.form.Get("code_verifier")))
	want := url.Values{
		"tenant": {"1"}, "response_type": {"code"}, "scope": {"openid profile email"}, "client_id": {"vault"}, "redirect_uri": {s.base + "/oidc/callback"},
		"state": {p.asked.Get("state")}, "nonce": {p.asked.Get("nonce")}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
	}
	must.Same(t, "the redirect", want, p.asked)
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {"abc"}, "redirect_uri": {s.base + "/oidc/callback"}, "client_id": {"vault"},
		"code_verifier": {p.form.Get("code_verifier")},
	}
	must.Same(t, "the exchange", form, p.form)

	p.clock.advance(time.Hour - time.Second)
	_, body := s.open(b, s.base+"/")
	must.Contain(t, "before the hour ends", body, "ann@example.com")
	p.clock.advance(documentPause)
	resp, _ := s.open(b, s.base+"/events", "Accept", "text/event-stream", "Sec-Fetch-Mode", "cors")
	must.Same(t, "the stream of an open page after an hour", http.StatusForbidden, resp.StatusCode)
	must.Contain(t, "renewed without a question", s.enter(b, "/log"), "/log as ann@example.com")
	must.Same(t, "prompt", "", p.asked.Get("prompt"))
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	b := s.browser()
	s.enter(b, "/")
	stolen := must.Get(url.Parse(s.base))(t)
	cookies := b.Jar.Cookies(stolen)
	must.Do(t, must.Get(b.Post(s.base+"/signout", "", nil))(t).Body.Close())
	for range 2 {
		resp, body := s.open(b, s.base+"/log")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "You have signed out") || !strings.Contains(body, s.base+"/oidc/sign-in") {
			t.Fatalf("after signing out: %d %s", resp.StatusCode, body)
		}
	}
	thief := s.browser()
	thief.Jar.SetCookies(stolen, cookies)
	resp, _ := s.open(thief, s.base+"/log")
	must.Same(t, "the cookie of the session after signing out", http.StatusSeeOther, resp.StatusCode)
	must.Contain(t, "signed in again", s.enter(b, "/oidc/sign-in"), "/ as ann@example.com")
	must.Same(t, "the provider asks for the password", "login", p.asked.Get("prompt"))
	_, body := s.open(b, s.base+"/log")
	must.Contain(t, "after signing in again", body, "ann@example.com")
}

// TestSignInIsRefused has the ways to sign in as another person, or without a role.
func TestSignInIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes map[string]any
		key     any
		back    func(address string) string
		status  int
		want    string
	}{
		"another state":           {back: func(a string) string { return a + "x" }, want: "has not begun to sign in"},
		"no state":                {back: func(a string) string { return strings.Split(a, "&")[0] }, want: "has not begun to sign in"},
		"no code":                 {back: func(a string) string { return strings.Replace(a, "code=abc", "code=", 1) }, want: "has sent no code"},
		"an error":                {back: func(a string) string { return a + "&error=access_denied&error_description=<script>" }, want: "the provider has refused"},
		"another provider":        {back: func(a string) string { return a + "&iss=https://evil.example" }, want: "another provider"},
		"another nonce":           {changes: map[string]any{"nonce": "x"}, want: "made for another sign-in"},
		"no nonce":                {changes: map[string]any{"nonce": nil}, want: "made for another sign-in"},
		"another audience":        {changes: map[string]any{"aud": "shop"}, want: "made for another sign-in"},
		"another party":           {changes: map[string]any{"azp": "shop"}, want: "made for another sign-in"},
		"two audiences":           {changes: map[string]any{"aud": []string{"vault", "shop"}}, want: "made for another sign-in"},
		"another issuer":          {changes: map[string]any{"iss": "https://evil.example"}, want: "not valid"},
		"another key":             {key: otherRSA(), want: "not valid"},
		"expired":                 {changes: map[string]any{"iat": 1, "exp": 2}, want: "not valid"},
		"no role":                 {changes: map[string]any{"groups": "staff", "email": "bob@example.com"}, want: "have no role"},
		"an e-mail not verified":  {changes: map[string]any{"groups": nil, "email_verified": false}, want: "have no role"},
		"verified as a text":      {changes: map[string]any{"groups": nil, "email_verified": "true"}, want: "have no role"},
		"nothing verified":        {changes: map[string]any{"groups": nil, "email_verified": nil}, want: "have no role"},
		"a group in a text":       {changes: map[string]any{"groups": "admins staff", "email": nil}, want: "have no role"},
		"a group in capitals":     {changes: map[string]any{"groups": []string{"Admins"}, "email": nil}, want: "have no role"},
		"no subject":              {changes: map[string]any{"sub": nil, "email": nil}, want: "have no role"},
		"a subject with controls": {changes: map[string]any{"sub": "a\nb", "email": nil}, want: "have no role"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t)
			s := newSite(t, p, nil)
			if p.changes = c.changes; c.key != nil {
				p.key = c.key
			}
			b := s.browser()
			back := s.begin(b, "/")
			if c.back != nil {
				back = c.back(back)
			}
			resp, body := s.open(b, back)
			must.Same(t, "status", http.StatusForbidden, resp.StatusCode)
			must.Contain(t, "the page", body, c.want)
			must.Lack(t, "the page", body, "script")
			must.Lack(t, "the page", body, "refresh")
			if resp, _ = s.open(b, s.base+"/"); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("then the console responds with %d", resp.StatusCode)
			}
		})
	}
}

// An attempt belongs to one browser, is used once, and lasts ten minutes.
func TestAttempt(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	mine, other := s.browser(), s.browser()
	back := s.begin(mine, "/")
	resp, _ := s.open(other, back)
	must.Same(t, "another browser", http.StatusForbidden, resp.StatusCode)
	s.begin(other, "/")
	resp, _ = s.open(other, back)
	must.Same(t, "another browser that signs in too", http.StatusForbidden, resp.StatusCode)

	first, nonce := s.begin(mine, "/log"), p.asked
	s.begin(mine, "/") // another tab
	p.asked = nonce
	resp, _ = s.open(mine, first)
	must.Same(t, "the first tab", http.StatusOK, resp.StatusCode)
	resp, _ = s.open(mine, first)
	must.Same(t, "used again", http.StatusForbidden, resp.StatusCode)

	late := s.begin(s.browser(), "/")
	p.clock.advance(10 * time.Minute)
	resp, _ = s.open(other, late)
	must.Same(t, "after ten minutes", http.StatusForbidden, resp.StatusCode)
}

// However many sign-ins of strangers end at the provider, they take no memory, and push
// out no sign-in of others.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	mine := s.browser()
	early := s.begin(mine, "/")
	first := p.asked
	h := s.signIn.Handler(http.NotFoundHandler())
	for range 10_001 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", "text/html")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	p.asked = first
	resp, _ := s.open(mine, early)
	must.Same(t, "an attempt before a flood", http.StatusOK, resp.StatusCode)
	s.enter(s.browser(), "/")
	must.Same(t, "attempts in memory", 2, len(s.signIn.used))
	p.clock.advance(attemptLife)
	s.enter(s.browser(), "/")
	must.Same(t, "attempts in memory after ten minutes", 1, len(s.signIn.used))
	s.enter(s.browser(), "/")
	for n := range maxSessions + 1 {
		s.signIn.keep(rand32(), session{ends: p.clock.time().Add(time.Duration(n+1) * time.Second)})
		if n == 100 {
			p.clock.advance(50 * time.Second) // some are over
		}
	}
	if n := len(s.signIn.sessions); n > maxSessions {
		t.Errorf("%d sessions", n)
	}
}

func rand32() string { return rand.Text() }

// A secret is sent as the provider requires.
func TestSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("a:b c\n"), 0o600))
	for method, want := range map[string][2]string{
		"":                    {"", "vault:a%3Ab+c"},
		"client_secret_basic": {"", "vault:a%3Ab+c"},
		"client_secret_post":  {"a:b c", ":"},
	} {
		p := newPeople(t)
		if method != "" {
			p.methods = []string{method}
		}
		s := newSite(t, p, func(c *SignInConfig) { c.SecretFile = file })
		s.enter(s.browser(), "/")
		must.Same(t, method, want, [2]string{p.form.Get("client_secret"), p.basic})
	}
}

// A provider that is down does not keep out people who have signed in, and does not
// keep the server from starting.
func TestProviderIsDown(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	b := s.browser()
	usual := p.respond
	p.set(func() {
		p.respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	resp, body := s.open(b, s.base+"/")
	must.Same(t, "status", http.StatusServiceUnavailable, resp.StatusCode)
	must.Contain(t, "the page", body, "the provider does not respond")
	p.set(func() { p.respond = usual })
	p.clock.advance(documentPause)
	s.enter(b, "/")
	p.set(func() {
		p.respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	_, body = s.open(b, s.base+"/log")
	must.Contain(t, "the session", body, "ann@example.com")
}

// However many pages strangers open, a provider that is down gets one request a second.
func TestStrangersFloodNoProvider(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, nil)
	p.set(func() {
		p.respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	flood := func() {
		var pages sync.WaitGroup
		for range 30 {
			pages.Go(func() {
				resp, _ := s.open(s.browser(), s.base+"/")
				must.Same(t, "status", http.StatusServiceUnavailable, resp.StatusCode)
			})
		}
		pages.Wait()
	}
	flood()
	flood()
	must.Same(t, "requests", 1, p.count())
	p.clock.advance(documentPause)
	flood()
	must.Same(t, "requests after a second", 2, p.count())
}

// Over TLS the cookies have the prefix __Host-. The cookie of a session is strict.
func TestCookies(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := newSite(t, p, func(c *SignInConfig) { c.URL = "https://console.example.com" })
	w := httptest.NewRecorder()
	s.signIn.setCookie(w, sessionCookie, "x", 3600, http.SameSiteStrictMode)
	must.Same(t, "a cookie", "__Host-vault-console-person=x; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=Strict", w.Header().Get("Set-Cookie"))
	resp, _ := s.open(s.browser(), s.base+"/log")
	cookie := resp.Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-vault-console-oidc=") || !strings.HasSuffix(cookie, "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("the cookie of an attempt: %s", cookie)
	}
	must.Contain(t, "the redirect", resp.Header.Get("Location"), url.QueryEscape("https://console.example.com/oidc/callback"))
}

func TestNewSignInRefuses(t *testing.T) {
	t.Parallel()
	good := SignInConfig{Issuer: "https://id.example.com", ClientID: "vault", URL: "https://console.example.com/", Roles: usualRoles}
	for want, change := range map[string]func(*SignInConfig){
		"must be an https URL":              func(c *SignInConfig) { c.Issuer = "http://id.example.com" },
		"the URL of the console":            func(c *SignInConfig) { c.URL = "console.example.com" },
		"needs the ClientID":                func(c *SignInConfig) { c.ClientID = "" },
		"needs at least one role":           func(c *SignInConfig) { c.Roles = nil },
		"a role needs a claim":              func(c *SignInConfig) { c.Roles = []RoleRule{{"groups", "", console.Owner}} },
		"a role needs a claim and":          func(c *SignInConfig) { c.Roles = []RoleRule{{"groups", "a", 0}} },
		"the secret of the console":         func(c *SignInConfig) { c.SecretFile = filepath.Join(t.TempDir(), "none") },
		"the issuer https://id.example.com": func(c *SignInConfig) { c.CAFile = filepath.Join(t.TempDir(), "none") },
	} {
		config := good
		change(&config)
		must.Match(t, want, must.Err(NewSignIn(t.Context(), config)), must.Text(want))
	}
	must.Match(t, "a good one", must.Err(NewSignIn(t.Context(), good)), nil)
}
