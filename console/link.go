package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Link signs one person in with a link that works once. A program that is started
// by hand prints it. The first person to open the link becomes the user in that
// browser. The session lasts at most 12 hours, and ends after 30 minutes without a
// request. An open page does not count as a request.
//
//	link := console.NewLink(console.User{ID: "admin", Role: console.Owner})
//	h := link.Handler(console.Handler(v, &console.Options{Authorize: link.Authorize}))
//	fmt.Println(link.URL("http://127.0.0.1:8081/"))
//
// Serve the console on its own listener, not on the origin of other pages.
// Browsers send cookies to every port of a host. So over TLS the session cookie
// has the prefix __Host-, which no other host can set. Without TLS it belongs to a
// random path, which no other program on this machine knows.
type Link struct {
	// TLSProxy declares that a proxy in front terminates TLS. Cookies are then
	// restricted to TLS, although requests arrive without it. Set it before the first
	// request.
	TLSProxy bool

	// Accept, if set, is called with tokens other than the link's own. A program may
	// issue such tokens for several people. Accept returns the user that a token
	// signs in, and false if the token is unknown, too old or used. Set it before the
	// first request.
	Accept func(token string) (User, bool)

	user User
	path string // the random path
	now  func() time.Time

	mu       sync.Mutex
	token    string                    // of the link; empty after it was opened
	own      [32]byte                  // the session of the link's own token; zero until it is opened
	sessions map[[32]byte]*linkSession // by the hash of the cookie
	moved    map[string]linkSession    // accepted tokens that are redirected to the random path
}

// linkSession is a person who has signed in.
type linkSession struct {
	user   User
	signed time.Time
	seen   time.Time // time of the last request
}

const (
	linkParameter = "link"
	linkCookie    = "vault-console-session"

	// hostPrefix makes a browser accept a cookie only over TLS, from exactly this
	// host, and for all of its paths.
	hostPrefix = "__Host-"
)

// Format prints nothing of the link and its sessions, for every verb.
func (l *Link) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "console.Link(hidden)") // Format cannot return an error
}

// LogValue shows nothing of the link and its sessions.
func (l *Link) LogValue() slog.Value { return slog.StringValue("console.Link(hidden)") }

// Limits of a session.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 30 * time.Minute
)

// NewLink returns a link for a user.
func NewLink(user User) *Link {
	return &Link{
		user: user, path: "/" + rand.Text(), token: rand.Text(), now: wallTime,
		sessions: map[[32]byte]*linkSession{}, moved: map[string]linkSession{},
	}
}

// wallTime returns the time without the monotonic clock, which stops while a
// machine sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// URL returns the link. The base URL of the console must end in a slash.
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

// Renew returns a new link once the session of the last link is over. It reports
// false during the session, and until the last link is opened.
func (l *Link) Renew(base string) (link string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == [32]byte{} || l.lasts(l.sessions[l.own]) {
		return "", false
	}
	l.token, l.own = rand.Text(), [32]byte{}
	return l.url(base), true
}

// lasts reports whether a session is within its limits. The caller holds mu.
func (l *Link) lasts(s *linkSession) bool {
	now := l.now()
	return s != nil && now.Sub(s.signed) < sessionLife && now.Sub(s.seen) < sessionIdle
}

var errNotSignedIn = errors.New("console: the request has no session of the link")

// Authorize returns the user of the session, for [Options].
func (l *Link) Authorize(r *http.Request) (User, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session(r)
	if s == nil {
		return User{}, errNotSignedIn
	}
	return s.user, nil
}

// session returns the session of a request, or nil. It looks sessions up by a
// hash, so its timing reveals nothing about other cookies. The caller holds mu.
func (l *Link) session(r *http.Request) *linkSession {
	cookie, err := r.Cookie(cookieName(linkCookie, overTLS(r, l.TLSProxy)))
	if err != nil {
		return nil
	}
	if s := l.sessions[sha256.Sum256([]byte(cookie.Value))]; l.lasts(s) {
		return s
	}
	return nil
}

// SignOut ends the session of a request, for [Options], and makes the browser
// forget its cookie.
func (l *Link) SignOut(w http.ResponseWriter, r *http.Request) {
	secure := overTLS(r, l.TLSProxy)
	cookie, err := r.Cookie(cookieName(linkCookie, secure))
	if err != nil {
		return
	}
	l.mu.Lock()
	delete(l.sessions, sha256.Sum256([]byte(cookie.Value)))
	l.mu.Unlock()
	setCookie(w, "", -1, secure)
}

// Handler returns a handler that accepts the link and passes all other requests to
// the console.
func (l *Link) Handler(console http.Handler) http.Handler {
	below := http.StripPrefix(l.path, console)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next, inPath := console, strings.HasPrefix(r.URL.Path, l.path+"/")
		if inPath {
			next = below
		}
		token := r.URL.Query().Get(linkParameter)
		if token == "" || r.Method != http.MethodGet {
			l.touch(r)
			next.ServeHTTP(w, r)
			return
		}
		location := "./" // relative: http.Redirect would not know the prefix
		if secure := overTLS(r, l.TLSProxy); secure || inPath {
			if session, ok := l.open(token); ok {
				setCookie(w, session, int(sessionLife.Seconds()), secure)
			}
		} else if moved, ok := l.move(token); ok {
			location = "." + l.path + "/?" + linkParameter + "=" + moved
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusSeeOther)
	})
}

// touch records the time of a request of the session. It ignores streams, because
// an open page reconnects without the user.
func (l *Link) touch(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.session(r); s != nil && r.Header.Get("Accept") != eventStream {
		s.seen = l.now()
	}
}

// move replaces an accepted token that arrived without TLS and outside the random
// path. The new token leads the browser to that path.
func (l *Link) move(token string) (moved string, ok bool) {
	user, ok := l.accept(token)
	if !ok {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean()
	moved = rand.Text()
	l.moved[moved] = linkSession{user: user, signed: l.now()}
	return moved, true
}

func (l *Link) accept(token string) (User, bool) {
	if l.Accept == nil {
		return User{}, false
	}
	return l.Accept(token)
}

// clean removes sessions that are over, and moved tokens that were not used within
// a minute. The caller holds mu.
func (l *Link) clean() {
	now := l.now()
	maps.DeleteFunc(l.sessions, func(_ [32]byte, s *linkSession) bool { return !l.lasts(s) })
	maps.DeleteFunc(l.moved, func(_ string, s linkSession) bool { return now.Sub(s.signed) > time.Minute })
}

// setCookie sets the cookie of a session. A cookie without a Path belongs to the
// directory of the request.
func setCookie(w http.ResponseWriter, session string, age int, secure bool) {
	cookie := &http.Cookie{ //nolint:gosec // Secure wherever the browser uses TLS
		Name: cookieName(linkCookie, secure), Value: session, MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
	if secure {
		cookie.Path = "/"
	}
	http.SetCookie(w, cookie)
}

// open uses up a token and starts its session.
func (l *Link) open(token string) (session string, ok bool) {
	user, own, ok := l.take(token)
	if !ok {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean()
	session = rand.Text()
	hash := sha256.Sum256([]byte(session))
	l.sessions[hash] = &linkSession{user: user, signed: l.now(), seen: l.now()}
	if own {
		l.own = hash
	}
	return session, true
}

// take returns the user that a token signs in, and whether the token is the link's
// own.
func (l *Link) take(token string) (user User, own, ok bool) {
	l.mu.Lock()
	if l.token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) == 1 {
		l.token = ""
		l.mu.Unlock()
		return l.user, true, true
	}
	moved, ok := l.moved[token]
	delete(l.moved, token)
	fresh := ok && l.now().Sub(moved.signed) <= time.Minute
	l.mu.Unlock()
	if fresh {
		return moved.user, false, true
	}
	user, ok = l.accept(token)
	return user, false, ok
}

// overTLS reports whether the browser sent a request over TLS, to this server or
// to a proxy in front.
func overTLS(r *http.Request, proxy bool) bool { return r.TLS != nil || proxy }

// cookieName returns the name of a cookie, which depends on whether the browser
// uses TLS.
func cookieName(name string, tls bool) string {
	if tls {
		return hostPrefix + name
	}
	return name
}
