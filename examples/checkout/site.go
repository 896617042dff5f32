package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// site is the shop, its vault, and the acquirer.
type site struct {
	listeners             *listeners
	shop, vault, acquirer *http.Server
	store                 *shop
	bank                  *acquirer
}

// newSite sets up a new vault for the shop and creates a server for each
// part. The vault accepts requests only from pages of the shop.
func newSite(ctx context.Context, v *vault.Vault, l *listeners, logger *slog.Logger) (*site, error) {
	access, err := setUp(ctx, v, originOf(l.acquirer))
	if err != nil {
		return nil, err
	}
	if err := access.connect(originOf(l.vault)); err != nil {
		return nil, err
	}
	bank, store := newAcquirer(), newShop(access, logger)
	api := httpserver.Handler(v, &httpserver.Options{
		Origins:   []string{originOf(l.shop)},
		RateLimit: limitPages(access),
		Logger:    logger.With("server", "vault"),
	})
	return &site{listeners: l, store: store, bank: bank,
		shop: newServer(store.handler()), vault: newServer(api), acquirer: newServer(bank)}, nil
}

// setUp creates the shop's tenant, its two applications, and the proxy to the
// acquirer. Each application gets only the permissions that it needs.
func setUp(ctx context.Context, v *vault.Vault, acquirer string) (*vaultAccess, error) {
	tenant, err := v.CreateTenant(ctx, "Shop")
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	// Everyone can see the public key in the page. Any public application may
	// open sessions. It must have at least one permission, so it gets one on
	// a container that is not used.
	page, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "Checkout page", Type: vault.ApplicationPublic,
		Rules: []vault.AccessRule{{Priority: 1, Container: "/nowhere/", Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:create"}}}})
	if err != nil {
		return nil, err
	}
	// The server reads masked cards. It may use them in plaintext, but only a
	// proxy sees the plaintext.
	server, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "Shop server", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{
			{Priority: 1, Container: cards, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:read"}},
			{Priority: 2, Container: cards, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}},
		}})
	if err != nil {
		return nil, err
	}
	proxy, err := c.CreateProxy(ctx, vault.ProxyParams{Name: "Acquirer", DestinationURL: acquirer})
	if err != nil {
		return nil, err
	}
	return &vaultAccess{page: page.ID, publicKey: page.Key, privateKey: server.Key, proxyKey: proxy.Key}, nil
}

// Limits of a server.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	drainTimeout = 10 * time.Second
	maxHeader    = 16 << 10
)

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: writeTimeout,
		MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true} // OPTIONS * also goes to the handlers
}

// serve runs the servers until ctx ends or one of them fails. Then it waits
// for the requests in progress.
func (s *site) serve(ctx context.Context) error {
	servers := map[*http.Server]net.Listener{s.shop: s.listeners.shop, s.vault: s.listeners.vault, s.acquirer: s.listeners.acquirer}
	failed := make(chan error, len(servers))
	for server, listener := range servers {
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for _, server := range []*http.Server{s.shop, s.vault, s.acquirer} { // each depends on the next
		err = errors.Join(err, server.Shutdown(drain))
	}
	return err
}
