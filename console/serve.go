package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// handler is the console.
type handler struct {
	vault     *vault.Vault
	opts      Options
	mux       *http.ServeMux
	live      feeds[span, []byte]                // the overview as HTML
	logs      feeds[uuid.UUID, []vault.LogEntry] // by tenant
	database  databaseFigures
	rotations *rotations
	names     *names
	tally     *tally
}

// route is a page or an action.
type route struct {
	pattern string
	role    Role // required
	serve   func(*request) error
}

// routes lists all pages and actions. Each action is a POST.
func (h *handler) routes() []route {
	const in = "/tenants/{tenant}"
	return []route{
		{"GET /{$}", Viewer, (*request).overview},
		{"GET /events", Viewer, (*request).overviewEvents},
		{"GET /tenants", Viewer, (*request).tenants},
		{"GET " + in, Viewer, inTenant((*request).tenant)},
		{"GET " + in + "/events", Viewer, (*request).rotationEvents},
		{"POST " + in, Owner, inTenant((*request).saveTenant)},
		{"POST " + in + "/rotate", Owner, inTenant((*request).rotate)},
		{"GET " + in + "/applications", Viewer, inTenant((*request).applications)},
		{"GET " + in + "/applications/{id}", Viewer, inTenant((*request).application)},
		{"POST " + in + "/applications/{id}", Owner, inTenant((*request).saveApplication)},
		{"POST " + in + "/applications/{id}/delete", Owner, (*request).deleteApplication},
		{"POST " + in + "/applications/{id}/keys/{key}/delete", Owner, (*request).deleteKey},
		{"GET " + in + "/explain", Viewer, inTenant((*request).explain)},
		{"GET " + in + "/tokens", Viewer, inTenant((*request).tokens)},
		{"GET " + in + "/tokens/{id}", Viewer, inTenant((*request).token)},
		{"GET " + in + "/log", Viewer, inTenant((*request).log)},
		{"GET " + in + "/log/events", Viewer, inTenant((*request).logEvents)},
		{"GET " + in + "/log.csv", Viewer, inTenant((*request).logCSV)},
		{"GET " + in + "/log.jsonl", Viewer, inTenant((*request).logLines)},
		{"GET " + in + "/code", Viewer, inTenant((*request).code)},
		{"GET " + in + "/reactors/{id}", Viewer, inTenant(program((*request).reactorBody))},
		{"POST " + in + "/reactors/{id}/try", Operator, inTenant((*request).tryReactor)},
		{"GET " + in + "/proxies/{id}", Viewer, inTenant(program((*request).proxyBody))},
		{"POST " + in + "/proxies/{id}/try", Operator, inTenant((*request).tryProxy)},
		{"POST " + in + "/jobs/{id}/retry", Operator, act((*vault.Owner).RetryJob, "/code", "retried")},
		{"POST " + in + "/jobs/{id}/discard", Operator, act((*vault.Owner).DiscardJob, "/code", "discarded")},
		{"GET " + in + "/sessions", Viewer, inTenant((*request).sessions)},
		{"POST " + in + "/sessions/{id}/end", Operator, act((*vault.Owner).DeleteSession, "/sessions", "ended")},
		{"GET /find", Viewer, (*request).find},
		{"POST /signout", Viewer, (*request).signOut},
		{"GET /evidence", Viewer, (*request).evidence},
		{"GET /sinks", Viewer, (*request).sinks},
		{"GET /system", Viewer, (*request).system},
	}
}

// policy lets a page load only files that the console serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves a page, an action or a static file.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send forms without an origin
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if serveFile(w, r) {
		return
	}
	head.Set("Cache-Control", "no-store")
	q := &request{handler: h, w: w, r: r}
	switch {
	case q.addSlash():
		return
	case h.opts.Authorize == nil:
		q.fail(http.StatusServiceUnavailable, "setup", "Sign-in is not set up yet", "")
		return
	case !q.identify():
		q.fail(http.StatusForbidden, "signin", "You are not signed in", "")
		return
	}
	if _, pattern := h.mux.Handler(r); pattern == "" || !clean(r.URL.Path) {
		q.fail(http.StatusNotFound, "refused", "Page not found", "The address may be mistyped, or from an older version.")
		return
	}
	h.mux.ServeHTTP(&carrier{w, q}, r)
}

// addSlash redirects a request for the address that the console is mounted at, such
// as /console, to the same address with a slash, which relative links need.
func (q *request) addSlash() bool {
	address, _, _ := strings.Cut(q.r.RequestURI, "?")
	if q.r.URL.Path != "" || address == "" || strings.HasSuffix(address, "/") {
		return false
	}
	q.w.Header().Set("Location", "./"+path.Base(address)+"/") // relative: http.Redirect would not know the prefix
	q.w.WriteHeader(http.StatusSeeOther)
	return true
}

// clean reports whether the mux accepts a path as it is. It would redirect any
// other path, without the prefix that the console is mounted at.
func clean(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// carrier passes a request through the mux.
type carrier struct {
	http.ResponseWriter
	request *request
}

// guard checks the role before it serves. It also checks that an action comes from
// a page of the console.
func (h *handler) guard(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := w.(*carrier).request //nolint:forcetypeassert // ServeHTTP makes it
		q.r, q.role = r, rt.role
		if q.user.Role < rt.role {
			q.fail(http.StatusForbidden, "refused", "This needs the role "+rt.role.String(), "Your role is "+q.user.Role.String()+". Ask an owner of the console, or sign in with another link.")
			return
		}
		if r.Method == http.MethodPost && !q.own() {
			q.fail(http.StatusForbidden, "refused", "The request did not come from the console", "Open the page again and repeat the action. If there is a proxy in front, it must pass on the Host header.")
			return
		}
		if err := rt.serve(q); err != nil {
			q.failed(err)
		}
	})
}

// request is the request of a user.
type request struct {
	*handler
	w    http.ResponseWriter
	r    *http.Request
	user User
	role Role // required
}

// identify sets the user of the request.
func (q *request) identify() bool {
	user, err := q.opts.Authorize(q.r)
	q.user = user
	return err == nil && user.ID != "" && user.Role >= Viewer && user.Role <= Owner
}

// mayStill reports whether the request still belongs to the same user with the
// required role. A long response calls it repeatedly.
func (q *request) mayStill() bool {
	now := request{handler: q.handler, r: q.r}
	return now.identify() && now.user.ID == q.user.ID && now.user.Role >= q.role
}

const (
	formCookie = "vault-console-form"
	formField  = "form"
	maxForm    = 1 << 20
)

// own reports whether an action comes from a page of the console. The headers of
// the browser must agree, and the form must have the same token as the cookie.
func (q *request) own() bool {
	site, from := q.r.Header.Get("Sec-Fetch-Site"), q.r.Header.Get("Origin")
	switch {
	case site != "" && site != "same-origin":
		return false
	case site == "" || from != "": // over plain HTTP, browsers send only the origin
		origin, err := url.Parse(from)
		if err != nil || origin.Host == "" || origin.Host != q.r.Host {
			return false
		}
	}
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, maxForm)
	cookie, err := q.r.Cookie(q.formCookie())
	if err != nil || cookie.Value == "" || q.r.ParseForm() != nil {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(q.r.PostForm.Get(formField))) == 1
}

// formToken returns the token for the forms of a page.
func (q *request) formToken() string {
	if cookie, err := q.r.Cookie(q.formCookie()); err == nil && len(cookie.Value) >= 26 {
		return cookie.Value
	}
	token := rand.Text()
	http.SetCookie(q.w, &http.Cookie{ //nolint:gosec // Secure wherever the browser uses TLS
		Name: q.formCookie(), Value: token, Path: "/", HttpOnly: true, Secure: overTLS(q.r, q.opts.TLSProxy), SameSite: http.SameSiteStrictMode,
	})
	return token
}

// formCookie returns the name of the cookie with the form token.
func (q *request) formCookie() string { return cookieName(formCookie, overTLS(q.r, q.opts.TLSProxy)) }

// root returns the relative path from the page to the first page of the console.
// The handler does not know the path that it is mounted at.
func (q *request) root() string {
	depth := strings.Count(strings.TrimPrefix(q.r.URL.EscapedPath(), "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

// show renders a page.
func (q *request) show(status int, name string, v view) error {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "layout", v); err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, err := q.w.Write(b.Bytes())
	if err != nil {
		return errGone
	}
	return nil
}

// errGone means that the browser has disconnected.
var (
	errGone    = errors.New("console: the browser has left")
	errRevoked = errors.New("console: the user may no longer see this")
)

// fail shows an error page.
func (q *request) fail(status int, name, title, detail string) {
	v := view{Title: title, Root: q.root(), User: q.user, Body: refusal{detail, q.ways()}}
	if err := q.show(status, name, v); err != nil && !errors.Is(err, errGone) {
		q.opts.Logger.ErrorContext(q.r.Context(), "console: a page failed", "error", err)
	}
}

// failed shows the page for an error. It shows only the vault's own message, which
// never holds a value.
func (q *request) failed(err error) {
	switch {
	case errors.Is(err, errGone), errors.Is(err, errRevoked), q.r.Context().Err() != nil:
	case errors.Is(err, vault.ErrNotFound):
		q.fail(http.StatusNotFound, "refused", "Not found", "It may have been deleted, or it may have expired.")
	case errors.Is(err, vault.ErrInvalid), errors.Is(err, vault.ErrConflict), errors.Is(err, vault.ErrForbidden):
		_, detail := fault.Status(err)
		if bad, ok := errors.AsType[*vault.InvalidError](err); ok {
			detail = fault.Detail(bad)
		}
		q.fail(http.StatusBadRequest, "refused", "The request was refused", detail)
	case errors.Is(err, vault.ErrKeyDenied), errors.Is(err, vault.ErrKeyUnavailable):
		q.fail(http.StatusServiceUnavailable, "refused", "The vault is not available", "The master key, or the key of this tenant, is not available.")
	case errors.Is(err, vault.ErrUnavailable), errors.Is(err, vault.ErrBusy), errors.Is(err, vault.ErrClosed):
		q.fail(http.StatusServiceUnavailable, "refused", "The vault is not available", "Try again in a moment.")
	default:
		q.opts.Logger.ErrorContext(q.r.Context(), "console: a page failed", "error", err)
		q.fail(http.StatusInternalServerError, "refused", "Something went wrong", "The cause is in the program's log.")
	}
}

// seeOther sends the browser to a page after an action.
func (q *request) seeOther(path, message string) error {
	to := q.root() + path
	if message != "" {
		to += "?done=" + message
	}
	q.w.Header().Set("Location", to) // relative: http.Redirect would not know the prefix
	q.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// signOut ends the session of the user.
func (q *request) signOut() error {
	if q.opts.SignOut == nil {
		return vault.ErrNotFound
	}
	q.opts.SignOut(q.w, q.r)
	return q.seeOther("", "")
}

// id parses an id in the path. Other text gives the zero id, which no entity has.
func (q *request) id(name string) uuid.UUID {
	id, _ := uuid.Parse(q.r.PathValue(name))
	return id
}

// client returns a client that acts in the tenant of the path, for the user.
func (q *request) client() *vault.Owner {
	return q.vault.Tenant(q.id("tenant")).AsUser(q.user.ID).From(origin(q.r))
}

// inTenant returns a page or an action of the tenant in the path.
func inTenant(serve func(*request, *vault.Owner, *vault.Tenant) error) func(*request) error {
	return func(q *request) error {
		c := q.client()
		t, err := c.GetTenant(q.r.Context())
		if err != nil {
			return err
		}
		return serve(q, c, t)
	}
}

// act returns an action on the entity with the id in the path. It sends the browser
// to a page of the tenant, with a message.
func act(do func(*vault.Owner, context.Context, uuid.UUID) error, page, message string) func(*request) error {
	return func(q *request) error {
		if err := do(q.client(), q.r.Context(), q.id("id")); err != nil {
			return err
		}
		return q.seeOther(q.tenantPath()+page, message)
	}
}

// tenantPath returns the path of the tenant's pages.
func (q *request) tenantPath() string { return "tenants/" + q.id("tenant").String() }

// in returns the path from this page to the tenant's pages, with a slash at its end.
func (q *request) in() string { return q.root() + q.tenantPath() + "/" }
