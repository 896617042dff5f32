package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
)

// Proxy forwards requests to a destination and replaces tokens by their data.
// Printed or logged it hides its key, destination, transforms and configuration:
// see the package comment.
type Proxy struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name,omitempty"`
	// Key invokes the proxy.
	Key            string `json:"key,omitempty"`
	DestinationURL string `json:"destination_url,omitempty"`
	// RequireAuth reports whether a caller needs an API key besides Key.
	RequireAuth       bool            `json:"require_auth"`
	RequestTransform  *ProxyTransform `json:"request_transform,omitempty"`
	ResponseTransform *ProxyTransform `json:"response_transform,omitempty"`
	// ApplicationID is the application that the client of transforms acts as.
	ApplicationID uuid.UUID `json:"application_id,omitzero"`
	// Configuration holds names and values for the transforms. It is sealed at
	// rest.
	Configuration map[string]string `json:"configuration,omitempty"`
	CreatedBy     uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	ModifiedBy    uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt    time.Time         `json:"modified_at,omitzero"`
	// Suspended means that a restore brought back an older state, which has not been
	// confirmed: see [Vault.EraseAgain]. Uses are ErrForbidden.
	Suspended bool `json:"suspended,omitempty"`
	// Unreadable is set in lists for a proxy whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then. RequireAuth is true,
	// because the proxy cannot be invoked.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ProxyTransform is code that a proxy runs on a request or a response.
type ProxyTransform struct {
	Code string `json:"code"`
}

// ProxyParams describes a proxy. Only Name and DestinationURL are required. Printed
// or logged it shows only its name: see the package comment.
type ProxyParams struct {
	Name              string            `json:"name"`
	DestinationURL    string            `json:"destination_url"`
	RequestTransform  *ProxyTransform   `json:"request_transform,omitempty"`
	ResponseTransform *ProxyTransform   `json:"response_transform,omitempty"`
	ApplicationID     uuid.UUID         `json:"application,omitzero"` // as in [Reactor]
	Configuration     map[string]string `json:"configuration,omitempty"`
	// RequireAuth defaults to true.
	RequireAuth *bool `json:"require_auth,omitempty"`
}

// MarshalJSON returns the parameters as the REST API takes them.
func (p ProxyParams) MarshalJSON() ([]byte, error) { return json.Marshal(p.inside()) }

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *ProxyParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in relay.Params
		in.Read(r)
		*p = ProxyParams{in.Name, in.DestinationURL, (*ProxyTransform)(in.RequestTransform), (*ProxyTransform)(in.ResponseTransform),
			uuid.UUID(in.ApplicationID), in.Configuration, in.RequireAuth}
	})
}

// Params returns the parameters of the proxy, for a change with
// [Client.ReplaceProxy].
func (x *Proxy) Params() ProxyParams {
	return ProxyParams{Name: x.Name, DestinationURL: x.DestinationURL, ApplicationID: x.ApplicationID, Configuration: maps.Clone(x.Configuration),
		RequestTransform: x.RequestTransform.clone(), ResponseTransform: x.ResponseTransform.clone(), RequireAuth: new(x.RequireAuth)}
}

func (t *ProxyTransform) clone() *ProxyTransform {
	if t == nil {
		return nil
	}
	return &ProxyTransform{t.Code}
}

// inside returns the parameters in the type of the internal package.
func (p *ProxyParams) inside() *relay.Params {
	return &relay.Params{
		Name: p.Name, DestinationURL: p.DestinationURL, Configuration: p.Configuration, RequireAuth: p.RequireAuth,
		RequestTransform: (*relay.Transform)(p.RequestTransform), ResponseTransform: (*relay.Transform)(p.ResponseTransform),
		ApplicationID: runs.Application(p.ApplicationID),
	}
}

// Same reports whether p and q describe the same proxy.
func (p ProxyParams) Same(q ProxyParams) bool { return p.inside().Same(q.inside()) }

// proxyOf converts a proxy of the internal package.
func proxyOf(x *relay.Proxy) *Proxy {
	return &Proxy{
		ID: x.ID, TenantID: x.TenantID, Name: x.Name, Key: x.Key, DestinationURL: x.DestinationURL, RequireAuth: x.RequireAuth,
		RequestTransform: (*ProxyTransform)(x.RequestTransform), ResponseTransform: (*ProxyTransform)(x.ResponseTransform),
		ApplicationID: x.ApplicationID, Configuration: x.Configuration,
		CreatedBy: x.CreatedBy, CreatedAt: x.CreatedAt, ModifiedBy: x.ModifiedBy, ModifiedAt: x.ModifiedAt, Unreadable: x.Unreadable, Suspended: x.Hold.Suspended(),
	}
}

// CreateProxy adds a proxy and gives it a key (permission proxy:create). If the
// code is unusable, the error matches ErrCode and is a [*script.Error] whose
// Messages describe the problem.
func (c *Client) CreateProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return runTo(ctx, c, &core.ProxyVerbs.Create, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Proxies.Create(ctx, op, p.inside())
	})
}

// EnsureProxy returns the proxy with the name in p, and creates it if it does not
// exist. It needs the permission proxy:read, and proxy:create to create the proxy.
// Programs that start concurrently get the same proxy, with the same key. An
// existing proxy is returned unchanged even if it differs from p;
// [Client.ApplyProxy] changes it.
func (c *Client) EnsureProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	item, _, err := c.ensureProxy(ctx, &core.ProxyVerbs.Ensure, p)
	return item, err
}

func (c *Client) ensureProxy(ctx context.Context, verb *core.Verb, p ProxyParams) (item *Proxy, created bool, err error) {
	item, err = runTo(ctx, c, verb, proxyOf, func(ctx context.Context, op *core.Op) (item *relay.Proxy, err error) {
		item, created, err = c.v.relay.Proxies.Ensure(ctx, op, p.inside())
		return item, err
	})
	return item, created, err
}

// ApplyProxy creates or changes the proxy with the name in p so that it matches p,
// as [Client.ApplyApplication] does for applications. It needs the permission
// proxy:read, and proxy:create or proxy:update if it writes. The key of an existing
// proxy stays the same.
func (c *Client) ApplyProxy(ctx context.Context, p ProxyParams) (*Applied[Proxy], error) {
	item, created, err := c.ensureProxy(ctx, &core.ProxyVerbs.Apply, p)
	if err != nil || created || item.Params().Same(p) {
		return applied(item, created, false, err)
	}
	item, err = c.ReplaceProxy(ctx, item.ID, p)
	return applied(item, false, true, err)
}

// GetProxy returns a proxy (permission proxy:read).
func (c *Client) GetProxy(ctx context.Context, id uuid.UUID) (*Proxy, error) {
	return runTo(ctx, c, &core.ProxyVerbs.Get, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return relay.Proxies.Get(ctx, op, id)
	})
}

// ListProxies returns a page of proxies, newest first (permission proxy:read).
func (c *Client) ListProxies(ctx context.Context, p ListParams) (*Page[Proxy], error) {
	return listRecords(ctx, c, &core.ProxyVerbs.List, &relay.Proxies, listOf[relay.Proxy](&p), p.PageParams, proxyOf)
}

// AllProxies iterates over all proxies that match the filters, newest first
// (permission proxy:read). See [Client.AllTokens].
func (c *Client) AllProxies(ctx context.Context, p ListParams) iter.Seq2[*Proxy, error] {
	return allRecords(ctx, c, &core.ProxyVerbs.All, &relay.Proxies, listOf[relay.Proxy](&p), proxyOf)
}

// ReplaceProxy replaces all parameters of a proxy and keeps its key (permission
// proxy:update).
func (c *Client) ReplaceProxy(ctx context.Context, id uuid.UUID, p ProxyParams) (*Proxy, error) {
	return runTo(ctx, c, &core.ProxyVerbs.Replace, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Proxies.Replace(ctx, op, id, p.inside())
	})
}

// PatchProxy applies a JSON merge patch (RFC 7386) to the parameters of a proxy
// (permission proxy:update). The patch is read as by [EncodeJSON].
func (c *Client) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*Proxy, error) {
	return runTo(ctx, c, &core.ProxyVerbs.Patch, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Proxies.Patch(ctx, op, id, plainJSON(patch))
	})
}

// DeleteProxy deletes a proxy (permission proxy:delete).
func (c *Client) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &core.ProxyVerbs.Delete, func(ctx context.Context, op *core.Op) error {
		return c.v.relay.Proxies.Delete(ctx, op, id)
	})
}

// ProxyCall is a request to send through a proxy. Printed or logged it shows only
// its method: see the package comment.
type ProxyCall struct {
	// Key is the key of a stored proxy. If it is empty, URL is the destination of
	// an ephemeral proxy, which has no transforms.
	Key string
	URL string

	// Origin is where a call without an API key comes from: see [Client.From]. A
	// Client uses its own origin instead.
	Origin string

	// Method is the HTTP method. Default GET.
	Method string
	// Path is appended unchanged to the path of the destination. It must be
	// escaped, and empty or start with a slash. Dot segments are refused.
	Path string
	// Query is appended unchanged to the query of the destination, without a
	// leading question mark.
	Query string
	// Header is forwarded, except for Host, hop-by-hop headers, and headers whose
	// names begin with SVC-. The SVC- headers are between the caller and the vault,
	// and are removed from the response too. See [WithTraceID] for the one SVC-
	// header that is sent.
	Header http.Header
	// Body may be nil. It is not read after the body of the response is closed, and
	// it is never closed.
	Body io.Reader
	// ContentLength is the length of Body. 0 and -1 mean that it is unknown.
	ContentLength int64
	// MaxBody limits, in bytes, a body that has to be held in memory, because its
	// type can hold expressions or it goes through a transform. Default
	// [Config.MaxBytes]. Other bodies are streamed and may have any size.
	MaxBody int64
	// KeepAlive and Connection, if set, are sent in the headers of these names.
	// Connection is keep-alive or close.
	KeepAlive, Connection string
}

// ProxyAnswer is the response of a destination.
type ProxyAnswer struct {
	Status int
	// Header has a Content-Length when the length of Body is known.
	Header http.Header
	// Body must be closed. It streams if no transform produced it. Reading it fails
	// with ErrUnreachable when the destination closes the connection early, and
	// with ErrTimeout when the destination stops sending.
	Body io.ReadCloser
}

// inside returns the call in the type of package relay.
func (p *ProxyCall) inside() *relay.Call {
	return &relay.Call{
		Key: p.Key, URL: p.URL, Method: p.Method, Path: p.Path, Query: p.Query, Header: p.Header, Body: p.Body, ContentLength: p.ContentLength,
		MaxBody: p.MaxBody, KeepAlive: p.KeepAlive, Connection: p.Connection,
	}
}

// InvokeProxy sends a request through a proxy. It needs the permission token:use if
// the proxy requires authentication.
//
// Expressions in the body are replaced by the data of tokens, as
// [Client.Detokenize] does. The type of the body decides where: in the strings of
// JSON, in the values of a form, in each part of a multipart body, and anywhere in
// other text. Bodies with a Content-Encoding or a binary type are not searched.
// Everything outside expressions is forwarded byte for byte.
//
// A body counts as JSON if its type contains json, or if it has no type and reads
// as JSON. That includes application/x-ndjson, with a document on each line, and
// application/json-seq. A JSON body that has expressions and is not strict JSON is
// an [InvalidError].
//
// Headers and query are forwarded unchanged. A value there that consists of a
// single expression which names a token is an [InvalidError].
//
// If a rule of the caller limits the use of a token to [AccessRule.Destinations],
// the URL must be https to one of them; otherwise the call is ErrForbidden before
// anything is resolved or sent. Expressions in headers and query are then replaced
// too, and must insert data whole. In the response, the data is replaced by the
// expression again; a response that cannot be searched for it is ErrUnreachable. A
// proxy with a request transform is ErrForbidden, because its code would see the
// data.
//
// Then the request transform of the proxy runs, the destination is called, and on a
// status from 200 to 299 the response transform runs. Redirects are not followed
// but returned. A proxy of another tenant is ErrNotFound. A destination that does
// not respond is ErrTimeout, and an unreachable destination is ErrUnreachable. An
// error of a transform is a [*script.Error].
//
// The log gets an entry for the proxy ("ephemeral" for a proxy that is not stored)
// and for each token that is used. The entry of a token whose use is limited to
// destinations names the host.
func (c *Client) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	return run(ctx, c, &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*ProxyAnswer, error) {
		answer, err := c.v.relay.Call(ctx, op, p.inside())
		return (*ProxyAnswer)(answer), err
	})
}

// InvokeProxy is [Client.InvokeProxy] for a caller without an API key. Only a proxy
// that requires no authentication accepts such a call; others fail with
// ErrUnauthenticated. Expressions are replaced with the rights of the proxy's
// application. They are ErrForbidden if the proxy has no application that holds
// token:use.
func (v *Vault) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	answer, err := v.relay.CallOpen(ctx, p.inside(), p.Origin)
	return (*ProxyAnswer)(answer), public(err)
}

// ProxyClient returns the client of a proxy call without an API key, which
// [Vault.InvokeProxy] makes. The client belongs to the tenant of the proxy and has
// no permissions. A server uses it to limit such calls before it makes them. An
// unknown key and a proxy that requires authentication fail as in InvokeProxy.
func (v *Vault) ProxyClient(ctx context.Context, key string) (*Client, error) {
	caller, err := v.relay.Stranger(ctx, key)
	if err != nil {
		return nil, public(err)
	}
	return v.client(caller), nil
}

// RoundTripper returns a transport that detokenizes outbound requests and passes
// them to base. It replaces the expressions in request bodies by the rules of
// [Client.InvokeProxy]. A nil base means [http.DefaultTransport]. With it, any Go
// client can use tokens:
//
//	stripe.SetHTTPClient(&http.Client{Transport: c.RoundTripper(nil)})
//
// The client needs token:use on the tokens that a request names; a request without
// tokens needs no permission. A body that has to be searched may have at most
// [Config.MaxBytes]; others are not held in memory. The vault's egress policy does
// not apply, because the program decides where its requests go. An [http.Client]
// that follows a redirect with its body sends the data there too.
//
// The limits of [AccessRule.Destinations] apply to the URL of each request, and so
// to each hop. A Host that differs from the URL is ErrForbidden. Headers, query and
// response are treated as by [Client.InvokeProxy], and so are errors, because errors
// of base may quote the response. Hooks of package httptrace are not called then.
// Connections, dialling and TLS are base's, and base sees the data.
func (c *Client) RoundTripper(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &detokenizer{c, base}
}

// detokenizer is a transport that detokenizes.
type detokenizer struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip sends a detokenized copy of the request. It does not change the request
// itself.
func (d *detokenizer) RoundTrip(req *http.Request) (*http.Response, error) {
	out, echo, err := d.detokenized(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	res, err := d.base.RoundTrip(out)
	if echo == nil {
		return res, err
	}
	if err != nil {
		echo.Close()
		return nil, public(relay.QuietError(req.Context(), err)) // err may quote the destination
	}
	clean := *res // so that trailers of the original do not appear in it
	clean.Body = relay.QuietBody(req.Context(), res.Body)
	if err := echo.Clean(&clean); err != nil {
		return nil, err
	}
	clean.Request = req // without the data that was sent
	return &clean, nil
}

// detokenized returns the request that is sent, and what cleans its response.
func (d *detokenizer) detokenized(req *http.Request) (*http.Request, *relay.Echo, error) {
	if err := core.VerbRoundTripper.Check(core.CallerOf(d.client).Unit); err != nil {
		return nil, nil, err
	}
	format, _ := relay.FormatOf(req.Header)
	streams := req.Body == nil || req.Body == http.NoBody || format == relay.Opaque
	if streams && !relay.HasExpressions(req) {
		return req, nil, nil
	}
	out := req.Clone(req.Context())
	r := relay.Request{URL: out.URL, Message: relay.Message{Header: out.Header}}
	if !streams {
		defer req.Body.Close()
		raw, err := relay.ReadBody(req.Body, int64(d.client.v.cfg.MaxBytes))
		if err != nil {
			return nil, nil, err
		}
		r.Body = raw
	}
	echo, err := run(req.Context(), d.client, &core.VerbRoundTripper, func(ctx context.Context, op *core.Op) (*relay.Echo, error) {
		return relay.Detokenize(ctx, op, &r, d.target(req))
	})
	if !streams {
		out.ContentLength = int64(len(r.Body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Body)), nil }
		out.Body, _ = out.GetBody()
		out.Header.Del("Content-Length")
	}
	if echo != nil {
		out.URL, out.Host = r.URL, ""
		out = relay.Quiet(out)
	}
	return out, echo, err
}

// target returns where the request goes. It returns the zero target, which no rule
// permits, if the Host of the request differs from its URL.
func (d *detokenizer) target(req *http.Request) access.Target {
	plain := d.client.v.cfg.Egress.AllowPrivate
	to := access.TargetOf(req.Method, req.URL, plain)
	if req.Host != "" && access.TargetOf("", &url.URL{Scheme: req.URL.Scheme, Host: req.Host}, plain).Host != to.Host {
		return access.Target{}
	}
	return to
}
