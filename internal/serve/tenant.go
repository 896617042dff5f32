package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// demoTenant is the name of the tenant that the first start creates, and demoName
// the name under which the vault knows it. The tenant can change the former, but no
// other tenant is created under the latter.
const (
	demoTenant = "Demo"
	demoName   = demoTenant + " 5e1f0c52-9a0b-4c35-8f5d-0d6f3c7a2b41"
)

// demoCredentials returns the keys in the credentials file if they work in this
// database. Otherwise it issues new keys, for the existing demo tenant or for a
// new one. Keys that others hold stay valid.
func demoCredentials(ctx context.Context, v *vault.Vault, cfg *Config) (*credentials, error) {
	known, err := readCredentials(cfg.credentials)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if good, err := known.work(ctx, v); err != nil || good {
			return known, err
		}
	}
	tenant, err := v.EnsureTenant(ctx, demoName)
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID).Client
	if tenant.Name == demoName { // it is new
		if _, err := c.ReplaceTenant(ctx, vault.TenantParams{Name: demoTenant, Settings: tenant.Settings}); err != nil {
			return nil, err
		}
	}
	return issue(ctx, c)
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

// issue adds an application of each type to the client's tenant. Each application
// has all permissions that its type allows.
func issue(ctx context.Context, client *vault.Client) (*credentials, error) {
	c := &credentials{TenantID: client.TenantID().String()}
	for typ, key := range map[vault.ApplicationType]*string{
		vault.ApplicationPublic: &c.PublicKey, vault.ApplicationPrivate: &c.PrivateKey, vault.ApplicationManagement: &c.ManagementKey,
	} {
		app, err := client.CreateApplication(ctx, vault.ApplicationParams{Name: "Server " + string(typ), Type: typ, Permissions: vault.AllPermissions(typ)})
		if err != nil {
			return nil, fmt.Errorf("create the %s application: %w", typ, err)
		}
		*key = app.Key
	}
	return c, nil
}

// newTenant creates a tenant and returns its keys as one line of JSON. The line
// has the server's address if the server's credentials file is present.
func newTenant(ctx context.Context, v *vault.Vault, cfg *Config, _ *terminal.Progress) (string, error) {
	tenant, err := v.CreateTenant(ctx, cfg.newTenant)
	if err != nil {
		return "", err
	}
	c, err := issue(ctx, v.Tenant(tenant.ID).Client)
	if err != nil {
		return "", err
	}
	c.BaseURL = baseURL(cfg.addr, cfg.tlsCert != "")
	if known, err := readCredentials(cfg.credentials); err == nil && known != nil && known.BaseURL != "" {
		c.BaseURL = known.BaseURL
	}
	line, err := json.Marshal(c)
	return string(line), err
}
