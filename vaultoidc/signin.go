package vaultoidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
)

// SignInConfig configures how people sign in at the console.
type SignInConfig struct {
	// Issuer is the URL of the provider.
	Issuer string
	// ClientID is the name of the console at the provider.
	ClientID string
	// SecretFile has the secret of the console at the provider. It is read for each
	// sign-in. Without a secret the console is a public client.
	SecretFile string
	// URL is the URL of the console in the browser. The provider must permit the redirect
	// to its path /oidc/callback.
	URL string
	// Roles determine the role of a person. The first rule that fits counts. A person
	// without a role gets a 403.
	Roles []RoleRule
	// CAFile has the certificates of the authorities that the provider is trusted by, in
	// PEM. By default these are the system's authorities.
	CAFile string
	// Logger gets the reasons of failed sign-ins. Default: nothing is logged.
	Logger *slog.Logger
}

// RoleRule gives a role to people with a claim.
type RoleRule struct {
	// Claim is the name of a claim of the ID token. email counts only if email_verified
	// is true.
	Claim string
	// Value is the text that the claim, or an element of it, is equal to.
	Value string
	Role  console.Role
}

// SignIn signs people in at the console by OpenID Connect: the code flow with PKCE,
// state and nonce. A session ends after an hour. Then the browser is redirected to
// the provider, which renews the session without a question while the person is
// signed in there.
//
//	s, err := vaultoidc.NewSignIn(ctx, vaultoidc.SignInConfig{...})
//	h := s.Handler(console.Handler(v, &console.Options{Authorize: s.Authorize, SignOut: s.SignOut}))
//
// Sessions are in the memory of the process. If several processes serve the console,
// a balancer must send the requests of a browser to the same one.
type SignIn struct {
	config   SignInConfig
	base     *url.URL
	verifier *Verifier
	issuer   *issuer

	attempts *vault.Key // seals attempts

	mu       sync.Mutex
	used     map[[sha256.Size]byte]time.Time // when attempts began that have succeeded, by state
	sessions map[[sha256.Size]byte]session
}

// attempt is a sign-in whose browser is at the provider. It is sealed in the parameter
// state, for the browser's cookie, so that strangers who open pages take no memory, and
// push out no sign-in of others.
type attempt struct {
	Began  time.Time `json:"began"`
	Nonce  string    `json:"nonce"`
	Secret string    `json:"secret"` // the verifier of PKCE
	Page   string    `json:"page"`   // where the browser goes afterwards
}

// session is a person who has signed in.
type session struct {
	user console.User
	ends time.Time
}

// Limits of sign-ins.
const (
	sessionLife = time.Hour
	attemptLife = 10 * time.Minute
	maxSessions = 10_000
	maxCode     = 4 << 10
	maxState    = 4 << 10
	maxPage     = 1000
	maxUser     = 200 // characters of a name
)

// The paths and cookies of a sign-in.
const (
	callbackPath  = "/oidc/callback"
	signInPath    = "/oidc/sign-in"
	attemptCookie = "vault-console-oidc"
	sessionCookie = "vault-console-person"
	leftCookie    = "vault-console-left"
)

// NewSignIn returns a sign-in. It sends no request, so a provider that is down does
// not keep a server from starting. Requests in the background end with ctx.
func NewSignIn(ctx context.Context, config SignInConfig) (*SignIn, error) {
	verifier, err := New(ctx, Issuer{URL: config.Issuer, CAFile: config.CAFile})
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(config.URL)
	switch {
	case err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("vaultoidc: the URL of the console must be a URL such as https://console.example.com/")
	case config.ClientID == "":
		return nil, errors.New("vaultoidc: a sign-in needs the ClientID of the console")
	case len(config.Roles) == 0:
		return nil, errors.New("vaultoidc: a sign-in needs at least one role")
	}
	for _, rule := range config.Roles {
		if rule.Claim == "" || rule.Value == "" || rule.Role < console.Viewer || rule.Role > console.Owner {
			return nil, errors.New("vaultoidc: a role needs a claim and its value")
		}
	}
	if config.SecretFile != "" {
		if _, err := readSecret(config.SecretFile); err != nil {
			return nil, fmt.Errorf("vaultoidc: the secret of the console: %w", err)
		}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	verifier.Logger = config.Logger
	config.Roles = slices.Clone(config.Roles)
	base.Path = strings.TrimSuffix(base.Path, "/")
	return &SignIn{
		config: config, base: base, verifier: verifier, issuer: verifier.issuers[config.Issuer],
		attempts: vault.NewKey(), used: map[[sha256.Size]byte]time.Time{}, sessions: map[[sha256.Size]byte]session{},
	}, nil
}

var errNotSignedIn = errors.New("vaultoidc: the request has no session")

// Authorize returns the person of the session, for [console.Options].
func (s *SignIn) Authorize(r *http.Request) (console.User, error) {
	cookie, err := r.Cookie(s.cookie(sessionCookie))
	if err != nil {
		return console.User{}, errNotSignedIn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.sessions[sha256.Sum256([]byte(cookie.Value))]
	if !ok || !s.verifier.now().Before(found.ends) {
		return console.User{}, errNotSignedIn
	}
	return found.user, nil
}

// SignOut ends the session of a request, for [console.Options]. The next page asks
// before it leads to the provider, which then requires the password again.
func (s *SignIn) SignOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.cookie(sessionCookie)); err == nil {
		s.mu.Lock()
		delete(s.sessions, sha256.Sum256([]byte(cookie.Value)))
		s.mu.Unlock()
	}
	s.setCookie(w, sessionCookie, "", -1, http.SameSiteStrictMode)
	s.setCookie(w, leftCookie, "1", int(attemptLife.Seconds()), http.SameSiteStrictMode)
}

// Handler returns a handler that signs people in and passes all other requests to the
// console.
func (s *SignIn) Handler(console http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := s.Authorize(r)
		switch {
		case r.URL.Path == callbackPath:
			s.callback(w, r)
		case r.URL.Path == signInPath && r.Method == http.MethodGet:
			s.redirect(w, r, "/", "login")
		case err == nil || !opensPage(r):
			console.ServeHTTP(w, r)
		case s.left(r):
			s.show(w, http.StatusForbidden, "You have signed out", "Sign in again")
		default:
			s.redirect(w, r, pageOf(r), "")
		}
	})
}

// opensPage reports whether a person opens a page, so that the browser can be
// redirected. Other requests get a 403 from the console.
func opensPage(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Method == http.MethodGet && (mode == "" || mode == "navigate") && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// pageOf returns the page that a request is for.
func pageOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	if !strings.HasPrefix(path, "/") || len(path) > maxPage {
		return "/"
	}
	return path
}

func (s *SignIn) left(r *http.Request) bool {
	_, err := r.Cookie(s.cookie(leftCookie))
	return err == nil
}

// redirect sends the browser to the provider.
func (s *SignIn) redirect(w http.ResponseWriter, r *http.Request, page, prompt string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), fetchTimeout) // others may wait for the document
	defer cancel()
	doc, err := s.issuer.remote.document(ctx, false)
	if err != nil {
		s.fail(w, r, http.StatusServiceUnavailable, "the provider does not respond", err)
		return
	}
	to, err := url.Parse(doc.Authorization)
	if err != nil || to.Scheme != "https" || to.Host == "" {
		s.fail(w, r, http.StatusServiceUnavailable, "the provider names no page to sign in at", err)
		return
	}
	a := attempt{Began: s.verifier.now(), Nonce: rand.Text(), Secret: rand.Text() + rand.Text(), Page: page}
	browser := s.browser(r)
	state, err := s.seal(browser, a)
	if err != nil {
		s.fail(w, r, http.StatusInternalServerError, "this server cannot begin it", err)
		return
	}
	challenge := sha256.Sum256([]byte(a.Secret))
	q := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "scope": "openid profile email", "client_id": s.config.ClientID, "redirect_uri": s.callbackURL(),
		"state": state, "nonce": a.Nonce, "code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if prompt != "" {
		q.Set("prompt", prompt)
	}
	to.RawQuery = q.Encode()
	s.setCookie(w, attemptCookie, browser, int(attemptLife.Seconds()), http.SameSiteLaxMode) // the provider's page leads back
	s.headers(w)
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusSeeOther)
}

// browser returns the name of the browser of a request, which all of its tabs share.
func (s *SignIn) browser(r *http.Request) string {
	if cookie, err := r.Cookie(s.cookie(attemptCookie)); err == nil && len(cookie.Value) == len(rand.Text()) {
		return cookie.Value
	}
	return rand.Text()
}

// seal returns the state of an attempt of a browser.
func (s *SignIn) seal(browser string, a attempt) (state string, err error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	sealed, err := s.attempts.Encrypt(text, []byte(browser))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// attempt returns the attempt of a browser, unless it has succeeded or is too old.
func (s *SignIn) attempt(r *http.Request) (a attempt, ok bool) {
	cookie, err := r.Cookie(s.cookie(attemptCookie))
	state := r.URL.Query().Get("state")
	if err != nil || len(state) > maxState {
		return a, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return a, false
	}
	text, err := s.attempts.Decrypt(sealed, []byte(cookie.Value))
	if err != nil || json.Unmarshal(text, &a) != nil || s.verifier.now().Sub(a.Began) >= attemptLife {
		return a, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, used := s.used[sha256.Sum256([]byte(state))]
	return a, !used
}

// use reports whether an attempt, for which the provider has signed a person in, is used
// for the first time. Only the people that the provider knows fill the memory.
func (s *SignIn) use(r *http.Request, a attempt) bool {
	key := sha256.Sum256([]byte(r.URL.Query().Get("state")))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.used[key]; used {
		return false
	}
	maps.DeleteFunc(s.used, func(_ [sha256.Size]byte, began time.Time) bool { return s.verifier.now().Sub(began) >= attemptLife })
	s.used[key] = a.Began
	return true
}

// callback ends a sign-in.
func (s *SignIn) callback(w http.ResponseWriter, r *http.Request) {
	a, ok := s.attempt(r)
	q := r.URL.Query()
	iss, code := q.Get("iss"), q.Get("code")
	switch {
	case r.Method != http.MethodGet:
		s.fail(w, r, http.StatusMethodNotAllowed, "the provider must use GET", nil)
	case !ok:
		s.fail(w, r, http.StatusForbidden, "this browser has not begun to sign in, or too long ago", nil)
	case iss != "" && iss != s.config.Issuer:
		s.fail(w, r, http.StatusForbidden, "the response is that of another provider", nil)
	case q.Get("error") != "":
		s.fail(w, r, http.StatusForbidden, "the provider has refused", nil)
	case code == "" || len(code) > maxCode:
		s.fail(w, r, http.StatusForbidden, "the provider has sent no code", nil)
	default:
		s.accept(w, r, a, code)
	}
}

// accept exchanges a code and starts a session.
func (s *SignIn) accept(w http.ResponseWriter, r *http.Request, a attempt, code string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*fetchTimeout) // others may wait for the document
	defer cancel()
	text, err := s.exchange(ctx, a, code)
	if err != nil {
		s.fail(w, r, http.StatusServiceUnavailable, "the provider does not respond, or has refused the code", err)
		return
	}
	claims, err := s.verifier.Verify(ctx, text)
	switch {
	case errors.Is(err, vault.ErrUnavailable):
		s.fail(w, r, http.StatusServiceUnavailable, "the keys of the provider cannot be fetched", err)
		return
	case err != nil:
		s.fail(w, r, http.StatusForbidden, "the ID token is not valid", err)
		return
	case !s.meant(claims) || claims["nonce"] != a.Nonce || !s.use(r, a):
		s.fail(w, r, http.StatusForbidden, "the ID token was made for another sign-in", nil)
		return
	}
	user := console.User{ID: person(claims), Role: s.role(claims)}
	if user.ID == "" || user.Role == 0 {
		s.config.Logger.WarnContext(r.Context(), "vaultoidc: a person without a role has signed in at the console", slog.String("person", user.ID))
		s.show(w, http.StatusForbidden, "You are signed in, but have no role here", "Sign in as another person")
		return
	}
	id := rand.Text()
	s.keep(id, session{user: user, ends: s.verifier.now().Add(sessionLife)})
	s.setCookie(w, sessionCookie, id, int(sessionLife.Seconds()), http.SameSiteStrictMode)
	s.setCookie(w, leftCookie, "", -1, http.SameSiteStrictMode)
	s.goOn(w, a.Page)
}

// keep remembers a session. If there are too many, the sessions that end first make room.
func (s *SignIn) keep(id string, begun session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= maxSessions {
		maps.DeleteFunc(s.sessions, func(_ [sha256.Size]byte, old session) bool { return !s.verifier.now().Before(old.ends) })
	}
	for len(s.sessions) >= maxSessions {
		var first [sha256.Size]byte
		var ends time.Time
		for hash, old := range s.sessions {
			if ends.IsZero() || old.ends.Before(ends) {
				first, ends = hash, old.ends
			}
		}
		delete(s.sessions, first)
	}
	s.sessions[sha256.Sum256([]byte(id))] = begun
}

// exchange gets the ID token for a code.
func (s *SignIn) exchange(ctx context.Context, a attempt, code string) (string, error) {
	doc, err := s.issuer.remote.document(ctx, false)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {s.callbackURL()}, "code_verifier": {a.Secret}}
	secret, inHeader := "", false
	if s.config.SecretFile == "" {
		form.Set("client_id", s.config.ClientID)
	} else {
		if secret, err = readSecret(s.config.SecretFile); err != nil {
			return "", err
		}
		inHeader = len(doc.AuthMethods) == 0 || slices.Contains(doc.AuthMethods, "client_secret_basic")
	}
	if secret != "" && !inHeader {
		form.Set("client_id", s.config.ClientID)
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, doc.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", errors.New("the provider names an address that is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		req.SetBasicAuth(url.QueryEscape(s.config.ClientID), url.QueryEscape(secret))
	}
	body, err := s.issuer.remote.do(req)
	if err != nil {
		return "", err
	}
	var response struct {
		IDToken string `json:"id_token"`
	}
	if err := json.Unmarshal(body, &response); err != nil || response.IDToken == "" {
		return "", errors.New("the response has no ID token")
	}
	return response.IDToken, nil
}

// meant reports whether an ID token is for the console.
func (s *SignIn) meant(claims vault.Claims) bool {
	azp, given := claims["azp"]
	switch aud := claims["aud"].(type) {
	case string:
		return aud == s.config.ClientID && (!given || azp == s.config.ClientID)
	case []any:
		return slices.Contains(aud, any(s.config.ClientID)) && (azp == s.config.ClientID || !given && len(aud) == 1)
	default:
		return false
	}
}

// person returns the name of a person in the log: the e-mail address, if the provider
// has verified it, and otherwise the subject, which people cannot choose.
func person(claims vault.Claims) string {
	name, _ := claims["sub"].(string)
	if email, _ := claims["email"].(string); email != "" && claims["email_verified"] == true {
		name = email
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || len([]rune(name)) > maxUser {
		return ""
	}
	return name
}

// role returns the role of the first rule that fits, or 0.
func (s *SignIn) role(claims vault.Claims) console.Role {
	for _, rule := range s.config.Roles {
		if rule.Claim == "email" && claims["email_verified"] != true {
			continue
		}
		claim := claims[rule.Claim]
		list, ok := claim.([]any)
		if !ok {
			list = []any{claim}
		}
		if slices.Contains(list, any(rule.Value)) {
			return rule.Role
		}
	}
	return 0
}

// callbackURL returns the address that the provider leads back to.
func (s *SignIn) callbackURL() string { return s.base.String() + callbackPath }
