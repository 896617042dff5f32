package vault

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

// InvokeProxy sends a request through a proxy (permission token:use, unless
// the proxy requires no authentication). The expressions of its body are
// replaced by the data of tokens, as [Client.Detokenize] does, by the type of
// the body: in the strings of JSON, in the values of a form, in each part of a
// multipart body, and anywhere in other text. A body with a Content-Encoding
// and one of a binary type is not looked at, and everything outside of
// expressions is forwarded byte for byte. JSON is every type with json in its
// name, such as application/x-ndjson with a document on each line and
// application/json-seq, and a body without a type that reads as JSON; one that
// has expressions and is not strict JSON is an [InvalidError].
//
// Headers and query are forwarded as they are. A value there that is nothing but
// an expression which names a token is an [InvalidError].
//
// Then the request transform of the proxy runs, the destination is called, and
// on a status from 200 to 299 the response transform runs. Redirects are
// answers like others. A proxy of another tenant is ErrNotFound; a destination
// that is silent is ErrTimeout, one that cannot be reached ErrUnreachable; an
// error of a transform is a [*script.Error].
//
// The log gets an entry for the proxy ("ephemeral" for one that is not stored)
// and for each token that is used.
func (c *Client) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	return run(ctx, c, &verbInvokeProxy, func(ctx context.Context, op *operation) (*ProxyAnswer, error) { return op.invokeProxy(ctx, p) })
}

func (op *operation) invokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	if p.Key == "" && p.URL == "" {
		return nil, errNoDestination()
	}
	if p.Key == "" {
		if err := op.Require(access.TokenUse); err != nil {
			return nil, err
		}
		bad := &form.Problems{}
		if op.v.checkURL(bad, trace.Prefix(ctx)+"PROXY-URL", p.URL); bad.Any() {
			return nil, fault.Of(bad)
		}
		return op.invoke(ctx, &Proxy{DestinationURL: p.URL}, &p)
	}
	x, err := op.v.proxyOf(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	if x.TenantID != op.Tenant() {
		return nil, fault.ErrNoProxy
	}
	if x.RequireAuth {
		if err := op.Require(access.TokenUse); err != nil {
			return nil, err
		}
	}
	return op.invoke(ctx, x, &p)
}

func errNoDestination() error {
	return fault.Field("", "must name a proxy by its key, or a destination by its URL")
}

// InvokeProxy is [Client.InvokeProxy] for a caller who shows no API key. Only a
// proxy that requires no authentication takes such a call; others fail with
// ErrUnauthenticated. Expressions are replaced with the rights of the proxy's
// application; without one that holds token:use they are ErrForbidden.
func (v *Vault) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	switch {
	case p.Key == "" && p.URL == "":
		return nil, public(errNoDestination())
	case p.Key == "":
		return nil, ErrUnauthenticated
	}
	x, err := v.openProxyOf(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	caller, err := run(ctx, v.Tenant(x.TenantID), &verbFind, func(ctx context.Context, op *operation) (core.Identity, error) {
		return op.anonymous(ctx, x)
	})
	if err != nil {
		return nil, err
	}
	return run(ctx, v.Tenant(x.TenantID).as(caller.From(p.Origin)), &verbInvokeProxy, func(ctx context.Context, op *operation) (*ProxyAnswer, error) {
		return op.invoke(ctx, x, &p)
	})
}

// ProxyCaller returns who calls a proxy without an API key, so that such calls
// can be counted before they are made: a client of the proxy's tenant that may
// do nothing by itself, and whose [Client.ProxyID] is the proxy. It fails as
// [Vault.InvokeProxy] does for an unknown key, and for a proxy that requires
// authentication.
func (v *Vault) ProxyCaller(ctx context.Context, key string) (*Client, error) {
	x, err := v.openProxyOf(ctx, key)
	if err != nil {
		return nil, err
	}
	return v.Tenant(x.TenantID).as(core.Stranger(x.TenantID, x.ID)), nil
}

// anonymous returns who calls a proxy without an API key: the proxy's
// application, if that may use tokens, else somebody who may do nothing.
func (op *operation) anonymous(ctx context.Context, x *Proxy) (core.Identity, error) {
	stranger := core.Stranger(x.TenantID, x.ID)
	if x.ApplicationID == (uuid.UUID{}) {
		return stranger, nil
	}
	id, err := op.As(ctx, x.ApplicationID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthenticated) || err == nil && !id.Grant().Has(access.TokenUse) {
		return stranger, nil
	}
	return id.Calling(x.ID), err
}

// invocation is a request on its way through a proxy.
type invocation struct {
	*operation
	*ProxyCall
	proxy *Proxy
	out   relay.Request // what goes to the destination
}

// ephemeral stands in the log for the id of a proxy that is not stored.
const ephemeral = "ephemeral"

// invoke takes a request to the destination and the answer back.
func (op *operation) invoke(ctx context.Context, x *Proxy, p *ProxyCall) (*ProxyAnswer, error) {
	if p.MaxBody <= 0 {
		p.MaxBody = int64(op.Vault.MaxBytes)
	}
	p.Method = cmp.Or(p.Method, http.MethodGet)
	inv := &invocation{operation: op, ProxyCall: p, proxy: x}
	if err := inv.prepare(ctx); err != nil {
		return nil, err
	}
	if err := inv.checkPlaces(ctx); err != nil {
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
		return nil, fault.New(ErrUnreachable, "The destination sent an invalid HTTP status.")
	}
	egress.RemoveHopByHop(res.Header)
	relay.DropPrefixed(res.Header, trace.Prefix(ctx))
	if x.ResponseTransform != nil && res.StatusCode >= 200 && res.StatusCode <= 299 {
		return inv.transformResponse(ctx, res)
	}
	if res.StatusCode == http.StatusNoContent {
		res.Header.Del("Content-Length")
	}
	return &ProxyAnswer{Status: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}

// prepare finds out where the request goes and what headers it takes along.
func (inv *invocation) prepare(ctx context.Context) error {
	switch {
	case inv.Method == http.MethodConnect:
		return fault.Field("method", "must not be CONNECT")
	case !egress.ValidMethod(inv.Method):
		return fault.Field("method", "must be the name of an HTTP method")
	}
	if !slices.Contains([]string{"", "keep-alive", "close"}, strings.ToLower(inv.Connection)) {
		return fault.Field(trace.Prefix(ctx)+"PROXY-CONNECTION", "must be keep-alive or close")
	}
	base, err := inv.v.egress.CheckURL(inv.proxy.DestinationURL)
	if err != nil {
		// The policy has changed since the proxy was written.
		return fault.New(ErrUnreachable, "The destination is not allowed: %s.", err)
	}
	target, bad := relay.Extend(base, inv.Path, inv.Query)
	if bad != nil {
		return fault.Of(bad)
	}
	header := http.Header{}
	for name, values := range inv.Header {
		name = http.CanonicalHeaderKey(name)
		header[name] = append(header[name], values...)
	}
	egress.RemoveHopByHop(header)
	relay.DropPrefixed(header, trace.Prefix(ctx))
	for _, name := range []string{"Host", "Content-Length", "Expect"} {
		header.Del(name)
	}
	inv.out = relay.Request{Method: inv.Method, URL: target, Message: relay.Message{Header: header}}
	return inv.checkHeader()
}

// checkHeader checks the headers that go to the destination.
func (inv *invocation) checkHeader() error {
	if err := egress.CheckHeader(inv.out.Header); err != nil {
		return fault.Field("headers", "%s", err.Error())
	}
	return nil
}

// checkPlaces refuses a request that has the expression of a token where nothing
// is filled in: its sender expects the data there. Everything else that looks
// like an expression may be the destination's own, and passes. It is a help, so
// it reads no more tokens than fit into one call. It tells a caller which ids
// exist; with token:use a body tells that too, and without it nothing does.
func (inv *invocation) checkPlaces(ctx context.Context) error {
	if inv.asIs || !inv.Grant().Has(access.TokenUse) {
		return nil
	}
	places := relay.Places(inv.out.Header, inv.Query, reveal.AtOnce)
	var ids []string
	for _, p := range places {
		ids = append(ids, p.IDs...)
	}
	slices.Sort(ids)
	rows, err := tokens.Rows(ctx, inv.Op, slices.Compact(ids))
	if err != nil {
		return err
	}
	bad := &form.Problems{}
	for _, p := range places {
		if slices.ContainsFunc(rows, func(row storage.Token) bool {
			return !tokens.Expired(&row, inv.Now) && slices.Contains(p.IDs, row.ID)
		}) {
			bad.Add(p.Path, "must not be an expression that names a token: only bodies are filled in")
		}
	}
	return fault.Of(bad)
}

// send calls the destination and returns its answer, whose body is still to
// come.
func (inv *invocation) send(ctx context.Context) (*http.Response, error) {
	admission.Of(ctx).Rest()
	header := inv.out.Header
	if inv.proxy.ResponseTransform != nil {
		header.Set("Accept-Encoding", "identity") // what the transform can read
	}
	trace.Of(ctx).SetHeaders(header)
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
	sender := relay.Sender{Client: inv.v.egress, Timeout: inv.v.cfg.ProxyTimeout, Explain: sendError}
	return sender.Send(ctx, inv.Tenant().String(), &inv.out)
}

// sendError says in the vault's own errors why there is no answer.
func sendError(ctx context.Context, err error) error {
	silent := errors.Is(context.Cause(ctx), relay.ErrSilent)
	switch left := fault.CallerLeft(ctx); {
	case left != nil && !silent:
		return left
	case silent, errors.Is(err, context.DeadlineExceeded):
		return fault.New(ErrTimeout, "The destination did not respond in time.")
	case errors.Is(err, egress.ErrBusy):
		return fault.New(ErrBusy, "This tenant has too many requests in progress; try again later.")
	case errors.Is(err, egress.ErrForbidden):
		return fault.New(ErrUnreachable, "The destination is not allowed: %s.", err)
	default:
		return fault.New(ErrUnreachable, "The destination could not be reached, or its response was cut off or is not HTTP.")
	}
}

// detokenizeOrStream reads the body and replaces its expressions, or leaves a
// body unread that has to be neither filled in nor transformed. It enters the
// invocation in the log.
func (inv *invocation) detokenizeOrStream(ctx context.Context) error {
	entered := core.Entity{Type: kindProxy, ID: ephemeral}
	if inv.proxy.ID != (uuid.UUID{}) {
		entered.ID = inv.proxy.ID.String()
	}
	format, _ := relay.FormatOf(inv.out.Header)
	if format == relay.Opaque && inv.proxy.RequestTransform == nil {
		inv.out.Stream, inv.out.ContentLength = inv.Body, inv.ContentLength
		return inv.LogReads(ctx, audit.Use, entered)
	}
	if inv.ContentLength > inv.MaxBody {
		return errBodyTooLarge(inv.MaxBody)
	}
	raw, err := inv.readBody(ctx)
	if err != nil {
		return err
	}
	// What comes from a slow caller may take longer than keys may be used.
	if err := inv.Refresh(ctx); err != nil {
		return err
	}
	if inv.asIs {
		inv.out.Message.Body = raw
		return inv.LogReads(ctx, audit.Use, entered)
	}
	inv.out.Message.Body, err = inv.detokenizeBody(ctx, inv.out.Header, raw, entered)
	return err
}

func errBodyTooLarge(limit int64) error {
	return fault.New(ErrTooLarge, "The body must have at most %d bytes.", limit)
}

// readBody reads the body of the request, and makes room for it.
func (inv *invocation) readBody(ctx context.Context) ([]byte, error) {
	room := admission.Of(ctx)
	most := inv.MaxBody
	if inv.ContentLength > 0 {
		most = inv.ContentLength
	}
	if err := core.RoomError(room.Arrive(ctx, int(most))); err != nil {
		return nil, err
	}
	raw, err := readBody(inv.Body, inv.MaxBody)
	if err != nil {
		return nil, err
	}
	room.Arrived()
	return raw, core.RoomError(room.Body(ctx, len(raw)+jsonx.Weight(raw)))
}

// readBody reads a body that has to be held in memory.
func readBody(r io.Reader, limit int64) ([]byte, error) {
	raw, err := relay.ReadBody(r, limit)
	if errors.Is(err, relay.ErrTooLarge) {
		return nil, errBodyTooLarge(limit)
	}
	return raw, err
}

// detokenizeBody replaces the expressions of a body, and enters in the log that
// the tokens were used, and whatever else is.
func (op *operation) detokenizeBody(ctx context.Context, header http.Header, raw []byte, also ...core.Entity) ([]byte, error) {
	b, bad := relay.Scan(header, raw)
	if bad != nil {
		return nil, fault.Of(bad)
	}
	if !b.HasExpressions() {
		return raw, op.LogReads(ctx, audit.Use, also...)
	}
	if !op.Grant().Has(access.TokenUse) {
		return nil, fault.PermissionOnToken(access.TokenUse)
	}
	used, err := reveal.Find(ctx, op.Op, b, reveal.Root)
	if err != nil {
		return nil, err
	}
	out, bad := b.Fill(used.Env(ctx, len(raw)))
	if bad != nil {
		return nil, cmp.Or(ctx.Err(), fault.Of(bad))
	}
	return out, used.Log(ctx, op.Op, also...)
}
