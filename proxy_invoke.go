package vault

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/trace"
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
		return op.v.invoke(ctx, op.Op, &Proxy{DestinationURL: p.URL}, &p)
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
	return op.v.invoke(ctx, op.Op, x, &p)
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
	caller, err := run(ctx, v.Tenant(x.TenantID).Client, &verbFind, func(ctx context.Context, op *operation) (core.Identity, error) {
		return op.anonymous(ctx, x)
	})
	if err != nil {
		return nil, err
	}
	return run(ctx, v.Tenant(x.TenantID).as(caller.From(p.Origin)), &verbInvokeProxy, func(ctx context.Context, op *operation) (*ProxyAnswer, error) {
		return v.invoke(ctx, op.Op, x, &p)
	})
}

// proxyCaller returns a client for the caller of a proxy that has no API key.
func (v *Vault) proxyCaller(ctx context.Context, key string) (*Client, error) {
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

// invoke takes a request through a proxy.
func (v *Vault) invoke(ctx context.Context, op *core.Op, x *Proxy, p *ProxyCall) (*ProxyAnswer, error) {
	proxy := &relay.Proxy{
		ID: x.ID, Name: x.Name, DestinationURL: x.DestinationURL, Configuration: x.Configuration, Application: x.ApplicationID,
		RequestTransform: (*relay.Transform)(x.RequestTransform), ResponseTransform: (*relay.Transform)(x.ResponseTransform),
	}
	answer, err := v.relay.Invoke(ctx, op, proxy, &relay.Call{
		Method: p.Method, Path: p.Path, Query: p.Query, Header: p.Header, Body: p.Body, ContentLength: p.ContentLength,
		MaxBody: p.MaxBody, KeepAlive: p.KeepAlive, Connection: p.Connection, AsIs: p.asIs,
	})
	if err != nil {
		return nil, err
	}
	return (*ProxyAnswer)(answer), nil
}
