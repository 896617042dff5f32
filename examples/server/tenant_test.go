package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
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
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(t.Context(), wrap(store), vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// busyStore calls meanwhile after each listing.
type busyStore struct {
	vault.Storage
	meanwhile func()
}

func (s *busyStore) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	recs, total, err := s.Storage.ListRecords(ctx, f)
	s.meanwhile()
	return recs, total, err
}

// TestAllTenantsIsWholeWhileTenantsComeAndGo has pages that shift in between.
func TestAllTenantsIsWholeWhileTenantsComeAndGo(t *testing.T) {
	t.Parallel()
	store := &busyStore{meanwhile: func() {}}
	v := openVaultOn(t, func(s vault.Storage) vault.Storage { store.Storage = s; return store })
	create := func() uuid.UUID {
		tenant, err := v.CreateTenant(t.Context(), "Acme")
		if err != nil {
			t.Fatal(err)
		}
		return tenant.ID
	}
	want := map[uuid.UUID]bool{}
	for range pageSize + pageSize/2 {
		want[create()] = true
	}
	newest := []uuid.UUID{create(), create()}
	steps := []func(){
		func() { // what was first on the second page is now on the first
			for _, id := range newest {
				if err := v.DeleteTenant(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		},
		func() { want[create()] = true }, // what was last on the first page is now on the second
	}
	store.meanwhile = func() {
		if len(steps) > 0 {
			step := steps[0]
			steps = steps[1:]
			step()
		}
	}
	all, err := allTenants(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uuid.UUID]int{}
	for i, tenant := range all {
		got[tenant.ID]++
		if i > 0 && tenant.CreatedAt.Before(all[i-1].CreatedAt) {
			t.Error("the oldest is not first")
		}
	}
	for id := range want {
		if got[id] != 1 {
			t.Errorf("a tenant is there %d times", got[id])
		}
	}
	store.meanwhile = func() { create() }
	if _, err := allTenants(t.Context(), v); err == nil {
		t.Error("there is no end to it")
	}
}

// TestTheDemoTenantIsKnownByWhatItCannotChange loses the credentials in a
// database in which names tell nothing.
func TestTheDemoTenantIsKnownByWhatItCannotChange(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	newTenant := func(name string) string {
		t.Helper()
		out, err := command(folder, "", "-new-tenant", name).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	older := newTenant(demoTenant)
	p := start(t, folder)
	before := p.credentials()
	if strings.Contains(older, before.TenantID) {
		t.Error("a tenant of -new-tenant is taken for the demo tenant")
	}
	newTenant(demoTenant)
	if status, body := call(t, "PUT", before.BaseURL+"/tenants/self", before.ManagementKey, `{"name":"Renamed"}`); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if status, body := call(t, "POST", before.BaseURL+"/tokens", before.PublicKey, genericToken); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	p.stop()
	if err := os.Remove(filepath.Join(folder, "vault-credentials.json")); err != nil {
		t.Fatal(err)
	}
	p = start(t, folder)
	after := p.credentials()
	if after.TenantID != before.TenantID || after.PrivateKey == before.PrivateKey {
		t.Errorf("tenant %s, want new keys of %s", after.TenantID, before.TenantID)
	}
	if status, body := call(t, "GET", after.BaseURL+"/tokens/a-token", after.PrivateKey, ""); status != http.StatusOK {
		t.Errorf("the token: %d %s", status, body)
	}
	p.stop()
}

func TestOptionsOfTheWholeServerHaveATraceID(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.credentials().BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusNotFound || res.Header.Get("SVC-TRACE-ID") == "" || !strings.Contains(string(text), `"status":404`) {
		t.Errorf("%s %v\n%s", res.Status, res.Header, text)
	}
	p.stop()
}
