// Package httpserver serves a vault as a REST API.
//
//	http.ListenAndServe(addr, httpserver.Handler(v, nil))
//
// [Handler] serves every endpoint of the API and fits on any mux:
//
//	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, nil)))
//
// Requests are checked in a fixed order, and the first check that fails
// decides the response:
//
//  1. the route (404, 405), the key (401) and the permission (403),
//  2. the rate limit (429),
//  3. the content type (415), the size (413) and room in memory (503),
//  4. the body (400), and last the entity (404).
//
// A trailing slash makes no difference, and the API never redirects.
//
// Below /proxy, the path belongs to the destination of a proxy and is
// forwarded unchanged. Requests and responses are streamed unless the vault
// has to inspect them. A response with the header
// SVC-PROXY-DESTINATION-STATUS comes from the destination. A response with
// SVC-CUSTOM-RESPONSE was built by the code of a transform. A response with
// neither is an error of the proxy itself, under proxy_error.
// [Options.Prefix] replaces the SVC- in the names of all headers.
//
// Every response has the trace id of its request. An error is JSON with
// title, status, detail and, if fields are wrong, errors. It names fields and
// rules and never repeats a value. The OpenAPI document is at /openapi.json.
//
// The program provides the server: its timeouts, TLS and listener.
// examples/server is a complete one. If middleware wraps the ResponseWriter,
// its writer must have an Unwrap method, as [http.ResponseController]
// requires. Otherwise bodies have no time limit, and responses of proxies are
// not streamed.
package httpserver

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Options configures a [Handler]. The zero value is safe and complete.
type Options struct {
	// Prefix starts the name of each of the API's headers. With "BT-", the
	// API key is in BT-API-KEY. Default "SVC-".
	Prefix string

	// MaxBody limits the body of a request, in bytes. Default 5 MiB. The
	// vault enforces [vault.Config.MaxBytes] as well. MaxBody does not apply
	// to bodies that a proxy streams.
	MaxBody int64

	// MaxResponse limits the response to a read, in bytes. A larger response
	// becomes a 413 that tells the caller to request a smaller page. Default
	// 64 MiB.
	MaxResponse int

	// BodyTimeout is how long the body of a request may take to arrive, and
	// how long a large response may take to send. Default 30 seconds; shorter
	// timeouts of the server apply too. It needs a ResponseWriter that can
	// set deadlines, such as the one of net/http.
	//
	// A body that is streamed through a proxy gets one more second for each
	// 1,024 bytes, and an import for each 128 bytes outside blank lines. No
	// pause may be longer than BodyTimeout.
	BodyTimeout time.Duration

	// Origins lists the web origins whose pages may call the API, such as
	// "https://shop.example"; "*" means all. Default: none.
	Origins []string

	// TrustedProxies are the addresses of proxies in front of the API. They
	// decide the origin in log entries. For a request from a trusted proxy,
	// the origin is the last address in X-Forwarded-For that is not a trusted
	// proxy. For any other request, it is the address of the sender. Default:
	// none.
	TrustedProxies []netip.Prefix

	// Authenticate, if set, is called first to identify the sender of a
	// request. With it, users of the program can call the API with the
	// program's own sessions or OIDC tokens, next to holders of API keys. It
	// returns the client to act as, for example
	//
	//	return v.Tenant(tenant).AsUser(subject).As(r.Context(), application)
	//
	// It returns nil without an error for a request that it does not
	// recognize; then the API key decides. [vault.ErrUnauthenticated] and
	// errors that wrap it become a 401. So does [vault.ErrNotFound], because
	// it means that the application was deleted. An error that does not come
	// from the vault becomes a 500. A client has all the rights that it has
	// in Go: a client from [vault.Vault.Tenant] may do everything.
	//
	// Below /proxy, the headers of the request are forwarded to the
	// destination, including headers that identify the user. Authenticate must
	// delete these headers from its request there:
	// r.Header.Del("Authorization").
	//
	// A browser sends cookies with requests of any page. So a request that
	// Authenticate recognizes must not come from a page of another origin: see
	// CrossOrigin.
	Authenticate func(*http.Request) (*vault.Client, error)

	// CrossOrigin decides which pages of other origins may act for a user that
	// Authenticate recognizes. The requests of other pages get a 403, except
	// GET, HEAD and OPTIONS outside of /proxy. Requests with an API key are
	// not checked. By default, pages of this origin and of
	// Origins may act for a user; "*" in Origins counts for API keys alone.
	//
	// A program whose users never sign in with a cookie, or that checks
	// requests itself, sets a protection with AddInsecureBypassPattern("/").
	CrossOrigin *http.CrossOriginProtection

	// RateLimit decides whether a caller may proceed. If not, it returns when
	// to try again. It is called with cost 1 once the permission has been
	// checked. For a request that creates or uses several tokens, it is
	// called a second time, after the body is parsed and before work starts.
	// The cost is then the number of the other tokens, so that tokenizing
	// 4,000 values costs 4,000 in total. RateLimit may query a database that
	// several servers share, with the context of r.
	//
	// For a proxy call without an API key, the client belongs to the proxy's
	// tenant and has no application. [EachApplication] returns a function
	// that gives every application, and every such proxy, the same limit.
	// Default: no limit.
	RateLimit func(r *http.Request, c *vault.Client, cost int) (retryAfter time.Duration, ok bool)

	// Logger gets one line for each request: trace id, route, status,
	// duration, tenant and application, and for a 500 the cause. It never
	// gets a body, a query, a header or a key. Default: no logging.
	Logger *slog.Logger

	// RawProxy forwards the responses of proxies as the destination sent
	// them. Set it only where no browser reaches the API.
	//
	// By default a browser cannot run these responses as pages of the API's
	// origin. They get Content-Security-Policy: sandbox,
	// X-Content-Type-Options: nosniff and Cross-Origin-Resource-Policy:
	// same-origin. They lose headers that act on the whole origin, such as
	// Set-Cookie and Service-Worker-Allowed. Navigations, frames, scripts and
	// workers get a 403, and destinations do not get the cookies of a browser.
	// Responses that tenants' code builds are treated in the same way, and
	// cannot redirect either.
	RawProxy bool

	// Observer, if set, is called after each request.
	Observer Observer

	// Drain, if set, makes /readyz a 503 while the server is being stopped.
	Drain *Drain

	// ReadyWithoutKey keeps /readyz at 200 while this node may not use the master key.
	// By default it is a 503 then, so that a node that alone has lost its credentials
	// gets no requests.
	ReadyWithoutKey bool
}

// unmatched is the route of a request that no pattern matches.
const unmatched = "unmatched"

// Defaults of Options.
const (
	defaultPrefix      = "SVC-"
	defaultMaxBody     = 5 << 20
	defaultMaxResponse = 64 << 20
	defaultBodyTimeout = 30 * time.Second
)

// Check returns an error for invalid options: a prefix that cannot start the
// name of a header, a negative limit, or an origin that no browser sends.
func (o *Options) Check() error {
	if o == nil {
		return nil
	}
	if strings.Trim(o.Prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
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

// withDefaults returns the options with defaults in place of zero values.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.MaxResponse = cmp.Or(c.MaxResponse, defaultMaxResponse)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, defaultBodyTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler returns the REST API of a vault. opts may be nil. Handler panics if
// [Options.Check] returns an error. The handler does not need to be closed;
// it works until the vault is closed.
func Handler(v *vault.Vault, opts *Options) http.Handler {
	if err := opts.Check(); err != nil {
		panic(err)
	}
	h := &handler{vault: v, opts: opts.withDefaults(), mux: http.NewServeMux(), importPause: defaultImportPause}
	h.logs = opts != nil && opts.Logger != nil
	h.header = namesOf(h.opts.Prefix)
	h.origins = newOrigins(&h.opts, h.header)
	h.sites = newSites(&h.opts)
	h.document = openAPI(h.opts.Prefix)
	h.unknown = &endpoint{handler: h, name: unmatched}
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
	origins  *origins // nil if cross-origin requests are off
	sites    *http.CrossOriginProtection
	document []byte // the OpenAPI document
	mux      *http.ServeMux
	unknown  *endpoint // handles every path that the API does not have
	proxy    *endpoint // handles every method and path below /proxy
	logs     bool      // the causes of server errors are logged

	importPause time.Duration
}

// headerNames are the API's own headers in their canonical form.
type headerNames struct{ apiKey, application, idempotencyKey, replayed, traceID, destinationStatus, custom, jobID string }

func namesOf(prefix string) headerNames {
	name := func(s string) string { return http.CanonicalHeaderKey(prefix + s) }
	return headerNames{name("API-KEY"), name("APPLICATION"), name("IDEMPOTENCY-KEY"), name("IDEMPOTENT-REPLAYED"), name("TRACE-ID"), name("PROXY-DESTINATION-STATUS"), name("CUSTOM-RESPONSE"), name("JOB-ID")}
}

// ServeHTTP finds the endpoint of a path. It never passes an unclean path to
// the mux, because the mux would redirect. A trailing slash is removed, and a
// path with empty or dot segments does not exist. The part after /proxy
// belongs to a destination and stays unchanged.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.opts.Drain.draining() {
		w.Header().Set("Connection", "close") // the next request goes to another server
	}
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
