package httpserver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// mergePatch is the content type of a merge patch (RFC 7386).
const mergePatch = "application/merge-patch+json"

// exchange is one request and its response.
type exchange struct {
	*endpoint
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // the request's context, with its trace id
	trace  string
	route  *route        // nil until the route is known
	in     input         // the parts of the request that the operation needs
	client *vault.Client // nil until the caller is identified
	room   *admission.Room
	read   bool   // the body has been read to its end
	reason string // why a JWT was refused, which the caller does not learn
	cause  error  // why a response could not be completed after it was begun
}

// answer is a response before it is sent.
type answer struct {
	status   int
	location string      // path of the created entity
	header   http.Header // more headers, by canonical name
	body     []byte
	streamed int  // bytes of a body that was streamed
	replayed bool // the response was stored by an earlier request
	sent     bool // the response has been sent
}

// ServeHTTP handles a request to the endpoint.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	x := &exchange{endpoint: e, w: w, r: r}
	x.ctx, x.trace = e.handler.traced(r)
	defer x.end()
	a, cause := x.answer()
	x.in = input{} // free it now, because the caller may be slow to read the response
	if !a.sent {
		x.send(a)
	}
	cause = cmp.Or(cause, x.cause)
	if cause != nil && r.Context().Err() != nil {
		a.status, cause = trace.StatusGone, nil // the caller's fault, not the server's
	}
	x.report(a, cause, time.Since(start))
}

// answer returns the response to the request, and the cause if the server
// failed. A panic counts as a server failure and ends only this request.
func (x *exchange) answer() (a answer, cause error) {
	defer func() {
		if p := recover(); p != nil {
			a, cause = refuse(fault.Panic(p), x.handler.logs)
		}
	}()
	a, err := x.handle()
	if err != nil {
		return x.refuse(err)
	}
	return a, nil
}

// handle checks the request step by step and runs its operation.
func (x *exchange) handle() (answer, error) {
	h := x.handler
	allowed := h.origins.admit(x.w.Header(), x.r)
	if len(x.routes) == 0 {
		return answer{}, errNoRoute
	}
	if allowed && isPreflight(x.r) {
		return answer{status: http.StatusNoContent, header: h.origins.preflight(x.allow)}, nil
	}
	if x.route = x.routes[x.r.Method]; x.route == nil {
		return answer{}, &refusal{errMethod, http.Header{"Allow": {x.allow}}}
	}
	if !x.route.open {
		if err := x.enter(); err != nil {
			return answer{}, err
		}
	}
	if x.route.stream != nil {
		if _, ok := x.r.Header[h.header.idempotencyKey]; ok && !x.route.reads {
			return answer{}, invalid("", "An import takes no %s: rows with an id, or the parameter name for those without, are not imported twice.", h.header.idempotencyKey)
		}
		return x.route.stream(x)
	}
	if srv := x.server(); x.route.waits && srv != nil && srv.WriteTimeout > 0 {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(maxWait + srv.WriteTimeout))
	}
	in := &x.in
	if err := x.input(in); err != nil {
		return answer{}, err
	}
	if keys, ok := x.r.Header[h.header.idempotencyKey]; ok && x.route.once() {
		if len(keys) > 1 {
			return answer{}, invalid("", "The request must have one %s header, not %d.", h.header.idempotencyKey, len(keys))
		}
		return x.once(keys[0], in)
	}
	return x.run(x.ctx, in)
}

// enter identifies the caller and checks that it may call this route.
func (x *exchange) enter() error {
	client, err := x.caller()
	if err != nil {
		return err
	}
	if client == nil {
		return vault.ErrUnauthenticated
	}
	x.client = client
	if permission := x.route.permission(); permission != "" {
		caller := core.CallerOf(x.client)
		if err := caller.May(x.ctx, permission); err != nil {
			caller.Denied(x.ctx, x.route.method+" "+x.route.path, permission, err)
			return err
		}
	}
	return x.admit(x.client)
}

// admit checks the rate limit and starts the admission in which the request
// is handled.
func (x *exchange) admit(c *vault.Client) error {
	var count func(tokens int) error
	if x.handler.opts.RateLimit != nil {
		count = func(tokens int) error { return x.handler.slowDown(x.r, c, tokens) }
		if err := count(1); err != nil {
			return err
		}
		if x.route != nil && x.route.stream != nil {
			count = x.waitFor
		}
	}
	x.room = core.CallerOf(c).Room(count)
	x.ctx = x.room.In(x.ctx)
	return nil
}

// end releases what the request held.
func (x *exchange) end() { x.room.Leave() }

// caller returns the client that [Options.Authenticate] chose, or the client
// of the API key. It returns nil for a request with neither.
func (x *exchange) caller() (client *vault.Client, err error) {
	h := x.handler
	if h.opts.Authenticate != nil {
		client, err = h.opts.Authenticate(x.r.WithContext(x.ctx))
		if errors.Is(err, vault.ErrNotFound) {
			err = vault.ErrUnauthenticated // the application that the user acts as was deleted; the path exists
		}
		if client != nil && err == nil {
			err = x.checkSite()
		}
	}
	keys, given := x.r.Header[h.header.apiKey]
	applications, byJWT := x.r.Header[h.header.application]
	switch {
	case client == nil && err == nil && given && byJWT:
		return nil, invalid("", "The request must have one of %s and %s, not both.", h.header.apiKey, h.header.application)
	case client != nil || err != nil || !given && !byJWT:
	case !given && x.route == nil: // below /proxy, Authorization belongs to the destination
	case !given:
		jwt, ok := bearer(x.r.Header["Authorization"])
		if !ok || len(applications) != 1 {
			return nil, vault.ErrUnauthenticated
		}
		client, err = h.vault.Authenticate(x.ctx, applications[0]+":"+jwt)
	case len(keys) != 1:
		err = vault.ErrUnauthenticated // it is unclear which key is meant
	default:
		client, err = h.vault.Authenticate(x.ctx, keys[0])
	}
	if err != nil || client == nil {
		x.reason = fault.Reason(err)
		return nil, err
	}
	return client.From(originOf(x.r, h.opts.TrustedProxies)), nil
}

// bearer returns the token of an Authorization header.
func bearer(headers []string) (token string, ok bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// slowDown returns an error if the rate limit is exceeded.
func (h *handler) slowDown(r *http.Request, c *vault.Client, cost int) error {
	wait, ok := h.opts.RateLimit(r, c, cost)
	if ok {
		return nil
	}
	seconds := min(max(1, math.Ceil(wait.Seconds())), maxRetryAfter)
	return &refusal{errRateLimit, http.Header{headerRetryAfter: {strconv.Itoa(int(seconds))}}}
}

// maxRetryAfter is the largest value of Retry-After, in seconds.
const maxRetryAfter = 3600

// input reads the parts of the request that the operation needs.
func (x *exchange) input(in *input) (err error) {
	*in = input{client: x.client, room: x.room, id: x.r.PathValue("id"), keyID: x.r.PathValue("keyId")}
	if x.route.lists {
		in.query = x.r.URL.RawQuery
	}
	in.shown = x.route.silent && prefersBody(x.r.Header["Prefer"]) && x.mayRead()
	if x.route.takes == noBody {
		return nil
	}
	if x.route.takes == patchBody && !isMergePatch(x.r.Header.Get("Content-Type")) {
		return &refusal{errMediaType, http.Header{"Accept-Patch": {mergePatch}}}
	}
	in.body, err = x.body()
	return err
}

// prefersBody reports whether the caller wants the changed entity in the
// response (RFC 7240). Of several such preferences the first one counts.
func prefersBody(prefer []string) bool {
	for _, header := range prefer {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(name), "return") {
				return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "representation")
			}
		}
	}
	return false
}

// mayRead reports whether the caller may read the entity that it changes. If
// it may not, its preference is ignored and the response has no body.
func (x *exchange) mayRead() bool {
	kind, _, _ := strings.Cut(x.route.permission(), ":")
	return core.CallerOf(x.client).May(x.ctx, kind+":read") == nil
}

func isMergePatch(contentType string) bool {
	if contentType == mergePatch {
		return true
	}
	typ, _, err := mime.ParseMediaType(contentType)
	return err == nil && typ == mergePatch
}

func (x *exchange) run(ctx context.Context, in *input) (answer, error) {
	shows := showsTransform(x.r.URL.RawQuery)
	if shows {
		ctx = token.WithTransform(ctx) // for whole tokens of expressions
	}
	body, err := x.route.run(ctx, in)
	if err != nil {
		return answer{}, err
	}
	if !shows {
		hideTransform(body)
	}
	a := answer{status: x.route.status}
	if x.route.created {
		a.location = mountOf(x.r) + x.route.location(in.id, idOf(body))
	}
	job, queued := body.(*vault.Job)
	switch {
	case queued:
		a.status, a.header, body = http.StatusAccepted, http.Header{x.handler.header.jobID: {job.ID.String()}}, nil
	case in.shown:
		a.status = http.StatusOK
	case x.route.silent:
		body = nil
	}
	if a.body, err = x.encode(ctx, body); err != nil {
		return answer{}, err
	}
	if limit := x.handler.opts.MaxResponse; x.route.reads && len(a.body) > limit {
		return answer{}, fault.New(vault.ErrTooLarge, "the response would have more than %d bytes; ask for less at a time", limit)
	}
	return a, nil
}

// once runs the operation at most once for an idempotency key.
func (x *exchange) once(key string, in *input) (answer, error) {
	scope := x.r.Method + " " + x.r.URL.Path
	stored, replayed, err := x.client.Once(x.ctx, vault.IdempotencyKey{Scope: scope, Key: key, Lease: x.route.lease},
		func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			within := *in
			within.client = c
			a, err := x.run(ctx, &within)
			if err == nil {
				return vault.StoredResponse{Status: a.status, Header: a.storedHeader(), Body: a.body}, nil
			}
			if a, _ := x.refuse(err); choseAnswer(err) && a.status < http.StatusBadRequest {
				return vault.StoredResponse{Status: a.status, Header: a.header, Body: a.body}, nil
			}
			return vault.StoredResponse{}, err
		})
	return answer{status: stored.Status, header: stored.Header, body: stored.Body, replayed: replayed}, err
}

// storedHeader returns the headers that are stored with a response.
func (a *answer) storedHeader() http.Header {
	if a.location == "" {
		return a.header
	}
	header := http.Header{headerLocation: {a.location}}
	maps.Copy(header, a.header)
	return header
}

const (
	headerLocation   = "Location"
	headerRetryAfter = "Retry-After"
)

// mountOf returns the path under which the handler is mounted: the part of the
// requested path that was stripped before the handler saw it.
func mountOf(r *http.Request) string {
	sent, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(sent, "/") { // with scheme and host, as to a proxy
		_, rest, _ := strings.Cut(sent, "://")
		_, path, _ := strings.Cut(rest, "/")
		sent = "/" + path
	}
	mount, ok := strings.CutSuffix(strings.TrimSuffix(sent, "/"), r.URL.EscapedPath())
	if !ok {
		return ""
	}
	return mount
}

// send writes the response. It forbids caches to store it.
func (x *exchange) send(a answer) {
	x.room.Rest()
	if !x.read && x.r.ContentLength != 0 {
		// The server reads and drops some of the remaining body, so that the
		// caller gets to see the response. That must not take long.
		x.deadline(time.Now().Add(min(relay.LingerTimeout, x.bodyTimeout())))
	}
	x.setHeaders(&a)
	x.w.WriteHeader(a.status)
	if len(a.body) > largeAnswer {
		defer x.boundSending()()
	}
	_, _ = x.w.Write(a.body) // if the caller has gone, there is no one to report the error to
}

// boundSending limits how long sending a response may take, on a server
// without a write timeout.
func (x *exchange) boundSending() (end func()) {
	if srv := x.server(); srv == nil || srv.WriteTimeout != 0 {
		return func() {}
	}
	control := http.NewResponseController(x.w)
	_ = control.SetWriteDeadline(time.Now().Add(x.handler.opts.BodyTimeout))
	return func() { _ = control.SetWriteDeadline(time.Time{}) }
}

// largeAnswer is the size in bytes above which sending a response has a time
// limit.
const largeAnswer = 64 << 10

// setHeaders sets the headers of a response that have a value. All values share one array, so
// that setting them needs a single allocation.
func (x *exchange) setHeaders(a *answer) {
	names := [...]string{"Cache-Control", "X-Content-Type-Options", x.handler.header.traceID,
		headerLocation, x.handler.header.replayed, "Content-Type", "Content-Length"}
	values := []string{"no-store", "nosniff", x.trace, a.location, "", "", ""}
	if a.replayed {
		values[4] = "true"
	}
	if len(a.body) > 0 {
		values[5] = "application/json"
	}
	if a.status != http.StatusNoContent {
		values[6] = strconv.Itoa(len(a.body))
	}
	header := x.w.Header()
	header["Date"] = []string{x.handler.vault.Now().Format(http.TimeFormat)} // see vaultclient.Client.Now
	for i, name := range names {
		if values[i] != "" {
			header[name] = values[i : i+1 : i+1]
		}
	}
	maps.Copy(header, a.header)
}

// originOf returns the address that a request comes from. Each proxy appends
// the address of its caller to X-Forwarded-For. So originOf reads the list from
// its end, as long as a trusted proxy wrote the address.
func originOf(r *http.Request, trusted []netip.Prefix) string {
	host := r.RemoteAddr
	if host == "" {
		return "" // not from a connection
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	at = at.Unmap().WithZone("")
	if contains(trusted, at) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			next, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break // earlier addresses may be forged
			}
			if at = next.Unmap().WithZone(""); !contains(trusted, at) {
				break
			}
		}
	}
	var room [64]byte
	if text := at.AppendTo(room[:0]); string(text) != host {
		return string(text)
	}
	return host // most requests need no allocation
}

func contains(prefixes []netip.Prefix, at netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
}
