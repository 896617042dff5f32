package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"sync"
)

// Link signs one person in by a link that works once, as a program that is started
// by hand prints it. The first person to open the link is the user, in that browser,
// until the program ends.
//
//	link := console.NewLink(console.User{ID: "admin", Role: console.Owner})
//	h := link.Handler(console.Handler(v, &console.Options{Authorize: link.Authorize}))
//	fmt.Println(link.URL("http://127.0.0.1:8080/console/"))
type Link struct {
	user User

	mu      sync.Mutex
	token   string   // of the link; empty once it was opened
	session [32]byte // the hash of the cookie
	signed  bool
}

const (
	linkParameter = "link"
	linkCookie    = "vault-console-session"
)

// NewLink returns a link for a user.
func NewLink(user User) *Link { return &Link{user: user, token: rand.Text()} }

// URL returns the link, for a console at a base URL.
func (l *Link) URL(base string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return base + "?" + linkParameter + "=" + l.token
}

var errNotSignedIn = errors.New("console: the request has no session of the link")

// Authorize is for [Options].
func (l *Link) Authorize(r *http.Request) (User, error) {
	cookie, err := r.Cookie(linkCookie)
	if err != nil {
		return User{}, errNotSignedIn
	}
	got := sha256.Sum256([]byte(cookie.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.signed || subtle.ConstantTimeCompare(got[:], l.session[:]) != 1 {
		return User{}, errNotSignedIn
	}
	return l.user, nil
}

// Handler returns a handler that takes the link, and leaves all else to the
// console.
func (l *Link) Handler(console http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get(linkParameter)
		if token == "" || r.Method != http.MethodGet {
			console.ServeHTTP(w, r)
			return
		}
		if session, ok := l.open(token); ok {
			http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever the connection is
				Name: linkCookie, Value: session, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
			})
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", "./") // relative: http.Redirect would not know the prefix
		w.WriteHeader(http.StatusSeeOther)
	})
}

// open takes the token of the link, once.
func (l *Link) open(token string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signed || subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1 {
		return "", false
	}
	session = rand.Text()
	l.token, l.session, l.signed = "", sha256.Sum256([]byte(session)), true
	return session, true
}
