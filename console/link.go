package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
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

	// Accept, if set, is asked for tokens that are not the link's own, as a program
	// makes them for several people. It returns the user whom a token signs in, and
	// false for a token that is unknown, too old or used. Set it before the first
	// request.
	Accept func(token string) (User, bool)

	user User
	path string // the random path
	now  func() time.Time

	mu       sync.Mutex
	token    string                    // of the link; empty once it was opened
	own      [32]byte                  // the session of the link's own token; zero while it was not opened
	sessions map[[32]byte]*linkSession // by the hash of their cookie
	moved    map[string]linkSession    // accepted tokens on their way to the random path
}

// linkSession is a person who has signed in.
type linkSession struct {
	user   User
	signed time.Time
	seen   time.Time // when the last request came
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
	return &Link{
		user: user, path: "/" + rand.Text(), token: rand.Text(), now: wallTime,
		sessions: map[[32]byte]*linkSession{}, moved: map[string]linkSession{},
	}
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

// Authorize is for [Options].
func (l *Link) Authorize(r *http.Request) (User, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session(r)
	if s == nil {
		return User{}, errNotSignedIn
	}
	return s.user, nil
}

// session returns the session of a request, or nil. Sessions are found by a hash,
// so the time that this takes says nothing about the cookies of others. The caller
// holds mu.
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
		location := "./" // relative: http.Redirect would not know the prefix
		if secure := overTLS(r, l.TLSProxy); secure || inPath {
			l.signIn(w, token, secure)
		} else if moved, ok := l.move(token); ok {
			location = "." + l.path + "/?" + linkParameter + "=" + moved
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusSeeOther)
	})
}

// note notes a request of the session. Streams do not count: a page that is left
// open connects by itself.
func (l *Link) note(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.session(r); s != nil && r.Header.Get("Accept") != eventStream {
		s.seen = l.now()
	}
}

// move takes an accepted token that came without TLS and outside of the random
// path. It returns another one, which leads the browser there.
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

// clean forgets the sessions that are over, and tokens that were not used within
// a minute. The caller holds mu.
func (l *Link) clean() {
	now := l.now()
	maps.DeleteFunc(l.sessions, func(_ [32]byte, s *linkSession) bool { return !l.lasts(s) })
	maps.DeleteFunc(l.moved, func(_ string, s linkSession) bool { return now.Sub(s.signed) > time.Minute })
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

// open takes a token, once.
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

// take returns the user whom a token signs in, and whether it is the link's own.
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

// cookieName is the name of a cookie, by whether the browser uses TLS.
func cookieName(name string, tls bool) string {
	if tls {
		return hostPrefix + name
	}
	return name
}
