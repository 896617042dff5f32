package vaultclient

import (
	"context"
	"iter"
	"net/url"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// proxies sends the calls of proxies.
var proxies = collection[vault.Proxy, vault.ProxyParams]{
	verbs: &core.ProxyVerbs, path: "/proxies",
	id:   func(x *vault.Proxy) uuid.UUID { return x.ID },
	name: func(x *vault.Proxy) string { return x.Name },
	same: func(x *vault.Proxy, p vault.ProxyParams) bool { return x.Params().Same(p) },
}

// CreateProxy creates a proxy with a key. See [vault.Client.CreateProxy].
func (c *Client) CreateProxy(ctx context.Context, p vault.ProxyParams) (*vault.Proxy, error) {
	return proxies.create(ctx, c, p)
}

// GetProxy returns a proxy. See [vault.Client.GetProxy].
func (c *Client) GetProxy(ctx context.Context, id uuid.UUID) (*vault.Proxy, error) {
	return proxies.get(ctx, c, id)
}

// ListProxies returns a page of proxies, newest first. See
// [vault.Client.ListProxies].
func (c *Client) ListProxies(ctx context.Context, p vault.ListParams) (*vault.Page[vault.Proxy], error) {
	return proxies.list(ctx, c, entityQuery(p.IDs, p.Name, p.PageParams))
}

// ReplaceProxy replaces everything of a proxy except its key. See
// [vault.Client.ReplaceProxy].
func (c *Client) ReplaceProxy(ctx context.Context, id uuid.UUID, p vault.ProxyParams) (*vault.Proxy, error) {
	return proxies.replace(ctx, c, id, p)
}

// PatchProxy changes a proxy by a JSON merge patch. See
// [vault.Client.PatchProxy]. A key that may not read proxies gets
// [ErrUnseen].
func (c *Client) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*vault.Proxy, error) {
	return proxies.patch(ctx, c, id, patch)
}

// AllProxies iterates over all proxies that match the filters, newest first.
// See [vault.Client.AllProxies].
func (c *Client) AllProxies(ctx context.Context, p vault.ListParams) iter.Seq2[*vault.Proxy, error] {
	return proxies.all(ctx, c, func(page vault.PageParams) url.Values { return entityQuery(p.IDs, p.Name, page) })
}

// ApplyProxy creates or updates the proxy with the name of p. See
// [Client.ApplyApplication].
func (c *Client) ApplyProxy(ctx context.Context, p vault.ProxyParams) (*vault.Applied[vault.Proxy], error) {
	return proxies.apply(ctx, c, p.Name, p)
}

// DeleteProxy deletes a proxy. See [vault.Client.DeleteProxy].
func (c *Client) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	return proxies.delete(ctx, c, id)
}
