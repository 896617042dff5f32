package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

// Config is the configuration of a Relay. All fields are required.
type Config struct {
	Vault  *core.Vault
	Egress *egress.Client
	Runs   *runs.Runs // runs the transforms
	// Timeout is how long a destination may take to start its response, and
	// between one part of the response and the next.
	Timeout time.Duration
}

// Relay manages proxies and sends requests through them. Create it with New.
type Relay struct {
	Config
	// Proxies creates and changes proxies.
	Proxies *ProxyCollection

	open *core.Cache[storage.Key, *Proxy] // by the hashes of their keys
}

// New returns the relay of a vault.
func New(cfg Config) *Relay {
	r := &Relay{Config: cfg, open: core.NewCache[storage.Key, *Proxy]()}
	r.Proxies = r.newProxies()
	return r
}

// Call is a request through a proxy.
type Call struct {
	Key, URL      string // key of a stored proxy, or URL of an ephemeral one
	Method        string // default GET
	Path, Query   string // appended to the path and query of the destination, unchanged
	Header        http.Header
	Body          io.Reader // may be nil
	ContentLength int64     // of Body; 0 and -1 mean unknown
	MaxBody       int64     // limit for a body that has to be held in memory

	// KeepAlive and Connection, if not empty, are sent in the headers with
	// these names.
	KeepAlive, Connection string
	// asIs means that nothing is replaced: text that looks like an expression is data.
	asIs bool
	// boundOnly is set for the forward proxy.
	boundOnly bool
}

// Answer is the response of a destination. Its body is streamed, unless a
// transform created it, and must be closed.
type Answer struct {
	Status int
	Header http.Header
	Body   io.ReadCloser
}

// invocation is a request through a proxy in progress.
type invocation struct {
	*core.Op
	*Call
	relay *Relay
	proxy *Proxy
	out   Request // the request to the destination
	echo  *Echo   // cleans the response; nil if the caller may see all data that was sent
}

// Ids in the log for a proxy that is not stored, and for the forward proxy.
const (
	ephemeral = "ephemeral"
	forwarded = "forward"
)

// invoke sends a request through a proxy to the destination, and returns the
// response. It replaces expressions by the data of tokens, and runs the proxy's
// transforms.
func (r *Relay) invoke(ctx context.Context, op *core.Op, x *Proxy, p *Call) (*Answer, error) {
	if p.MaxBody <= 0 {
		p.MaxBody = int64(op.Vault.MaxBytes)
	}
	p.Method = cmp.Or(p.Method, http.MethodGet)
	inv := &invocation{Op: op, Call: p, relay: r, proxy: x}
	if err := inv.prepare(ctx); err != nil {
		return nil, err
	}
	if err := inv.detokenizeOrStream(ctx); err != nil {
		return nil, err
	}
	if x.RequestTransform != nil {
		if err := inv.transformRequest(ctx); err != nil {
			return nil, err
		}
	}
	res, err := inv.send(ctx)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 {
		res.Body.Close()
		return nil, fault.New(fault.ErrUnreachable, "the destination sent an invalid HTTP status")
	}
	egress.RemoveHopByHop(res.Header)
	DropPrefixed(res.Header, trace.Prefix(ctx))
	transforms := x.ResponseTransform != nil && res.StatusCode <= 299
	if transforms {
		Hurry(res)
	}
	if err := inv.echo.Clean(res); err != nil {
		return nil, err
	}
	if transforms {
		return inv.transformResponse(ctx, res)
	}
	if res.StatusCode == http.StatusNoContent {
		res.Header.Del("Content-Length")
	}
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}

// prepare determines the URL and the headers of the request.
func (inv *invocation) prepare(ctx context.Context) error {
	switch {
	case inv.Method == http.MethodConnect:
		return fault.Field("method", "must not be CONNECT")
	case !egress.ValidMethod(inv.Method):
		return fault.Field("method", "must be the name of an HTTP method")
	}
	if !slices.Contains([]string{"", "keep-alive", "close"}, strings.ToLower(inv.Connection)) {
		return fault.Field(field(ctx, "connection"), "must be keep-alive or close")
	}
	base, err := inv.relay.Egress.CheckURL(inv.proxy.DestinationURL)
	if err != nil {
		// The policy has changed since the proxy was written.
		return fault.New(fault.ErrUnreachable, "the destination is not allowed: %s", err)
	}
	target, bad := Extend(base, inv.Path, inv.Query)
	if bad != nil {
		return fault.Of(bad)
	}
	header := http.Header{}
	for name, values := range inv.Header {
		name = http.CanonicalHeaderKey(name)
		header[name] = append(header[name], values...)
	}
	egress.RemoveHopByHop(header)
	DropPrefixed(header, trace.Prefix(ctx))
	for _, name := range []string{"Host", "Content-Length", "Expect"} {
		header.Del(name)
	}
	inv.out = Request{Method: inv.Method, URL: target, Message: Message{Header: header}, BodyOnly: !inv.boundOnly, BoundOnly: inv.boundOnly}
	return inv.checkHeader()
}

// checkHeader checks the headers for the destination.
func (inv *invocation) checkHeader() error {
	if err := egress.CheckHeader(inv.out.Header); err != nil {
		return fault.Field("headers", "%s", err.Error())
	}
	return nil
}

// send calls the destination and returns its response. The body is not read
// yet.
func (inv *invocation) send(ctx context.Context) (*http.Response, error) {
	admission.Of(ctx).Rest()
	header := inv.out.Header
	if inv.proxy.ResponseTransform != nil {
		header.Set("Accept-Encoding", "identity") // so that the transform can read it
	}
	if !inv.boundOnly { // the program's own headers stay as they are
		trace.Of(ctx).SetHeaders(header)
	}
	if inv.KeepAlive != "" {
		header.Set("Keep-Alive", inv.KeepAlive)
	}
	switch connection := strings.ToLower(inv.Connection); connection {
	case "close":
		inv.out.Close = true
	case "keep-alive":
		header.Set("Connection", connection)
	}
	if inv.echo != nil {
		inv.out.Close = true // net/http prints what arrives on an idle connection
	}
	if err := inv.checkHeader(); err != nil {
		return nil, err
	}
	stranger := core.LineageOf(ctx).Stranger
	if stranger == "" && inv.IsStranger() {
		stranger = inv.Identity.Proxy().String()
	}
	return inv.relay.send(ctx, inv.Tenant().String(), stranger, &inv.out)
}

// sendError converts an error of sending to an error of the vault.
func sendError(ctx context.Context, err error) error {
	silent := errors.Is(context.Cause(ctx), ErrSilent)
	switch left := fault.CallerLeft(ctx); {
	case left != nil && !silent:
		return left
	case errors.Is(err, egress.ErrTooLong):
		return fault.New(fault.ErrTimeout, "%s", egress.ErrTooLong)
	case silent, errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.ErrTimeout, "the destination did not respond in time")
	case errors.Is(err, egress.ErrBusy):
		return fault.New(fault.ErrBusy, "this tenant has too many requests in progress; try again later")
	case errors.Is(err, egress.ErrForbidden):
		return fault.New(fault.ErrUnreachable, "the destination is not allowed: %s", err)
	default:
		return fault.New(fault.ErrUnreachable, "the destination could not be reached, or its response was cut off or is not HTTP")
	}
}

// detokenizeOrStream replaces the expressions of the request. If the body needs
// neither detokenization nor a transform, it is not read. The invocation is
// logged.
func (inv *invocation) detokenizeOrStream(ctx context.Context) error {
	entered := core.Entity{Type: audit.Proxy, ID: ephemeral}
	switch {
	case inv.proxy.ID != uuid.UUID{}:
		entered.ID = inv.proxy.ID.String()
	case inv.boundOnly:
		entered.ID = forwarded
	}
	format, _ := FormatOf(inv.out.Header)
	if format == Opaque && inv.proxy.RequestTransform == nil {
		inv.out.Stream, inv.out.ContentLength = inv.Body, inv.ContentLength
		return inv.detokenize(ctx, entered)
	}
	if inv.ContentLength > inv.MaxBody {
		return TooLarge(inv.MaxBody)
	}
	raw, err := inv.readBody(ctx)
	if err != nil {
		return err
	}
	// A slow caller may take longer than keys may be used.
	if err := inv.Refresh(ctx); err != nil {
		return err
	}
	inv.out.Message.Body = raw
	return inv.detokenize(ctx, entered)
}

// detokenize replaces the expressions of the request, unless they are data. The
// code of a request transform would see the data, so it goes to no destination.
func (inv *invocation) detokenize(ctx context.Context, entered core.Entity) (err error) {
	if inv.asIs {
		return inv.LogReads(ctx, audit.Use, entered)
	}
	to := access.TargetOf(inv.out.URL, inv.Vault.AllowPrivate)
	if inv.proxy.RequestTransform != nil {
		to = ""
	}
	inv.echo, err = Detokenize(ctx, inv.Op, &inv.out, to, entered)
	return err
}

// TooLarge returns the error for a body that has to be held in memory and is
// longer than the limit.
func TooLarge(limit int64) error {
	return fault.New(fault.ErrTooLarge, "the body must have at most %d bytes", limit)
}

// readBody reserves memory for the body of the request and reads it.
func (inv *invocation) readBody(ctx context.Context) ([]byte, error) {
	room := admission.Of(ctx)
	most := inv.MaxBody
	if inv.ContentLength > 0 {
		most = inv.ContentLength
	}
	if err := room.Arrive(ctx, int(most)); err != nil {
		return nil, err
	}
	raw, err := ReadBody(inv.Body, inv.MaxBody)
	if err != nil {
		return nil, err
	}
	room.Arrived()
	return raw, room.Body(ctx, len(raw)+jsonx.Weight(raw))
}
