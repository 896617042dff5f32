package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

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
		return x, gone(err)
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
	return x, nil
}

// gone converts the error for a tenant that is being deleted to ErrNoProxy.
func gone(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return fault.ErrNoProxy
	}
	return err
}

// ScriptCall lets running code send a request through a proxy. Its options
// are proxyKey or proxyUrl, path, query, headers, body and detokenize. The
// body is sent unchanged unless detokenize is true, because code may put the
// data of tokens in it, and data that looks like an expression must not
// become one. The result has status, headers and body. A JSON body becomes a
// value, any other body a string.
func (r *Relay) ScriptCall(ctx context.Context, as core.Caller, method string, args json.RawMessage) (json.RawMessage, error) {
	p := &Call{Method: method}
	m := &Message{Header: http.Header{}}
	if err := fault.Of(form.ReadText(args, func(r *form.Reader) { p.read(r, m) })); err != nil {
		return nil, err
	}
	p.Header, p.Body, p.ContentLength = m.Header, bytes.NewReader(m.Body), int64(len(m.Body))
	answer, err := core.Do(ctx, as, &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*Answer, error) { return r.Call(ctx, op, p) })
	if err != nil {
		return nil, err
	}
	return answer.json(int64(r.Vault.MaxBytes), core.LineageOf(ctx).Bytes)
}

// read reads the options of a call of running code.
func (p *Call) read(r *form.Reader, m *Message) {
	p.Key, p.URL, p.Path = r.Text("proxyKey"), r.Text("proxyUrl"), r.Text("path")
	if v := r.Value("query"); v.Kind() == jsonx.Object {
		pairs := url.Values{}
		for name, value := range r.TextMap("query") {
			pairs.Set(name, value)
		}
		p.Query = pairs.Encode()
	} else {
		p.Query = strings.TrimPrefix(r.Text("query"), "?")
	}
	if err := m.SetHeader(r.Value("headers"), ""); err != nil {
		r.Problem("headers", "must be an object of header names and strings")
	}
	m.SetBody(r.Value("body"), jsonx.Value{})
	p.asIs = !r.Bool("detokenize", false)
}

// json returns a response for running code. Its memory is counted. A JSON
// body stays text, because a tree would take many times the memory.
func (a *Answer) json(limit int64, counted *core.RunBytes) (json.RawMessage, error) {
	defer a.Body.Close()
	raw, err := counted.Read(a.Body, limit+1)
	defer func() { counted.Release(len(raw)) }()
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, TooLarge(limit)
	}
	m := &Message{Header: a.Header, Body: raw}
	if err := m.Decode(limit); err != nil {
		return nil, fault.New(fault.ErrUnreachable, "the destination's response cannot be read: it %s", err)
	}
	if err := counted.Add(len(m.Body)); err != nil {
		return nil, err
	}
	defer counted.Release(len(m.Body))
	out := fmt.Appendf(nil, `{"status":%d,"headers":%s,"body":`, a.Status, m.HeaderValue().JSON())
	return append(m.AppendValue(out), '}'), nil
}
