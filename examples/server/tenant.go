package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// demoTenant is the name of the tenant that the first start creates.
const demoTenant = "Demo"

// demoCredentials returns the keys in the credentials file as long as they
// work in this database. Otherwise it issues new ones, for the demo tenant that
// is there or for a new one; keys that others hold stay good.
func demoCredentials(ctx context.Context, v *vault.Vault, cfg *config) (*credentials, error) {
	known, err := readCredentials(cfg.credentials)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if good, err := known.work(ctx, v); err != nil || good {
			return known, err
		}
	}
	tenant, err := findTenant(ctx, v, demoTenant)
	if err != nil {
		return nil, err
	}
	if tenant == nil {
		if tenant, err = v.CreateTenant(ctx, demoTenant); err != nil {
			return nil, err
		}
	}
	return issue(ctx, v, tenant, func(int) {})
}

// work reports whether all three keys are keys of the tenant.
func (c *credentials) work(ctx context.Context, v *vault.Vault) (bool, error) {
	for _, key := range []string{c.PublicKey, c.PrivateKey, c.ManagementKey} {
		client, err := v.Authenticate(ctx, key)
		if errors.Is(err, vault.ErrUnauthenticated) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if client.TenantID().String() != c.TenantID {
			return false, nil
		}
	}
	return true, nil
}

// findTenant returns the oldest tenant of a name, or nil.
func findTenant(ctx context.Context, v *vault.Vault, name string) (*vault.Tenant, error) {
	var found *vault.Tenant
	err := eachTenant(ctx, v, func(t *vault.Tenant) {
		if t.Name == name {
			found = t
		}
	})
	return found, err
}

// eachTenant calls do with every tenant, the newest first.
func eachTenant(ctx context.Context, v *vault.Vault, do func(*vault.Tenant)) error {
	for number := 1; ; number++ {
		page, err := v.Tenants(ctx, vault.PageParams{Page: number, Size: 100})
		if err != nil {
			return err
		}
		for i := range page.Data {
			do(&page.Data[i])
		}
		if number >= page.Pagination.TotalPages {
			return nil
		}
	}
}

// issue adds an application of each type to a tenant, and reports how many it
// has added. Each holds all that its type may hold.
func issue(ctx context.Context, v *vault.Vault, tenant *vault.Tenant, added func(int)) (*credentials, error) {
	c := &credentials{TenantID: tenant.ID.String()}
	n := 0
	for typ, key := range map[vault.ApplicationType]*string{
		vault.Public: &c.PublicKey, vault.Private: &c.PrivateKey, vault.Management: &c.ManagementKey,
	} {
		var err error
		if *key, err = newApplication(ctx, v, tenant.ID, typ); err != nil {
			return nil, fmt.Errorf("create the %s application: %w", typ, err)
		}
		n++
		added(n)
	}
	return c, nil
}

func newApplication(ctx context.Context, v *vault.Vault, tenant uuid.UUID, typ vault.ApplicationType) (string, error) {
	c := v.Tenant(tenant)
	all, err := c.ListPermissions(ctx)
	if err != nil {
		return "", err
	}
	p := vault.ApplicationParams{Name: "Server " + string(typ), Type: typ}
	for _, permission := range all {
		if slices.Contains(permission.ApplicationTypes, typ) {
			p.Permissions = append(p.Permissions, permission.Type)
		}
	}
	app, err := c.CreateApplication(ctx, p)
	if err != nil {
		return "", err
	}
	return app.Key, nil
}

// newTenant creates a tenant and returns its keys as one line of JSON. The
// address is that of the server, if its credentials file is here.
func newTenant(ctx context.Context, v *vault.Vault, cfg *config, bar *progress) (string, error) {
	const steps = 4 // the tenant and its applications
	bar.set("Creating a tenant", 0, steps)
	tenant, err := v.CreateTenant(ctx, cfg.newTenant)
	if err != nil {
		return "", err
	}
	bar.set("Creating applications", 1, steps)
	c, err := issue(ctx, v, tenant, func(n int) { bar.set("Creating applications", 1+n, steps) })
	if err != nil {
		return "", err
	}
	c.BaseURL = cfg.baseURL(cfg.addr)
	if known, err := readCredentials(cfg.credentials); err == nil && known != nil && known.BaseURL != "" {
		c.BaseURL = known.BaseURL
	}
	line, err := json.Marshal(c)
	return string(line), err
}
