package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Link signs one person in by a link that works once, as a program that is started
// by hand prints it. The first person to open the link is the user, in that
// browser, for at most 12 hours, and until 30 minutes have passed without a
// request. A page that is left open does not count as a request.
//
//	link := console.NewLink(console.User{ID: "admin", Role: console.Owner})
//	h := link.Handler(console.Handler(v, &console.Options{Authorize: link.Authorize}))
//	fmt.Println(link.URL("http://127.0.0.1:8081/"))
//
// Serve the console on its own listener, not on the origin of other pages. Browsers
// send cookies to every port of a host. So over TLS the cookie of the session has
// the prefix __Host-, which no other host can set, and otherwise it belongs to a
// random path, which no other program on this machine knows.
type Link struct {
	// TLSProxy declares a proxy in front that ends TLS: cookies are for TLS alone,
	// although requests arrive without. Set it before the first request.
	TLSProxy bool

	user User
	path string // the random path
	now  func() time.Time

	mu      sync.Mutex
	token   string    // of the link; empty once it was opened
	session [32]byte  // the hash of the cookie
	signed  time.Time // when the link was opened; zero while it was not
	seen    time.Time // when the last request came
}

const (
	linkParameter = "link"
	linkCookie    = "vault-console-session"

	// hostPrefix makes a browser take a cookie only over TLS, from this very host,
	// for all of its paths.
	hostPrefix = "__Host-"
)

// Limits of a session.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 30 * time.Minute
)

// NewLink returns a link for a user.
func NewLink(user User) *Link {
	return &Link{user: user, path: "/" + rand.Text(), token: rand.Text(), now: wallTime}
}

// wallTime is the time without the monotonic clock, which stands still while a
// machine sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// URL returns the link, for a console at a base URL that ends in a slash.
func (l *Link) URL(base string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.url(base)
}

func (l *Link) url(base string) string {
	if !strings.HasPrefix(base, "https://") {
		base = strings.TrimSuffix(base, "/") + l.path + "/"
	}
	return base + "?" + linkParameter + "=" + l.token
}

// Renew returns a new link once the session of the last one is over. It reports
// false while the session lasts, and while nobody has opened the last link.
func (l *Link) Renew(base string) (link string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signed.IsZero() || l.lasts() {
		return "", false
	}
	l.token, l.session, l.signed = rand.Text(), [32]byte{}, time.Time{}
	return l.url(base), true
}

// lasts reports whether the session is within its limits. The caller holds mu.
func (l *Link) lasts() bool {
	now := l.now()
	return !l.signed.IsZero() && now.Sub(l.signed) < sessionLife && now.Sub(l.seen) < sessionIdle
}

var errNotSignedIn = errors.New("console: the request has no session of the link")

// Authorize is for [Options].
func (l *Link) Authorize(r *http.Request) (User, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.signedIn(r) {
		return User{}, errNotSignedIn
	}
	return l.user, nil
}

// signedIn reports whether a request is of the session. The caller holds mu.
func (l *Link) signedIn(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(linkCookie, overTLS(r, l.TLSProxy)))
	if err != nil || !l.lasts() {
		return false
	}
	got := sha256.Sum256([]byte(cookie.Value))
	return subtle.ConstantTimeCompare(got[:], l.session[:]) == 1
}

// Handler returns a handler that takes the link, and leaves all else to the
// console.
func (l *Link) Handler(console http.Handler) http.Handler {
	below := http.StripPrefix(l.path, console)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next, inPath := console, strings.HasPrefix(r.URL.Path, l.path+"/")
		if inPath {
			next = below
		}
		token := r.URL.Query().Get(linkParameter)
		if token == "" || r.Method != http.MethodGet {
			l.note(r)
			next.ServeHTTP(w, r)
			return
		}
		if secure := overTLS(r, l.TLSProxy); secure || inPath {
			l.signIn(w, token, secure)
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", "./") // relative: http.Redirect would not know the prefix
		w.WriteHeader(http.StatusSeeOther)
	})
}

// note notes a request of the session. Streams do not count: a page that is left
// open connects by itself.
func (l *Link) note(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Header.Get("Accept") != eventStream && l.signedIn(r) {
		l.seen = l.now()
	}
}

// signIn gives the browser a session for the token of the link. Without a path of
// its own, a cookie belongs to the folder that the request is for.
func (l *Link) signIn(w http.ResponseWriter, token string, secure bool) {
	session, ok := l.open(token)
	if !ok {
		return
	}
	cookie := &http.Cookie{ //nolint:gosec // Secure wherever the browser uses TLS
		Name: cookieName(linkCookie, secure), Value: session, MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
	if secure {
		cookie.Path = "/"
	}
	http.SetCookie(w, cookie)
}

// open takes the token of the link, once.
func (l *Link) open(token string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.signed.IsZero() || subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1 {
		return "", false
	}
	session = rand.Text()
	l.token, l.session, l.signed, l.seen = "", sha256.Sum256([]byte(session)), l.now(), l.now()
	return session, true
}

// overTLS reports whether the browser sent a request over TLS, to this server or
// to a proxy in front.
func overTLS(r *http.Request, proxy bool) bool { return r.TLS != nil || proxy }

// cookieName is the name of a cookie, by whether the browser uses TLS.
func cookieName(name string, tls bool) string {
	if tls {
		return hostPrefix + name
	}
	return name
}
