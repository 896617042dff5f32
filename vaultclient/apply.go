package vaultclient

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// ApplyApplication creates or updates the application with the name of p, so
// that it matches p. See [vault.Client.ApplyApplication].
//
// It sends several requests. If two programs apply the same new name at the
// same time, they may create two applications; later calls then use the older
// one.
func (c *Client) ApplyApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Applied[vault.Application], error) {
	return apply(ctx, c, &core.VerbApplyApplication, applying[vault.Application, vault.ApplicationParams]{
		there: func(ctx context.Context) iter.Seq2[*vault.Application, error] {
			return c.AllApplications(ctx, vault.ListApplicationsParams{Name: p.Name})
		},
		name:   func(a *vault.Application) string { return a.Name },
		same:   func(a *vault.Application) bool { return a.Params().Same(p) },
		create: c.CreateApplication, replace: c.ReplaceApplication, id: func(a *vault.Application) uuid.UUID { return a.ID },
	}, p.Name, p)
}

// ApplyReactor creates or updates the reactor with the name of p. See
// [Client.ApplyApplication].
func (c *Client) ApplyReactor(ctx context.Context, p vault.ReactorParams) (*vault.Applied[vault.Reactor], error) {
	return apply(ctx, c, &core.VerbApplyReactor, applying[vault.Reactor, vault.ReactorParams]{
		there: func(ctx context.Context) iter.Seq2[*vault.Reactor, error] {
			return c.AllReactors(ctx, vault.ListReactorsParams{Name: p.Name})
		},
		name:   func(r *vault.Reactor) string { return r.Name },
		same:   func(r *vault.Reactor) bool { return r.Params().Same(p) },
		create: c.CreateReactor, replace: c.ReplaceReactor, id: func(r *vault.Reactor) uuid.UUID { return r.ID },
	}, p.Name, p)
}

// ApplyProxy creates or updates the proxy with the name of p. See
// [Client.ApplyApplication].
func (c *Client) ApplyProxy(ctx context.Context, p vault.ProxyParams) (*vault.Applied[vault.Proxy], error) {
	return apply(ctx, c, &core.VerbApplyProxy, applying[vault.Proxy, vault.ProxyParams]{
		there: func(ctx context.Context) iter.Seq2[*vault.Proxy, error] {
			return c.AllProxies(ctx, vault.ListProxiesParams{Name: p.Name})
		},
		name:   func(x *vault.Proxy) string { return x.Name },
		same:   func(x *vault.Proxy) bool { return x.Params().Same(p) },
		create: c.CreateProxy, replace: c.ReplaceProxy, id: func(x *vault.Proxy) uuid.UUID { return x.ID },
	}, p.Name, p)
}

// applying finds, compares and changes entities of one kind.
type applying[T, P any] struct {
	there   func(context.Context) iter.Seq2[*T, error] // newest first, with matching names
	name    func(*T) string
	same    func(*T) bool
	create  func(context.Context, P) (*T, error)
	replace func(context.Context, uuid.UUID, P) (*T, error)
	id      func(*T) uuid.UUID
}

func apply[T, P any](ctx context.Context, c *Client, verb *core.Verb, a applying[T, P], name string, p P) (*vault.Applied[T], error) {
	ctx, end := c.tell(ctx, verb)
	out, err := a.apply(ctx, name, p)
	end(err)
	return out, err
}

func (a *applying[T, P]) apply(ctx context.Context, name string, p P) (*vault.Applied[T], error) {
	var found *T
	for item, err := range a.there(ctx) {
		if err != nil {
			return nil, err
		}
		if a.name(item) == name { // the filter ignores case and treats * as a wildcard
			found = item
		}
	}
	out, err := &vault.Applied[T]{Item: found, Created: found == nil}, error(nil)
	switch {
	case out.Created:
		out.Item, err = a.create(ctx, p)
	case !a.same(found):
		out.Changed = true
		out.Item, err = a.replace(ctx, a.id(found), p)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
