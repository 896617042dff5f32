package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// linked is a console behind a link.
type linked struct {
	t     *testing.T
	link  *console.Link
	h     http.Handler
	clock *vaulttest.Clock
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	v := vaulttest.New(t)
	l := &linked{t: t, link: console.NewLink(console.User{ID: "admin", Role: console.Owner}), clock: v.Clock}
	l.link.SetClock(v.Clock.Now)
	l.h = l.link.Handler(console.Handler(v.Vault, &console.Options{Authorize: l.link.Authorize, SignOut: l.link.SignOut}))
	return l
}

// get sends a request with cookies.
func (l *linked) get(address string, cookies []*http.Cookie, header ...string) *http.Response {
	l.t.Helper()
	r := httptest.NewRequest(http.MethodGet, address, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	l.h.ServeHTTP(w, r)
	return w.Result()
}

// page opens a page of the session, and returns the status code.
func (l *linked) page(link string, cookies []*http.Cookie) int {
	l.t.Helper()
	address, _, _ := strings.Cut(link, "?")
	return l.get(address, cookies).StatusCode
}

const plainBase, tlsBase = "http://127.0.0.1:8081/", "https://console.example/"

// TestLinkWorksOnce opens a link twice.
func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	link := l.link.URL(plainBase)
	must.Same(t, "before", http.StatusForbidden, l.page(link, nil))
	wrong, _, _ := strings.Cut(link, "=")
	must.Same(t, "a wrong link signs in", 0, len(l.get(wrong+"=WRONG", nil).Cookies()))
	res := l.get(link, nil)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "./" || len(res.Cookies()) != 1 {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	must.Same(t, "after", http.StatusOK, l.page(link, res.Cookies()))
	for _, again := range []string{link, wrong + "="} {
		must.Same(t, "the link works twice", 0, len(l.get(again, nil).Cookies()))
	}
	if status := l.page(link, []*http.Cookie{{Name: res.Cookies()[0].Name, Value: "x"}}); status != http.StatusForbidden {
		t.Errorf("with another cookie: %d", status)
	}
}

// TestSignOut ends the session of a link, and of no other browser.
func TestSignOut(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	l.link.Accept = func(token string) (console.User, bool) {
		return console.User{ID: "jane", Role: console.Viewer}, token == "JANE"
	}
	link := l.link.URL(plainBase)
	admin, page := l.get(link, nil).Cookies(), strings.Split(link, "?")[0]
	jane := l.get(page+"?link=JANE", nil).Cookies()
	res := l.get(page, admin)
	body, _ := io.ReadAll(res.Body)
	form := regexp.MustCompile(`action="./signout"><input type="hidden" name="form" value="(\w+)"`).FindStringSubmatch(string(body))
	if form == nil {
		t.Fatalf("no button: %s", body)
	}
	leave := func(token string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, page+"signout", strings.NewReader(url.Values{"form": {token}}.Encode()))
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
		for _, c := range append(res.Cookies(), admin...) {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		l.h.ServeHTTP(w, r)
		return w.Result()
	}
	if status := leave("wrong").StatusCode; status != http.StatusForbidden || l.page(link, admin) != http.StatusOK {
		t.Errorf("a page of another site signs out: %d", status)
	}
	if left := leave(form[1]); left.StatusCode != http.StatusSeeOther || len(left.Cookies()) != 1 || left.Cookies()[0].MaxAge >= 0 {
		t.Errorf("%d %v", left.StatusCode, left.Header)
	}
	must.Same(t, "after signing out", http.StatusForbidden, l.page(link, admin))
	must.Same(t, "another session", http.StatusOK, l.page(link, jane))
	if _, ok := l.link.Renew(plainBase); !ok {
		t.Error("there is no new link")
	}
}

// TestSessionCookieAttributes checks the cookie over TLS, behind a proxy that
// terminates TLS, and without TLS.
func TestSessionCookieAttributes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base, sentTo string // the link begins with base, and the request arrives at sentTo
		proxy        bool
		want         *http.Cookie // nil if the link must not be opened
	}{
		"over TLS":                             {tlsBase, tlsBase, false, &http.Cookie{Name: "__Host-vault-console-session", Path: "/", Secure: true}},
		"behind a TLS proxy":                   {tlsBase, "http://console.example/", true, &http.Cookie{Name: "__Host-vault-console-session", Path: "/", Secure: true}},
		"behind a proxy that was not declared": {tlsBase, "http://console.example/", false, nil},
		"without TLS":                          {plainBase, plainBase, false, &http.Cookie{Name: "vault-console-session"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLinked(t)
			l.link.TLSProxy = c.proxy
			sent := strings.Replace(l.link.URL(c.base), c.base, c.sentTo, 1)
			cookies := l.get(sent, nil).Cookies()
			if c.want == nil {
				must.Same(t, "the link gives", 0, len(cookies))
				return
			}
			if len(cookies) != 1 {
				t.Fatalf("%d cookies", len(cookies))
			}
			c.want.HttpOnly, c.want.SameSite, c.want.MaxAge = true, http.SameSiteStrictMode, 12*60*60
			got := *cookies[0]
			got.Value, got.Raw = "", ""
			must.Same(t, "cookie", *c.want, got, cmp.AllowUnexported(http.Cookie{}))
			must.Same(t, "a page", http.StatusOK, l.page(sent, cookies))
		})
	}
}

// TestFormsOverTLS checks that the form cookie is restricted to TLS where the
// browser uses TLS.
func TestFormsOverTLS(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	owner := func(*http.Request) (console.User, error) { return console.User{ID: "x", Role: console.Owner}, nil }
	for name, c := range map[string]struct {
		address, cookie string
		proxy           bool
	}{
		"over TLS":           {tlsBase, "__Host-vault-console-form", false},
		"behind a TLS proxy": {plainBase, "__Host-vault-console-form", true},
		"without TLS":        {plainBase, "vault-console-form", false},
	} {
		w := httptest.NewRecorder()
		console.Handler(v.Vault, &console.Options{Authorize: owner, TLSProxy: c.proxy}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.address, nil))
		got := w.Result().Cookies()
		if len(got) != 1 || got[0].Name != c.cookie || got[0].Secure != strings.HasPrefix(c.cookie, "__Host-") || got[0].SameSite != http.SameSiteStrictMode {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSessionExpires checks that a session lasts at most 12 hours, and at most 30
// minutes without a request. A new link is available only after that.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	stream := []string{"Accept", "text/event-stream"}
	for name, c := range map[string]struct {
		every  time.Duration // between requests
		times  int
		header []string // of those requests
		then   time.Duration
		ends   bool
	}{
		"just before it is idle":    {0, 0, nil, 30*time.Minute - time.Second, false},
		"idle":                      {0, 0, nil, 30 * time.Minute, true},
		"in use, before its age":    {29 * time.Minute, 24, nil, 23 * time.Minute, false},
		"in use, at its age":        {29 * time.Minute, 24, nil, 24 * time.Minute, true},
		"a page that is left open":  {10 * time.Minute, 2, stream, 10 * time.Minute, true},
		"a page that is looked at":  {10 * time.Minute, 2, nil, 10 * time.Minute, false},
		"a clock that is put back":  {-time.Hour, 1, nil, 0, false},
		"a machine that has slept":  {0, 0, nil, 8 * time.Hour, true},
		"a request when it is over": {31 * time.Minute, 1, nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLinked(t)
			link := l.link.URL(plainBase)
			address, _, _ := strings.Cut(link, "?")
			cookies := l.get(link, nil).Cookies()
			for range c.times {
				l.clock.Advance(c.every)
				l.get(address+"missing", cookies, c.header...)
			}
			l.clock.Advance(c.then)
			if got := l.page(link, cookies); (got == http.StatusForbidden) != c.ends {
				t.Errorf("a page: %d", got)
			}
			next, ok := l.link.Renew(plainBase)
			must.Same(t, "another link", c.ends, ok)
			if !c.ends {
				return
			}
			if _, again := l.link.Renew(plainBase); again {
				t.Error("an unopened link was replaced")
			}
			fresh := l.get(next, nil).Cookies()
			if l.page(next, fresh) != http.StatusOK || l.page(next, cookies) != http.StatusForbidden {
				t.Error("the new link does not sign in, or the old session is valid again")
			}
		})
	}
}

// attacker is a program on another port of the same host. It notes the cookies
// that browsers send to it.
type attacker struct {
	*httptest.Server
	mu      sync.Mutex
	cookies []string
}

func newAttacker(t *testing.T) *attacker {
	t.Helper()
	a := &attacker{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cookies = append(a.cookies, r.Header.Get("Cookie"))
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>attacker</title>")
	}))
	t.Cleanup(a.Close)
	return a
}

// steal is the script of an attacking page. It tries to read the console with the
// browser's cookies, and to read the cookies.
const steal = `(async (base) => {
  const found = [document.cookie];
  for (const mode of ['cors', 'no-cors']) {
    try {
      const res = await fetch(base, {credentials: 'include', mode});
      found.push(await res.text());
    } catch { found.push(''); }
  }
  return found.join('');
})(%q)`

// TestAnotherPortCannotUseTheSession signs in with a browser, and then opens a
// page on another port of the same host in it.
func TestAnotherPortCannotUseTheSession(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	link := console.NewLink(console.User{ID: "admin", Role: console.Owner})
	srv := httptest.NewServer(link.Handler(console.Handler(v.Vault, &console.Options{Authorize: link.Authorize})))
	t.Cleanup(srv.Close)
	a := newAttacker(t)
	p := &tab{browser.Open(t, screens["desktop"])}
	p.Provoked = true
	p.Navigate(link.URL(srv.URL + "/"))
	must.Same(t, "the link", "Overview", p.Value(`document.querySelector('h1').textContent`))
	console := p.Value(`location.href`)
	p.Navigate(a.URL + "/")
	for _, target := range []string{srv.URL + "/", console} { // a guess, and even the address itself
		must.Same(t, "a page elsewhere reads", "", p.Value(fmt.Sprintf(steal, target)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, got := range a.cookies {
		must.Lack(t, "a program elsewhere was sent the cookies", got, "session")
	}
	if at, err := url.Parse(console); err != nil || len(at.Path) < 20 {
		t.Errorf("the console is at %s, which can be guessed", console)
	}
}
