package serve

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// newVault opens an empty vault.
func newVault(t *testing.T) *vault.Vault {
	t.Helper()
	return openVaultOn(t, func(s vault.Storage) vault.Storage { return s })
}

func openVaultOn(t *testing.T, wrap func(vault.Storage) vault.Storage) *vault.Vault {
	t.Helper()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	v := must.Get(vault.Open(t.Context(), wrap(store), vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1}))(t)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// busyStore calls a function after each listing.
type busyStore struct {
	vault.Storage
	meanwhile func()
}

func (s *busyStore) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	recs, total, err := s.Storage.ListRecords(ctx, f)
	s.meanwhile()
	return recs, total, err
}

// TestAllTenantsIsCompleteDuringChanges adds and deletes tenants between two
// pages of a listing.
func TestAllTenantsIsCompleteDuringChanges(t *testing.T) {
	t.Parallel()
	store := &busyStore{meanwhile: func() {}}
	v := openVaultOn(t, func(s vault.Storage) vault.Storage { store.Storage = s; return store })
	create := func() uuid.UUID {
		tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
		return tenant.ID
	}
	want := map[uuid.UUID]bool{}
	for range 150 { // more than one page
		want[create()] = true
	}
	newest := []uuid.UUID{create(), create()}
	steps := []func(){
		func() {
			for _, id := range newest {
				must.Do(t, v.DeleteTenant(t.Context(), id))
			}
		},
		func() { create() },
	}
	store.meanwhile = func() {
		if len(steps) > 0 {
			step := steps[0]
			steps = steps[1:]
			step()
		}
	}
	got, last := map[uuid.UUID]int{}, time.Now()
	for tenant, err := range v.AllTenants(t.Context()) {
		must.Do(t, err)
		got[tenant.ID]++
		if tenant.CreatedAt.After(last) {
			t.Error("the newest is not first")
		}
		last = tenant.CreatedAt
	}
	for id := range want {
		must.Same(t, "a tenant is there", 1, got[id])
	}
}

// TestServersThatStartTogetherShareADemoTenant starts four servers that share only
// the database, like replicas with separate files.
func TestServersThatStartTogetherShareADemoTenant(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	tenants := make([]string, 4)
	var all sync.WaitGroup
	for i := range tenants {
		all.Go(func() {
			c, err := demoCredentials(t.Context(), v, &Config{credentials: filepath.Join(t.TempDir(), "credentials.json")})
			if err != nil {
				t.Error(err)
				return
			}
			tenants[i] = c.TenantID
		})
	}
	all.Wait()
	slices.Sort(tenants)
	if one := slices.Compact(tenants); len(one) != 1 {
		t.Errorf("tenants %v", one)
	}
	list := must.Get(v.ListTenants(t.Context(), vault.PageParams{}))(t)
	if len(list.Data) != 1 || list.Data[0].Name != demoTenant {
		t.Errorf("%v", list)
	}
}
