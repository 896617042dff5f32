package vault

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/verbs"
)

// Proxy forwards requests to a destination, with tokens replaced by their data.
// Key, destination, transforms and configuration are not shown when it is
// printed or logged, except as JSON and in unexported fields: see the package comment.
type Proxy struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name,omitempty"`
	// Key invokes the proxy.
	Key            string `json:"key,omitempty"`
	DestinationURL string `json:"destination_url,omitempty"`
	// RequireAuth says whether a caller needs an API key besides Key.
	RequireAuth       bool            `json:"require_auth"`
	RequestTransform  *ProxyTransform `json:"request_transform,omitempty"`
	ResponseTransform *ProxyTransform `json:"response_transform,omitempty"`
	// ApplicationID is the application that the client of transforms acts as.
	ApplicationID uuid.UUID `json:"application_id,omitzero"`
	// Configuration holds names and values that transforms are given. It is
	// sealed at rest.
	Configuration map[string]string `json:"configuration,omitempty"`
	CreatedBy     uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	ModifiedBy    uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt    time.Time         `json:"modified_at,omitzero"`
	// Unreadable is set in lists for a proxy whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then, and RequireAuth is true,
	// because nobody can invoke the proxy.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ProxyTransform is code that a proxy runs on a request or a response.
type ProxyTransform struct {
	Code string `json:"code"`
}

// ProxyParams describes a proxy. Only Name and DestinationURL are required.
// Printed or logged it shows its name alone, except as JSON and in unexported
// fields: see the package comment.
type ProxyParams struct {
	Name              string            `json:"name"`
	DestinationURL    string            `json:"destination_url"`
	RequestTransform  *ProxyTransform   `json:"request_transform,omitempty"`
	ResponseTransform *ProxyTransform   `json:"response_transform,omitempty"`
	Application       *ApplicationRef   `json:"application,omitempty"`
	Configuration     map[string]string `json:"configuration,omitempty"`
	// RequireAuth defaults to true.
	RequireAuth *bool `json:"require_auth,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *ProxyParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in relay.Params
		in.Read(r)
		*p = ProxyParams{in.Name, in.DestinationURL, (*ProxyTransform)(in.RequestTransform), (*ProxyTransform)(in.ResponseTransform),
			(*ApplicationRef)(in.Application), in.Configuration, in.RequireAuth}
	})
}

// Params returns what describes the proxy, to be changed and given to
// [Client.ReplaceProxy].
func (x *Proxy) Params() ProxyParams {
	p := ProxyParams{Name: x.Name, DestinationURL: x.DestinationURL, Configuration: maps.Clone(x.Configuration),
		RequestTransform: x.RequestTransform.clone(), ResponseTransform: x.ResponseTransform.clone(), RequireAuth: new(x.RequireAuth)}
	if x.ApplicationID != (uuid.UUID{}) {
		p.Application = &ApplicationRef{x.ApplicationID}
	}
	return p
}

func (t *ProxyTransform) clone() *ProxyTransform {
	if t == nil {
		return nil
	}
	return &ProxyTransform{t.Code}
}

// inside returns the parameters as rooms read them.
func (p *ProxyParams) inside() *relay.Params {
	return &relay.Params{
		Name: p.Name, DestinationURL: p.DestinationURL, Configuration: p.Configuration, RequireAuth: p.RequireAuth,
		RequestTransform: (*relay.Transform)(p.RequestTransform), ResponseTransform: (*relay.Transform)(p.ResponseTransform),
		Application: (*runs.Application)(p.Application),
	}
}

// Same reports whether p and q describe the same proxy.
func (p ProxyParams) Same(q ProxyParams) bool { return p.inside().Same(q.inside()) }

// proxyOf returns a proxy of a room.
func proxyOf(x *relay.Proxy) *Proxy {
	return &Proxy{
		ID: x.ID, TenantID: x.TenantID, Name: x.Name, Key: x.Key, DestinationURL: x.DestinationURL, RequireAuth: x.RequireAuth,
		RequestTransform: (*ProxyTransform)(x.RequestTransform), ResponseTransform: (*ProxyTransform)(x.ResponseTransform),
		ApplicationID: x.ApplicationID, Configuration: x.Configuration,
		CreatedBy: x.CreatedBy, CreatedAt: x.CreatedAt, ModifiedBy: x.ModifiedBy, ModifiedAt: x.ModifiedAt, Unreadable: x.Unreadable,
	}
}

// CreateProxy adds a proxy and gives it a key (permission proxy:create). Code
// that cannot be used is ErrCode, and a [*script.Error] whose Messages say what is
// wrong with it.
func (c *Client) CreateProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return runTo(ctx, c, &verbs.CreateProxy, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Create(ctx, op, p.inside())
	})
}

// EnsureProxy returns the proxy that has the name of p, and creates it when there
// is none (permissions proxy:read, and proxy:create when it is missing). Programs
// that start together get the same one, with the same key. A proxy that exists is
// returned as it is, whatever else p says: [Client.ApplyProxy] changes it.
func (c *Client) EnsureProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return runTo(ctx, c, &verbs.EnsureProxy, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		x, _, err := c.v.relay.Ensure(ctx, op, p.inside())
		return x, err
	})
}

// ApplyProxy makes the proxy with the name of p what p says, as
// [Client.ApplyApplication] does for applications (permissions proxy:read, and
// proxy:create or proxy:update when something is to be done). The key of a proxy
// stays.
func (c *Client) ApplyProxy(ctx context.Context, p ProxyParams) (*Applied[Proxy], error) {
	return applied(ctx, c, &verbs.ApplyProxy, proxyOf,
		func(ctx context.Context, op *core.Op) (*relay.Proxy, bool, error) {
			return c.v.relay.Ensure(ctx, op, p.inside())
		},
		func(x *Proxy) bool { return x.Params().Same(p) },
		func(x *Proxy) (*Proxy, error) { return c.ReplaceProxy(ctx, x.ID, p) })
}

// GetProxy returns a proxy (permission proxy:read).
func (c *Client) GetProxy(ctx context.Context, id uuid.UUID) (*Proxy, error) {
	return runTo(ctx, c, &verbs.GetProxy, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return relay.Proxies.Get(ctx, op, id)
	})
}

// ListProxiesParams filters proxies. Zero fields filter nothing.
type ListProxiesParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// ProxyFilter is [ListProxiesParams] without a page, for [Client.AllProxies].
type ProxyFilter struct {
	IDs  []uuid.UUID
	Name string
}

// ListProxies returns a page of proxies, newest first (permission proxy:read).
func (c *Client) ListProxies(ctx context.Context, p ListProxiesParams) (*Page[Proxy], error) {
	return listRecords(ctx, c, &verbs.ListProxies, &relay.Proxies, proxyOf, records.List[relay.Proxy]{IDs: p.IDs, Name: p.Name}, p.PageParams)
}

// AllProxies iterates over all proxies that meet the filter, newest first
// (permission proxy:read): see [Client.AllTokens].
func (c *Client) AllProxies(ctx context.Context, f ProxyFilter) iter.Seq2[*Proxy, error] {
	return allRecords(ctx, c, &verbs.AllProxies, &relay.Proxies, proxyOf, records.List[relay.Proxy]{IDs: f.IDs, Name: f.Name})
}

// ReplaceProxy replaces everything of a proxy but its key (permission
// proxy:update).
func (c *Client) ReplaceProxy(ctx context.Context, id uuid.UUID, p ProxyParams) (*Proxy, error) {
	return runTo(ctx, c, &verbs.ReplaceProxy, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Replace(ctx, op, id, p.inside())
	})
}

// PatchProxy changes a proxy by a JSON merge patch (RFC 7386) of its
// parameters, which [EncodeJSON] reads (permission proxy:update).
func (c *Client) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*Proxy, error) {
	return runTo(ctx, c, &verbs.PatchProxy, proxyOf, func(ctx context.Context, op *core.Op) (*relay.Proxy, error) {
		return c.v.relay.Patch(ctx, op, id, plainJSON(patch))
	})
}

// DeleteProxy deletes a proxy (permission proxy:delete).
func (c *Client) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbs.DeleteProxy, func(ctx context.Context, op *core.Op) error { return c.v.relay.Delete(ctx, op, id) })
}

// ProxyCall is a request that is to go through a proxy. Printed or logged it shows
// its method alone, except in unexported fields: see the package comment.
type ProxyCall struct {
	// Key is that of a stored proxy. Without one, URL is the destination of an
	// ephemeral proxy, which has no transforms.
	Key string
	URL string

	// Origin is where a call without an API key comes from: see [Client.From].
	// A client has its own.
	Origin string

	// Method is that of HTTP. Default GET.
	Method string
	// Path is put behind the path of the destination, as it is: escaped, and
	// empty or with a slash in front. Dot segments are refused.
	Path string
	// Query is put behind the query of the destination, as it is and without ?.
	Query string
	// Header is forwarded, but for Host, what concerns one connection only, and
	// headers whose names begin with SVC-: these are between the caller and the
	// vault, and taken out of the answer too. See [WithTraceID] for the one that
	// is sent.
	Header http.Header
	// Body may be nil. It is read at most until the body of the answer is
	// closed, and not closed.
	Body io.Reader
	// ContentLength is the length of Body. 0 and -1 mean that it is unknown.
	ContentLength int64
	// MaxBody bounds, in bytes, a body that has to be held in memory: one whose
	// type can hold expressions, or that goes through a transform. Default
	// [Config.MaxBytes]. Other bodies are streamed, and may have any size.
	MaxBody int64
	// KeepAlive and Connection, when set, are sent in the headers of these
	// names. Connection is keep-alive or close.
	KeepAlive, Connection string
}

// ProxyAnswer is the answer of a destination.
type ProxyAnswer struct {
	Status int
	// Header has a Content-Length when the length of Body is known.
	Header http.Header
	// Body streams, unless a transform made it. It must be closed. Reading it
	// fails with ErrUnreachable when the destination breaks off, and with
	// ErrTimeout when it falls silent.
	Body io.ReadCloser
}

// inside returns the call as package relay takes it.
func (p *ProxyCall) inside() *relay.Call {
	return &relay.Call{
		Key: p.Key, URL: p.URL, Method: p.Method, Path: p.Path, Query: p.Query, Header: p.Header, Body: p.Body, ContentLength: p.ContentLength,
		MaxBody: p.MaxBody, KeepAlive: p.KeepAlive, Connection: p.Connection,
	}
}

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
	return run(ctx, c, &verbs.InvokeProxy, func(ctx context.Context, op *core.Op) (*ProxyAnswer, error) {
		answer, err := c.v.relay.Call(ctx, op, p.inside())
		return (*ProxyAnswer)(answer), err
	})
}

// InvokeProxy is [Client.InvokeProxy] for a caller who shows no API key. Only a
// proxy that requires no authentication takes such a call; others fail with
// ErrUnauthenticated. Expressions are replaced with the rights of the proxy's
// application; without one that holds token:use they are ErrForbidden.
func (v *Vault) InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error) {
	answer, err := v.relay.CallOpen(ctx, p.inside(), p.Origin)
	return (*ProxyAnswer)(answer), public(err)
}

// RoundTripper returns a transport that replaces the expressions in the bodies
// of outbound requests by the data of tokens, by the rules of
// [Client.InvokeProxy], and hands the requests to base; nil stands for
// [http.DefaultTransport]. With it any Go client can be pointed through the
// vault:
//
//	stripe.SetHTTPClient(&http.Client{Transport: c.RoundTripper(nil)})
//
// The client needs token:use on the tokens that a request names, and none for a
// request that names none. A body that has to be looked at may have at most
// [Config.MaxBytes]; others are not held in memory. Where requests go is up to
// the program: the egress policy of the vault is not applied, and an
// [http.Client] that follows a redirect with its body sends the data there too.
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

// RoundTrip sends a request with its expressions replaced. The request itself
// is not changed.
func (d *detokenizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := verbs.RoundTripper.Check(d.client.caller.Place); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	format, _ := relay.FormatOf(req.Header)
	if req.Body == nil || req.Body == http.NoBody || format == relay.Opaque {
		return d.base.RoundTrip(req)
	}
	defer req.Body.Close()
	raw, err := relay.ReadRequest(req.Body, int64(d.client.v.cfg.MaxBytes))
	if err != nil {
		return nil, err
	}
	body, err := run(req.Context(), d.client, &verbs.RoundTripper, func(ctx context.Context, op *core.Op) ([]byte, error) {
		return relay.Detokenize(ctx, op, req.Header, raw)
	})
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.ContentLength = int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body, _ = out.GetBody()
	out.Header.Del("Content-Length")
	return d.base.RoundTrip(out)
}
