package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

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

// Call sends a request of a caller through the proxy that it names.
func (r *Relay) Call(ctx context.Context, op *core.Op, p *Call) (*Answer, error) {
	if p.Key == "" && p.URL == "" {
		return nil, errNoDestination(ctx)
	}
	x := &Proxy{DestinationURL: p.URL, RequireAuth: true}
	if p.Key != "" {
		var err error
		if x, err = r.proxyOf(ctx, p.Key); err != nil {
			return nil, err
		}
		if x.TenantID != op.Tenant() {
			return nil, fault.ErrNoProxy
		}
	}
	if x.RequireAuth {
		if err := op.Require(access.TokenUse); err != nil {
			return nil, err
		}
	}
	if p.Key == "" {
		bad := &form.Problems{}
		if r.checkURL(bad, field(ctx, "url"), p.URL); bad.Any() {
			return nil, fault.Of(bad)
		}
	}
	return r.invoke(ctx, op, x, p)
}

// Forward sends a request of the forward proxy. It may use only tokens whose use is
// limited to destinations.
func (r *Relay) Forward(ctx context.Context, op *core.Op, p *Call) (*Answer, error) {
	if err := MayForward(op.Grant()); err != nil {
		return nil, err
	}
	p.boundOnly = true
	return r.invoke(ctx, op, &Proxy{DestinationURL: p.URL, RequireAuth: true}, p)
}

// MayForward checks that a caller may use the forward proxy: one of its rules must
// have destinations.
func MayForward(g *access.Grant) error {
	switch {
	case !g.Has(access.TokenUse):
		return fault.Permission(access.TokenUse)
	case g.Destinations() == nil:
		return fault.New(fault.ErrForbidden, "the forward proxy is for keys that have a rule with destinations")
	}
	return nil
}

// field returns what an error calls a field of a call: the header in the REST API,
// and the field itself in Go.
func field(ctx context.Context, name string) string {
	if prefix := trace.Of(ctx).Prefix; prefix != "" {
		return prefix + "PROXY-" + strings.ToUpper(name)
	}
	return name
}

func errNoDestination(ctx context.Context) error {
	return fault.Field(field(ctx, "key"), "must name a proxy by its key, or a destination by its URL")
}

// CallOpen is Call without an API key. The caller comes from the given
// origin.
func (r *Relay) CallOpen(ctx context.Context, p *Call, origin string) (*Answer, error) {
	switch {
	case p.Key == "" && p.URL == "":
		return nil, errNoDestination(ctx)
	case p.Key == "":
		return nil, fault.ErrUnauthenticated
	}
	x, err := r.openProxyOf(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	owner := r.Vault.Owner(x.TenantID)
	caller, err := core.Do(ctx, owner, &core.VerbFindProxy, func(ctx context.Context, op *core.Op) (core.Identity, error) {
		return anonymous(ctx, op, x)
	})
	if err != nil {
		return nil, err
	}
	return core.Do(ctx, owner.At(caller.From(origin)), &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*Answer, error) {
		return r.invoke(ctx, op, x, p)
	})
}

// Stranger returns the caller of a proxy without an API key.
func (r *Relay) Stranger(ctx context.Context, key string) (core.Caller, error) {
	x, err := r.openProxyOf(ctx, key)
	if err != nil {
		return core.Caller{}, err
	}
	return r.Vault.Owner(x.TenantID).At(core.Stranger(x.TenantID, x.ID)), nil
}

// anonymous returns the identity for a proxy call without an API key. It is
// the proxy's application if that may use tokens, and otherwise an identity
// without permissions.
func anonymous(ctx context.Context, op *core.Op, x *Proxy) (core.Identity, error) {
	stranger := core.Stranger(x.TenantID, x.ID)
	if x.ApplicationID == (uuid.UUID{}) {
		return stranger, nil
	}
	id, err := op.As(ctx, x.ApplicationID)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrUnauthenticated) || err == nil && !id.Grant().Has(access.TokenUse) {
		return stranger, nil
	}
	return id.Calling(x.ID), err
}

// openProxyOf finds a proxy that requires no authentication.
func (r *Relay) openProxyOf(ctx context.Context, key string) (*Proxy, error) {
	x, err := r.proxyOf(ctx, key)
	if err == nil && x.RequireAuth {
		err = fault.ErrUnauthenticated
	}
	return x, err
}

// maxKey is longer than any key.
const maxKey = 100

// proxyOf finds a proxy by its key. It caches the proxy for up to a second,
// and on the node that changes the proxy at most until the change. The cached
// proxy is then dropped, because it may contain secrets.
func (r *Relay) proxyOf(ctx context.Context, key string) (*Proxy, error) {
	if len(key) > maxKey {
		return nil, fault.ErrNoProxy
	}
	hash := ids.HashKey(key)
	if x, ok := r.open.Get(hash); ok { // if its tenant still exists
		_, err := core.Do(ctx, r.Vault.Owner(x.TenantID), &core.VerbFindProxy, func(context.Context, *core.Op) (none struct{}, err error) { return none, nil })
		return x, cmp.Or(gone(err), x.Hold.Err(audit.Proxy))
	}
	reading := r.open.Ask(hash)
	rec, err := core.Lookup(ctx, r.Vault.Store, hash)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fault.ErrAltered) || err == nil && (rec.Kind != audit.Proxy || rec.Key != hash) {
		return nil, fault.ErrNoProxy
	}
	if err != nil {
		return nil, err
	}
	x, err := core.Do(ctx, r.Vault.Owner(uuid.UUID(rec.Tenant)), &core.VerbFindProxy, func(ctx context.Context, op *core.Op) (*Proxy, error) {
		return Proxies.Open(ctx, op, &rec)
	})
	if err != nil {
		return nil, gone(err)
	}
	reading.Keep(x)
	time.AfterFunc(core.MaxAge, func() { r.open.Drop(hash) })
	return x, x.Hold.Err(audit.Proxy)
}

// gone converts the error for a tenant that is being deleted to ErrNoProxy.
func gone(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return fault.ErrNoProxy
	}
	return err
}
