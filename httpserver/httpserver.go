// Package httpserver puts a vault behind REST.
//
//	http.ListenAndServe(addr, httpserver.Handler(v, nil))
//
// [Handler] serves every endpoint of the API and fits on any mux:
//
//	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, nil)))
//
// A request is checked in a fixed order, and the first check that fails decides
// the response: the route (404, 405), the key (401), the permission (403), the
// rate limit (429), the content type (415), the size (413), room in memory (503),
// the body (400), and last the entity (404). A trailing slash makes no difference, and the API
// never redirects.
//
// Below /proxy the path belongs to the destination of a proxy and is forwarded
// unchanged. Requests and responses are streamed unless the vault has to look
// into them. A response with the header SVC-PROXY-DESTINATION-STATUS comes from
// the destination; one without it is an error of the proxy itself, under
// proxy_error, or, with SVC-CUSTOM-RESPONSE, a response that the code of a
// transform built. [Options.Prefix] changes the SVC- of this and all other
// headers.
//
// Every response has the trace id of its request. An error is JSON with title,
// status, detail and, if fields are wrong, errors; it names fields and rules
// and never repeats a value. The OpenAPI document is at /openapi.json.
//
// The server around the handler is the program's own: its timeouts, its TLS,
// its listener. examples/server shows a complete one. A middleware that wraps
// the ResponseWriter must give its own an Unwrap method, as
// [http.ResponseController] requires; without it there is no time limit on
// bodies, and responses of proxies are not streamed.
package httpserver

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Options adjusts a [Handler]. The zero value is safe and complete.
type Options struct {
	// Prefix starts the name of every header of the API's own: with "BT-" the
	// key is in BT-API-KEY. Default "SVC-".
	Prefix string

	// MaxBody limits the body of a request, in bytes. Default 5 MiB. The vault
	// has a limit of its own, [vault.Config.MaxBytes]. MaxBody does not apply
	// to what a proxy streams.
	MaxBody int64

	// MaxResponse limits the response to a read, in bytes: a larger one becomes
	// a 413 that asks for a smaller page. Default 64 MiB.
	MaxResponse int

	// BodyTimeout is how long the body of a request may take to arrive, and how
	// long a large response may take to send. Default 30 seconds; shorter
	// timeouts of the server apply too. It needs a ResponseWriter that can set
	// deadlines, as that of net/http can.
	BodyTimeout time.Duration

	// Origins lists the web origins whose pages may call the API, such as
	// "https://shop.example"; "*" means all. Default: none.
	Origins []string

	// TrustedProxies are the addresses of proxies in front of the API. A request
	// from one of them comes from the last address in its X-Forwarded-For that is
	// not a trusted proxy's; every other request comes from the address that it was
	// sent from. Log entries have that address as their origin. Default: none.
	TrustedProxies []netip.Prefix

	// Authenticate, if set, is asked first who sends a request, so that a user of
	// the program, with a session or an OIDC token of its own, can call the API
	// beside holders of API keys. It returns the client to act as, for example
	//
	//	return v.Tenant(tenant).AsUser(subject).As(r.Context(), application)
	//
	// and nil without an error for a request that is none of its own: then the
	// API key decides. [vault.ErrUnauthenticated] is a 401, as are errors that
	// wrap it, and [vault.ErrNotFound] of an application that is gone; an error
	// that is none of the vault's is a 500. A client has all the rights that it
	// has in Go: that of [vault.Vault.Tenant] may do everything.
	//
	// Below /proxy, the headers of the request go on to the destination. What
	// shows who the user is must not: there, Authenticate deletes it from the
	// header of its request, r.Header.Del("Authorization").
	Authenticate func(*http.Request) (*vault.Client, error)

	// RateLimit decides whether a caller may go on; if not, it says when to try
	// again. It is asked twice: with cost 1, once the caller's permission is
	// known, and, for a request that makes or uses several tokens, with the
	// number of the others, once the body is parsed and before they are worked
	// on. A tokenize of 4,000 values costs 4,000. Limiters in a database that
	// several servers share fit as well; the request's context bounds them.
	//
	// For a call of a proxy without an API key the client belongs to the proxy's
	// tenant, and has no application.
	// [EachApplication] returns a function that gives every application, and
	// every such proxy, the same limit. Default: no limit.
	RateLimit func(r *http.Request, c *vault.Client, cost int) (retryAfter time.Duration, ok bool)

	// Logger gets one line for each request: trace id, route, status, duration,
	// tenant and application, and for a 500 the cause. It never gets a body, a
	// query, a header or a key. Default: nothing is logged.
	Logger *slog.Logger

	// RawProxy passes the responses of proxies on as the destination sent them.
	// By default a browser cannot run them as pages of the API's origin: they
	// carry Content-Security-Policy: sandbox, X-Content-Type-Options: nosniff and
	// Cross-Origin-Resource-Policy: same-origin, lose headers that act on the
	// whole origin, such as Set-Cookie and Service-Worker-Allowed, and navigations,
	// frames, scripts and workers are refused with 403. The same holds for
	// responses that tenants' code builds, which cannot redirect either. Set
	// RawProxy only where no browser reaches the API.
	RawProxy bool

	// Observer, if set, is called for each request when it is done.
	Observer Observer
}

// Defaults of Options.
const (
	defaultPrefix      = "SVC-"
	defaultMaxBody     = 5 << 20
	defaultMaxResponse = 64 << 20
	defaultBodyTimeout = 30 * time.Second
)

// Check reports what is wrong with the options: a prefix that cannot start the
// name of a header, a negative limit, or an origin that no browser sends.
func (o *Options) Check() error {
	if o == nil {
		return nil
	}
	if strings.ContainsFunc(o.Prefix, func(r rune) bool { return !isHeaderRune(r) }) {
		return errors.New("httpserver: Options.Prefix may contain only letters, digits, - and _")
	}
	if o.MaxBody < 0 || o.MaxResponse < 0 || o.BodyTimeout < 0 {
		return errors.New("httpserver: the limits in Options must not be negative")
	}
	for _, origin := range o.Origins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	return nil
}

func isHeaderRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// withDefaults returns the options with defaults in place of zero values.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = defaultMaxResponse
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = defaultBodyTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler returns the REST API of a vault. opts may be nil; it panics with what
// [Options.Check] returns, as a bad pattern makes a mux panic. The handler
// needs no closing, and works until the vault is closed.
func Handler(v *vault.Vault, opts *Options) http.Handler {
	if err := opts.Check(); err != nil {
		panic(err)
	}
	h := &handler{vault: v, opts: opts.withDefaults(), mux: http.NewServeMux()}
	h.header = namesOf(h.opts.Prefix)
	h.origins = newOrigins(&h.opts, h.header)
	h.document = openAPI(h.opts.Prefix)
	h.unknown = &endpoint{handler: h, name: "unmatched"}
	h.proxy = &endpoint{handler: h, name: proxyPath}
	h.mux.Handle("/", h.unknown)
	for _, e := range h.endpoints() {
		h.mux.Handle(e.name, e)
	}
	return h
}

// handler is the REST API.
type handler struct {
	vault    *vault.Vault
	opts     Options
	header   headerNames
	origins  *origins // nil: cross-origin requests are off
	document []byte   // the OpenAPI document
	mux      *http.ServeMux
	unknown  *endpoint // handles every path that the API does not have
	proxy    *endpoint // takes every method and path below /proxy
}

// headerNames are the API's own headers in their canonical form.
type headerNames struct{ apiKey, idempotencyKey, replayed, traceID, destinationStatus, custom, jobID string }

func namesOf(prefix string) headerNames {
	name := func(s string) string { return http.CanonicalHeaderKey(prefix + s) }
	return headerNames{name("API-KEY"), name("IDEMPOTENCY-KEY"), name("IDEMPOTENT-REPLAYED"), name("TRACE-ID"), name("PROXY-DESTINATION-STATUS"), name("CUSTOM-RESPONSE"), name("JOB-ID")}
}

// ServeHTTP finds the endpoint of a path. The mux would redirect paths that are
// not clean, so they never reach it: a trailing slash is removed, and a path
// with empty or dot segments does not exist. The part after /proxy belongs to a
// destination and is not touched.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if suffix, ok := proxySuffix(r.URL); ok {
		h.serveProxy(w, r, suffix)
		return
	}
	path := r.URL.EscapedPath()
	if len(path) > 1 && strings.HasSuffix(path, "/") {
		path = path[:len(path)-1]
		r = withoutSlash(r)
	}
	if !isClean(path) {
		h.unknown.ServeHTTP(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// withoutSlash returns the request without the last character of its path.
func withoutSlash(r *http.Request) *http.Request {
	short, u := *r, *r.URL
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawPath = strings.TrimSuffix(u.RawPath, "/")
	short.URL = &u
	return &short
}

// isClean reports whether a path starts with a slash and has no segment that
// is empty, "." or "..".
func isClean(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "." || segment == ".." || segment == "" && rest != "" {
			return false
		}
	}
	return true
}
