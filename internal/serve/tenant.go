package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// demoTenant is the name of the tenant that the first start creates.
const demoTenant = "Demo"

// demoUser is the user that creates the applications of the demo tenant, and
// nothing else. These applications identify the tenant. The tenant can change its
// name and theirs, but no tenant can create an application in this user's name.
var demoUser = uuid.MustParse("5e1f0c52-9a0b-4c35-8f5d-0d6f3c7a2b41")

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
	tenant, err := findDemoTenant(ctx, v)
	if err != nil {
		return nil, err
	}
	if tenant == nil {
		if tenant, err = ensureDemoTenant(ctx, v); err != nil {
			return nil, err
		}
	}
	return issue(ctx, v.Tenant(tenant.ID).AsUser(demoUser.String()).Client, func(int) {})
}

// ensureDemoTenant creates the demo tenant. It first uses a unique name, so that
// servers that start together create only one tenant. Then it gives the tenant its
// visible name.
func ensureDemoTenant(ctx context.Context, v *vault.Vault) (*vault.Tenant, error) {
	own := demoTenant + " " + demoUser.String()
	tenant, err := v.EnsureTenant(ctx, own)
	if err != nil || tenant.Name != own {
		return tenant, err
	}
	return v.Tenant(tenant.ID).ReplaceTenant(ctx, vault.TenantParams{Name: demoTenant, Settings: tenant.Settings})
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

// findDemoTenant returns the tenant that an earlier start created, or nil. It
// cannot recognize a tenant whose original applications are all deleted.
func findDemoTenant(ctx context.Context, v *vault.Vault) (*vault.Tenant, error) {
	tenants, err := AllTenants(ctx, v)
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		if t := &tenants[i]; t.Unreadable || t.Key != nil && t.Key.State != vault.TenantKeyOK {
			continue
		}
		found, err := isDemo(ctx, v.Tenant(tenants[i].ID).Client)
		if err != nil && !errors.Is(err, vault.ErrNotFound) { // deleted since it was listed
			return nil, err
		}
		if found {
			return &tenants[i], nil
		}
	}
	return nil, nil
}

// isDemo reports whether a tenant has an application of the demo tenant.
func isDemo(ctx context.Context, c *vault.Client) (bool, error) {
	for a, err := range c.AllApplications(ctx, vault.ListApplicationsParams{}) {
		if err != nil || a.CreatedBy == demoUser {
			return err == nil, err
		}
	}
	return false, nil
}

// AllTenants returns every tenant, oldest first.
func AllTenants(ctx context.Context, v *vault.Vault) ([]vault.Tenant, error) {
	var all []vault.Tenant
	for t, err := range v.AllTenants(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, *t)
	}
	slices.Reverse(all)
	return all, nil
}

// issue adds an application of each type to the client's tenant. It calls added
// with the number so far. Each application has all permissions that its type
// allows.
func issue(ctx context.Context, client *vault.Client, added func(int)) (*credentials, error) {
	c := &credentials{TenantID: client.TenantID().String()}
	n := 0
	for typ, key := range map[vault.ApplicationType]*string{
		vault.ApplicationPublic: &c.PublicKey, vault.ApplicationPrivate: &c.PrivateKey, vault.ApplicationManagement: &c.ManagementKey,
	} {
		var err error
		if *key, err = newApplication(ctx, client, typ); err != nil {
			return nil, fmt.Errorf("create the %s application: %w", typ, err)
		}
		n++
		added(n)
	}
	return c, nil
}

func newApplication(ctx context.Context, c *vault.Client, typ vault.ApplicationType) (string, error) {
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

// newTenant creates a tenant and returns its keys as one line of JSON. The line
// has the server's address if the server's credentials file is present.
func newTenant(ctx context.Context, v *vault.Vault, cfg *Config, bar *terminal.Progress) (string, error) {
	const steps = 4 // the tenant and its applications
	bar.Set("Creating a tenant", 0, steps)
	tenant, err := v.CreateTenant(ctx, cfg.newTenant)
	if err != nil {
		return "", err
	}
	bar.Set("Creating applications", 1, steps)
	c, err := issue(ctx, v.Tenant(tenant.ID).Client, func(n int) { bar.Set("Creating applications", 1+n, steps) })
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
