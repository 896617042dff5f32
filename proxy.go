package vault

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/internal/cache"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
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
		p.Name, p.DestinationURL = r.Text("name"), r.Text("destination_url")
		p.RequestTransform, p.ResponseTransform = readTransform(r, "request_transform"), readTransform(r, "response_transform")
		p.Application = readApplicationRef(r)
		p.Configuration = r.TextMap("configuration")
		p.RequireAuth = r.OptionalBool("require_auth")
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

func readTransform(r *form.Reader, name string) *ProxyTransform {
	var t *ProxyTransform
	r.Object(name, func(r *form.Reader) {
		t = &ProxyTransform{r.Text("code")}
		if t.Code == "" {
			r.Problem("code", "is required")
		}
	})
	return t
}

func (t *ProxyTransform) code() string {
	if t == nil {
		return ""
	}
	return t.Code
}

// check checks the parameters, and transforms that differ from the old ones.
func (p *ProxyParams) check(ctx context.Context, op *operation, old *Proxy) error {
	if err := p.checkFields(ctx, op); err != nil {
		return err
	}
	return p.load(ctx, op, old)
}

// checkFields checks everything but whether the transforms can be used.
func (p *ProxyParams) checkFields(ctx context.Context, op *operation) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", p.Name)
	if p.DestinationURL == "" {
		bad.Add("destination_url", "is required")
	} else {
		op.v.checkURL(bad, "destination_url", p.DestinationURL)
	}
	checkCode(bad, "request_transform.code", p.RequestTransform.code())
	checkCode(bad, "response_transform.code", p.ResponseTransform.code())
	checkConfiguration(bad, p.Configuration)
	if err := op.checkScriptApplication(ctx, bad, p.Application); err != nil {
		return err
	}
	return fault.Of(bad)
}

// load lets the runtime look at transforms that are not the old ones.
func (p *ProxyParams) load(ctx context.Context, op *operation, old *Proxy) error {
	if err := op.v.runs.Check(ctx, op.Op, "request_transform.code", p.Name, p.RequestTransform.code(), old.RequestTransform.code()); err != nil {
		return err
	}
	return op.v.runs.Check(ctx, op.Op, "response_transform.code", p.Name, p.ResponseTransform.code(), old.ResponseTransform.code())
}

// CreateProxy adds a proxy and gives it a key (permission proxy:create). Code
// that cannot be used is ErrCode, and a [*script.Error] whose Messages say what is
// wrong with it.
func (c *Client) CreateProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return run(ctx, c, &verbCreateProxy, func(ctx context.Context, op *operation) (*Proxy, error) {
		x, err := op.newProxy(ctx, &p)
		if err != nil {
			return nil, err
		}
		if _, err := proxies.Create(ctx, op.Op, x); err != nil {
			return nil, err
		}
		return x.seenBy(op), nil
	})
}

// newProxy returns a proxy that is still to be stored.
func (op *operation) newProxy(ctx context.Context, p *ProxyParams) (*Proxy, error) {
	if err := p.check(ctx, op, &Proxy{}); err != nil {
		return nil, err
	}
	x := &Proxy{ID: op.NewID(), TenantID: op.Tenant(), Key: ids.Random58(proxyKeyLength), CreatedBy: op.Creator(), CreatedAt: op.Now}
	x.set(p)
	return x, nil
}

// seenBy returns a changed proxy as the caller may see it: with its
// configuration only if it may read proxies.
func (x *Proxy) seenBy(op *operation) *Proxy {
	if op.Grant().Has(access.ProxyRead) {
		return x
	}
	seen := *x
	seen.Configuration = nil
	return &seen
}

// proxyKeyLength gives a key 128 random bits.
const proxyKeyLength = 22

func (x *Proxy) set(p *ProxyParams) {
	x.Name, x.DestinationURL, x.Configuration = p.Name, p.DestinationURL, p.Configuration
	x.RequestTransform, x.ResponseTransform = p.RequestTransform, p.ResponseTransform
	x.RequireAuth = p.RequireAuth == nil || *p.RequireAuth
	x.ApplicationID = uuid.UUID{}
	if p.Application != nil {
		x.ApplicationID = p.Application.ID
	}
}

var proxies = records.Kind[Proxy]{
	Name: kindProxy,
	Columns: func(x *Proxy) storage.Record {
		return storage.Record{ID: storage.ID(x.ID), Name: x.Name, Key: apikey.Hash(x.Key), CreatedAt: x.CreatedAt}
	},
	Document: func(x *Proxy) any { return x },
	Unreadable: func(rec *storage.Record) Proxy {
		return Proxy{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), RequireAuth: true, CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(x *Proxy, by uuid.UUID, at time.Time) { x.ModifiedBy, x.ModifiedAt = by, at },
	Application: func(x *Proxy) (uuid.UUID, func()) {
		return x.ApplicationID, func() { x.ApplicationID = uuid.UUID{} }
	},
}

// EnsureProxy returns the proxy that has the name of p, and creates it when there
// is none (permissions proxy:read, and proxy:create when it is missing). Programs
// that start together get the same one, with the same key. A proxy that exists is
// returned as it is, whatever else p says: [Client.ApplyProxy] changes it.
func (c *Client) EnsureProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return run(ctx, c, &verbEnsureProxy, func(ctx context.Context, op *operation) (*Proxy, error) {
		return proxies.Ensure(ctx, op.Op, p.Name, func() (*Proxy, error) {
			if err := op.Require(access.ProxyCreate); err != nil {
				return nil, err
			}
			return op.newProxy(ctx, &p)
		})
	})
}

// GetProxy returns a proxy (permission proxy:read).
func (c *Client) GetProxy(ctx context.Context, id uuid.UUID) (*Proxy, error) {
	return run(ctx, c, &verbGetProxy, func(ctx context.Context, op *operation) (*Proxy, error) {
		return proxies.Get(ctx, op.Op, id)
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
	return listRecords(ctx, c, &verbListProxies, &proxies, records.List[Proxy]{IDs: p.IDs, Name: p.Name}, p.PageParams)
}

// AllProxies iterates over all proxies that meet the filter, newest first
// (permission proxy:read): see [Client.AllTokens].
func (c *Client) AllProxies(ctx context.Context, f ProxyFilter) iter.Seq2[*Proxy, error] {
	return allRecords(ctx, c, &verbAllProxies, &proxies, records.List[Proxy]{IDs: f.IDs, Name: f.Name})
}

// ReplaceProxy replaces everything of a proxy but its key (permission
// proxy:update).
func (c *Client) ReplaceProxy(ctx context.Context, id uuid.UUID, p ProxyParams) (*Proxy, error) {
	return run(ctx, c, &verbReplaceProxy, func(ctx context.Context, op *operation) (*Proxy, error) {
		if err := p.check(ctx, op, &Proxy{}); err != nil {
			return nil, err
		}
		x, err := op.updateProxy(ctx, id, func(x *Proxy) error {
			x.set(&p)
			return nil
		})
		if err != nil {
			return nil, err
		}
		return x.seenBy(op), nil
	})
}

// PatchProxy changes a proxy by a JSON merge patch (RFC 7386) of its
// parameters, which [EncodeJSON] reads (permission proxy:update).
func (c *Client) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*Proxy, error) {
	return run(ctx, c, &verbPatchProxy, func(ctx context.Context, op *operation) (*Proxy, error) { return op.patchProxy(ctx, id, patch) })
}

func (op *operation) patchProxy(ctx context.Context, id uuid.UUID, patch any) (*Proxy, error) {
	text, err := EncodeJSON(patch)
	if err != nil {
		return nil, err
	}
	x, err := op.updateProxy(ctx, id, func(x *Proxy) error {
		var p ProxyParams
		if err := proxyForm.Merge(&p, x.Params(), text); err != nil {
			return err
		}
		kept := p.Application
		if !records.Names(text, "application") && !records.Names(text, "application_id") {
			p.Application = nil // it was checked when it was set, and may be gone
		}
		if err := p.check(ctx, op, x); err != nil {
			return err
		}
		p.Application = kept
		x.set(&p)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		var alone ProxyParams
		err = cmp.Or(proxyForm.Fault(text, &alone,
			func() error { return alone.checkFields(ctx, op) },
			func() error { return alone.load(ctx, op, &Proxy{}) }), err)
	}
	if err != nil {
		return nil, err
	}
	return x.seenBy(op), nil
}

func (op *operation) updateProxy(ctx context.Context, id uuid.UUID, change func(*Proxy) error) (*Proxy, error) {
	defer op.Afterwards(op.v.proxies.Clear)
	return proxies.Update(ctx, op.Op, id, change)
}

// DeleteProxy deletes a proxy (permission proxy:delete).
func (c *Client) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbDeleteProxy, func(ctx context.Context, op *operation) error {
		defer op.Afterwards(op.v.proxies.Clear)
		return proxies.Delete(ctx, op.Op, id, nil)
	})
}

// openProxyOf finds a proxy that anybody may call.
func (v *Vault) openProxyOf(ctx context.Context, key string) (*Proxy, error) {
	x, err := v.proxyOf(ctx, key)
	if err == nil && x.RequireAuth {
		err = ErrUnauthenticated
	}
	return x, err
}

// maxProxyKey is longer than every key.
const maxProxyKey = 100

// proxyOf finds a proxy by its key. The proxy is used for up to a second, but on
// the node that changes it not beyond the change; then it is dropped, because it
// may hold secrets.
func (v *Vault) proxyOf(ctx context.Context, key string) (*Proxy, error) {
	if len(key) > maxProxyKey {
		return nil, fault.ErrNoProxy
	}
	hash := apikey.Hash(key)
	if x, ok := v.proxies.Get(hash); ok {
		return x, v.mayStillOpen(ctx, x)
	}
	reading := v.proxies.Ask(hash)
	rec, err := core.Lookup(ctx, v.store, hash)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fault.ErrAltered) || err == nil && (rec.Kind != kindProxy || rec.Key != hash) {
		return nil, fault.ErrNoProxy
	}
	if err != nil {
		return nil, err
	}
	x, err := run(ctx, v.Tenant(uuid.UUID(rec.Tenant)).Client, &verbFind, func(ctx context.Context, op *operation) (*Proxy, error) {
		return proxies.Open(ctx, op.Op, &rec)
	})
	if err != nil {
		return nil, proxyGone(err)
	}
	reading.Keep(x)
	time.AfterFunc(cache.MaxAge, func() { v.proxies.Drop(hash) })
	return x, nil
}

// mayStillOpen asks whether the tenant of a proxy still exists.
func (v *Vault) mayStillOpen(ctx context.Context, x *Proxy) error {
	err := runErr(ctx, v.Tenant(x.TenantID).Client, &verbFind, func(context.Context, *operation) error { return nil })
	return proxyGone(err)
}

// proxyGone says of a tenant that is being deleted that its proxies are gone.
func proxyGone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fault.ErrNoProxy
	}
	return err
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

	// asIs means that nothing is filled in: what looks like an expression is
	// data.
	asIs bool
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
