package relay

import (
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// invocation is a request through a proxy in progress.
type invocation struct {
	*core.Op
	*Call
	relay *Relay
	proxy *Proxy
	out   Request // the request to the destination
	echo  *Echo   // cleans the response; nil if the caller may see all data that was sent
}

// invoke sends a request through a proxy to the destination, and returns the
// response. The steps are the functions below, in this order: parse, judge, fill in,
// send, search and answer. The proxy's transforms run before the request is sent and
// after the response is searched.
func (r *Relay) invoke(ctx context.Context, op *core.Op, x *Proxy, p *Call) (*Answer, error) {
	if p.MaxBody <= 0 {
		p.MaxBody = int64(op.Vault.MaxBytes)
	}
	p.Method = cmp.Or(p.Method, http.MethodGet)
	inv := &invocation{Op: op, Call: p, relay: r, proxy: x}
	if err := inv.parse(ctx); err != nil {
		return nil, err
	}
	if err := inv.detokenize(ctx); err != nil {
		return nil, err
	}
	answer, err := inv.exchange(ctx)
	if err != nil {
		inv.echo.Close()
	}
	return answer, err
}

// parse determines the URL, the headers and the body of the request.
func (inv *invocation) parse(ctx context.Context) error {
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
	if err := inv.checkHeader(); err != nil {
		return err
	}
	return inv.parseBody(ctx)
}

// checkHeader checks the headers for the destination.
func (inv *invocation) checkHeader() error {
	if err := egress.CheckHeader(inv.out.Header); err != nil {
		return fault.Field("headers", "%s", err.Error())
	}
	return nil
}

// parseBody reads the body, unless it can have no expressions and is not transformed.
// Such a body is streamed.
func (inv *invocation) parseBody(ctx context.Context) error {
	format, _ := FormatOf(inv.out.Header)
	if format == Opaque && inv.proxy.RequestTransform == nil {
		inv.out.Stream, inv.out.ContentLength = inv.Body, inv.ContentLength
		return nil
	}
	if inv.ContentLength > inv.MaxBody {
		return TooLarge(inv.MaxBody)
	}
	raw, err := inv.readBody(ctx)
	if err != nil {
		return err
	}
	inv.out.Message.Body = raw
	return inv.Resume(ctx) // a slow caller may take longer than its rights or keys last
}

// readBody reserves memory for the body of the request and reads it. A small body is
// charged when it has arrived.
func (inv *invocation) readBody(ctx context.Context) ([]byte, error) {
	room := admission.Of(ctx)
	most := inv.MaxBody
	if inv.ContentLength > 0 {
		most = inv.ContentLength
	}
	if most > admission.LargeText {
		if err := room.Arrive(ctx, int(most)); err != nil {
			return nil, err
		}
	}
	raw, err := ReadBody(inv.Body, inv.MaxBody)
	if err != nil {
		return nil, err
	}
	if len(raw) < admission.LargeText {
		return raw, room.Parse(ctx, raw)
	}
	room.Arrived()
	return raw, room.Body(ctx, len(raw)+jsonx.Weight(raw))
}

// TooLarge returns the error for a body that has to be held in memory and is
// longer than the limit.
func TooLarge(limit int64) error {
	return fault.New(fault.ErrTooLarge, "the body must have at most %d bytes", limit)
}

// Ids in the log for a proxy that is not stored, and for the forward proxy.
const (
	ephemeral = "ephemeral"
	forwarded = "forward"
)

// detokenize replaces the expressions of the request, unless they are data. The
// code of a request transform would see the data, so it goes to no destination.
func (inv *invocation) detokenize(ctx context.Context) (err error) {
	entered := core.Entity{Type: audit.Proxy, ID: ephemeral}
	switch {
	case inv.proxy.ID != uuid.UUID{}:
		entered.ID = inv.proxy.ID.String()
	case inv.boundOnly:
		entered.ID = forwarded
	}
	if inv.asIs {
		return inv.LogReads(ctx, audit.Use, entered)
	}
	to := access.TargetOf(inv.Method, inv.out.URL, inv.Vault.AllowPrivate)
	if inv.proxy.RequestTransform != nil {
		to = access.Target{}
	}
	inv.echo, err = Detokenize(ctx, inv.Op, &inv.out, to, entered)
	return err
}

// Detokenize replaces the expressions of a request by the data of tokens, which
// goes to the target. It changes the request in place, and logs the use of the
// tokens and of the other given entities.
//
// It replaces expressions in the body. If the caller may send the data of one of
// the tokens but not see it, the request is bound: the expressions in its headers
// and query are replaced too, and the Echo removes the data from the response.
// Otherwise the Echo is nil.
func Detokenize(ctx context.Context, op *core.Op, r *Request, to access.Target, also ...core.Entity) (*Echo, error) {
	in, err := parseTexts(r)
	if err != nil {
		return nil, err
	}
	if err := in.judge(ctx, op, to); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	if in.used == nil {
		return nil, op.LogReads(ctx, audit.Use, also...)
	}
	if err := in.fill(ctx, to); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	if err := in.used.Log(ctx, op, also...); err != nil || !in.used.Bound() {
		return nil, err
	}
	return newEcho(ctx, op, in.used.Sent(), in.all.encoded(r))
}

// texts are the texts of a request with expressions.
type texts struct {
	*Request
	body      carrier
	elsewhere carriers // in headers and in the query

	// Set by judge.
	used *reveal.Used // nil if nothing is filled in
	all  carriers     // that are filled in
}

// parseTexts finds the expressions of a request.
func parseTexts(r *Request) (*texts, error) {
	body, bad := Scan(r.Header, r.Body)
	if bad != nil {
		return nil, fault.Of(bad)
	}
	return &texts{Request: r, body: carrier{Body: body, set: func(text string) { r.Body = []byte(text) }}, elsewhere: r.carriers()}, nil
}

// judge finds the tokens of the expressions, and checks that their data may go to the
// target. Expressions outside of the body count if the request is bound.
func (in *texts) judge(ctx context.Context, op *core.Op, to access.Target) error {
	known, bound, err := in.elsewhere.look(ctx, op, in.elsewhere.asked(op, in.Request), in.BoundOnly)
	switch {
	case err != nil:
		return err
	case !in.body.HasExpressions() && !bound:
		return in.elsewhere.refuse(in.Request, known)
	case !op.Grant().Has(access.TokenUse):
		return fault.PermissionOnToken(access.TokenUse)
	}
	in.all = carriers{in.body}
	if bound {
		in.all = append(in.all, in.elsewhere...)
	}
	used, err := reveal.Find(ctx, op, in.all, reveal.Root, to)
	if err == nil && !bound && used.Bound() && len(in.elsewhere) > 0 { // by a token in the body
		in.all = append(in.all, in.elsewhere...)
		used, err = reveal.Find(ctx, op, in.all, reveal.Root, to)
	}
	switch {
	case err != nil:
		return err
	case in.BoundOnly && used.Unbound():
		return errUnbound
	case !used.Bound():
		err = in.elsewhere.refuse(in.Request, known)
	}
	in.used = used
	return err
}

var errUnbound = fault.New(fault.ErrForbidden, "the forward proxy sends only tokens whose use is limited to destinations")

// fill replaces the expressions. A bound request is prepared for the search of its
// response, and for the host that was judged.
func (in *texts) fill(ctx context.Context, to access.Target) error {
	if !in.used.Bound() {
		return in.all.fill(ctx, in.used, in.Request)
	}
	if in.body.HasExpressions() && in.body.foreign {
		return fault.Field("headers.Content-Type", "must have no charset other than UTF-8, US-ASCII and ISO-8859-1, nor must the start of the body, because the destination could repeat the data as other characters")
	}
	in.renewBoundary()
	if err := in.all.fill(ctx, in.used, in.Request); err != nil {
		return err
	}
	if err := egress.CheckHeader(in.Header); err != nil {
		return fault.Field("headers", "%s", err.Error())
	}
	u := *in.URL
	u.Host = to.Host
	in.URL = &u
	for _, name := range []string{"Range", "If-Range", "Accept-Charset", "Upgrade"} {
		in.Header.Del(name)
	}
	in.Header.Set("Accept-Encoding", "identity")
	return nil
}

// renewBoundary lets Fill replace the boundary of a multipart body by a random one.
// A boundary must not occur in the data, so with their own the sender could guess
// data that they may not see.
func (in *texts) renewBoundary() {
	typ, params, err := mime.ParseMediaType(in.Header.Get("Content-Type"))
	if err != nil || in.body.boundary == "" || !in.body.HasExpressions() {
		return
	}
	in.body.renewed = ids.Random58(boundaryLength)
	params["boundary"] = in.body.renewed
	in.Header.Set("Content-Type", mime.FormatMediaType(typ, params))
}

// boundaryLength is the length of a random boundary.
const boundaryLength = 32

// exchange sends the request and returns the response, both as transforms change
// them.
func (inv *invocation) exchange(ctx context.Context) (*Answer, error) {
	if inv.proxy.RequestTransform != nil {
		if err := inv.transformRequest(ctx); err != nil {
			return nil, err
		}
	}
	res, err := inv.send(ctx)
	if err != nil {
		return nil, err
	}
	transforms := inv.proxy.ResponseTransform != nil && res.StatusCode <= 299
	if transforms {
		Hurry(res)
	}
	if err := inv.search(ctx, res); err != nil {
		return nil, err
	}
	if transforms {
		return inv.transformResponse(ctx, res)
	}
	return inv.answer(res), nil
}

// send calls the destination and returns its response. The body is not read yet.
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
	if err := inv.checkHeader(); err != nil {
		return nil, err
	}
	caller := egress.Caller{Tenant: inv.Tenant().String(), Stranger: core.LineageOf(ctx).Stranger}
	if caller.Stranger == "" && inv.IsStranger() {
		caller.Stranger = inv.Identity.Proxy().String()
	}
	if inv.echo != nil {
		caller.Keep = &egress.Keep{Holder: inv.holder(caller.Stranger), Carry: inv.echo.carry(&inv.out)}
	}
	res, err := inv.relay.send(ctx, caller, &inv.out)
	if err == nil && res.StatusCode < 200 {
		res.Body.Close()
		return nil, fault.New(fault.ErrUnreachable, "the destination sent an invalid HTTP status")
	}
	return res, err
}

// holder returns who shares connections with the caller of a bound request: calls of
// the same session, or of the same credential of an application.
func (inv *invocation) holder(stranger string) string {
	holder := inv.ApplicationID().String() + " " + inv.Session().String() + " " + stranger
	if inv.Application() != nil {
		holder += " " + inv.Credential()
	}
	return holder
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

// search removes from a response what concerns the connection, and the data that was
// sent.
func (inv *invocation) search(ctx context.Context, res *http.Response) error {
	egress.RemoveHopByHop(res.Header)
	DropPrefixed(res.Header, trace.Prefix(ctx))
	return inv.echo.Clean(res)
}

// answer returns a response for the caller.
func (inv *invocation) answer(res *http.Response) *Answer {
	if res.StatusCode == http.StatusNoContent {
		res.Header.Del("Content-Length")
	}
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: res.Body}
}
