package faults

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Replicas that start together on one database and ensure the same things
// create one of each.
func TestConcurrentReplicasEnsureOneOfEach(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		key := vault.NewKey()
		nodes := []*vault.Vault{openVault(t, dsn, key, quietNode), openVault(t, dsn, key, quietNode)}
		const replicas = 8
		found := make([]ensured, replicas)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range replicas {
			wg.Go(func() {
				<-start
				found[i] = ensureAll(t, nodes[i%len(nodes)])
			})
		}
		close(start)
		wg.Wait()
		keys := 0
		for _, f := range found {
			if f.apiKey != "" {
				keys++
			}
			f.apiKey = ""
			if f.ids != found[0].ids || f.proxyKey != found[0].proxyKey {
				t.Errorf("one replica found %v, another %v", f, found[0])
			}
		}
		must.Same(t, "replicas got the API key", 1, keys)
		c := nodes[0].Tenant(found[0].ids[0])
		wantOneOfEach(t, nodes[0], c.Client)
	})
}

var quietNode = &vault.Config{SweepEvery: -1, WorkEvery: -1}

// ensured is what a replica found or created.
type ensured struct {
	ids              [4]uuid.UUID // tenant, application, reactor, proxy
	apiKey, proxyKey string
}

func ensureAll(t *testing.T, v *vault.Vault) (e ensured) {
	ctx := t.Context()
	fail := func(err error) bool {
		if err != nil {
			t.Error(err)
		}
		return err != nil
	}
	tenant, err := v.EnsureTenant(ctx, "Acme *")
	if fail(err) {
		return e
	}
	c := v.Tenant(tenant.ID)
	app, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: "Shop", Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate)})
	if fail(err) {
		return e
	}
	reactor, err := c.EnsureReactor(ctx, vault.ReactorParams{Name: "Charge", Code: "module.exports = () => ({})", Configuration: map[string]string{}})
	if fail(err) {
		return e
	}
	proxy, err := c.EnsureProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: "https://example.com"})
	if fail(err) {
		return e
	}
	return ensured{[4]uuid.UUID{tenant.ID, app.ID, reactor.ID, proxy.ID}, app.Key, proxy.Key}
}

func wantOneOfEach(t *testing.T, v *vault.Vault, c *vault.Client) {
	t.Helper()
	ctx := t.Context()
	for kind, count := range map[string]func() (int, error){
		"tenants": func() (int, error) { return total(v.ListTenants(ctx, vault.PageParams{})) },
		"applications": func() (int, error) {
			return total(c.ListApplications(ctx, vault.ListApplicationsParams{}))
		},
		"reactors": func() (int, error) { return total(c.ListReactors(ctx, vault.ListParams{})) },
		"proxies":  func() (int, error) { return total(c.ListProxies(ctx, vault.ListParams{})) },
	} {
		if n, err := count(); err != nil || n != 1 {
			t.Errorf("%d %s, %v, want 1", n, kind, err)
		}
	}
}

func total[T any](p *vault.Page[T], err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return p.Pagination.TotalItems, nil
}

// Ensure finds things by their current name, no matter who created them. It
// finds a tenant by the name that the tenant was created with.
func TestEnsureFindsThingsByName(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		v, ctx := openVault(t, dsn, vault.NewKey(), quietNode), t.Context()
		made := must.Get(v.CreateTenant(ctx, "Acme"))(t)
		younger := must.Get(v.CreateTenant(ctx, "Acme"))(t)
		got := must.Get(v.EnsureTenant(ctx, "Acme"))(t)
		if got.ID != made.ID || got.ID == younger.ID {
			t.Errorf("ensured %s, want the oldest with that name", got.ID)
		}
		shouted := must.Get(v.EnsureTenant(ctx, "ACME"))(t)
		if shouted.ID == made.ID {
			t.Error("names that differ in case were treated as equal")
		}
		must.Fail(v.EnsureTenant(ctx, ""))(t, "without a name", vault.ErrInvalid)
		renamedTenants(ctx, t, v, made, younger)
		renamedAndDeleted(ctx, t, v, made.ID)
	})
}

// renamedTenants gives tenants the names of others, as their own keys could.
func renamedTenants(ctx context.Context, t *testing.T, v *vault.Vault, acme, other *vault.Tenant) {
	t.Helper()
	for tenant, name := range map[*vault.Tenant]string{acme: "Renamed", other: "Globex"} {
		must.Get(v.Tenant(tenant.ID).ReplaceTenant(ctx, vault.TenantParams{Name: name}))(t)
	}
	again := must.Get(v.EnsureTenant(ctx, "Acme"))(t)
	if again.ID != acme.ID || again.Name != "Renamed" {
		t.Errorf("ensured %v, want the tenant that was created as Acme", again)
	}
	globex := must.Get(v.EnsureTenant(ctx, "Globex"))(t)
	if globex.ID == other.ID {
		t.Error("EnsureTenant found a tenant that was renamed to this name")
	}
	must.Do(t, v.DeleteTenant(ctx, globex.ID))
	reborn := must.Get(v.EnsureTenant(ctx, "Globex"))(t)
	if reborn.ID == globex.ID || reborn.ID == other.ID {
		t.Error("the name of a deleted tenant cannot be used again")
	}
}

// renamedAndDeleted renames and deletes ensured things.
func renamedAndDeleted(ctx context.Context, t *testing.T, v *vault.Vault, tenant uuid.UUID) {
	t.Helper()
	c := v.Tenant(tenant)
	p := vault.ProxyParams{Name: "Gateway", DestinationURL: "https://example.com"}
	first := must.Get(c.EnsureProxy(ctx, p))(t)
	changed := first.Params()
	changed.DestinationURL = "https://example.org"
	must.Get(c.ReplaceProxy(ctx, first.ID, changed))(t)
	again := must.Get(c.EnsureProxy(ctx, p))(t)
	if again.ID != first.ID || again.DestinationURL != "https://example.org" {
		t.Errorf("ensured %v, want the existing proxy unchanged", again.Params())
	}
	must.Get(c.PatchProxy(ctx, first.ID, vault.JSON(`{"name":"Old gateway"}`)))(t)
	second := must.Get(c.EnsureProxy(ctx, p))(t)
	if second.ID == first.ID {
		t.Error("a renamed proxy is found by its old name")
	}
	must.Do(t, c.DeleteProxy(ctx, second.ID))
	third := must.Get(c.EnsureProxy(ctx, p))(t)
	if third.ID == second.ID {
		t.Error("a deleted proxy is found")
	}
	if _, err := c.InvokeProxy(ctx, vault.ProxyCall{Key: "name\x00proxy\x00" + tenant.String() + "\x00Gateway"}); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("a proxy was called with its name: %v", err)
	}
	must.Get(c.EnsureApplication(ctx, vault.ApplicationParams{Name: "Shop", Type: vault.ApplicationPublic, Permissions: []vault.Permission{vault.PermissionTokenCreate}}))(t)
	_, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: "Shop", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{vault.PermissionTokenCreate}})
	must.Match(t, "an application of another type", err, vault.ErrConflict)
	must.Do(t, v.DeleteTenant(ctx, tenant))
}
