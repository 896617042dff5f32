package vaultclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

const proxies = "/proxies"

// CreateProxy creates a proxy with a key. See [vault.Client.CreateProxy].
func (c *Client) CreateProxy(ctx context.Context, p vault.ProxyParams) (*vault.Proxy, error) {
	return write[vault.Proxy](ctx, c, &core.VerbCreateProxy, http.MethodPost, proxies, p)
}

// GetProxy returns a proxy. See [vault.Client.GetProxy].
func (c *Client) GetProxy(ctx context.Context, id uuid.UUID) (*vault.Proxy, error) {
	return get[vault.Proxy](ctx, c, &core.VerbGetProxy, below(proxies, id), "")
}

// ListProxies returns a page of proxies, newest first. See
// [vault.Client.ListProxies].
func (c *Client) ListProxies(ctx context.Context, p vault.ListProxiesParams) (*vault.Page[vault.Proxy], error) {
	return list[vault.Proxy](ctx, c, &core.VerbListProxies, proxies, p.IDs, p.Name, p.PageParams)
}

// ReplaceProxy replaces everything of a proxy except its key. See
// [vault.Client.ReplaceProxy].
func (c *Client) ReplaceProxy(ctx context.Context, id uuid.UUID, p vault.ProxyParams) (*vault.Proxy, error) {
	return write[vault.Proxy](ctx, c, &core.VerbReplaceProxy, http.MethodPut, below(proxies, id), p)
}

// PatchProxy changes a proxy by a JSON merge patch. See
// [vault.Client.PatchProxy]. A key that may not read proxies gets
// [ErrUnseen].
func (c *Client) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*vault.Proxy, error) {
	return patchEntity[vault.Proxy](ctx, c, &core.VerbPatchProxy, below(proxies, id), patch)
}

// DeleteProxy deletes a proxy. See [vault.Client.DeleteProxy].
func (c *Client) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	return c.remove(ctx, &core.VerbDeleteProxy, below(proxies, id))
}
