package vault_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// changing is a database whose master key is changed while nodes serve it.
type changing struct {
	path     string
	old, new *vault.Key
}

// node opens the database as another node.
func (c *changing) node(t *testing.T, key vault.AEAD) *vault.Vault {
	t.Helper()
	store, err := sqlite.Open(t.Context(), c.path)
	if err != nil {
		t.Fatal(err)
	}
	return openVault(t, store, key, vaulttest.NewClock(vaulttest.Start))
}

// refuses asks that a key does not open the database.
func (c *changing) refuses(t *testing.T, what string, key vault.AEAD) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), c.path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = vault.Open(t.Context(), store, key, nil)
	wantError(t, what, err, vault.ErrWrongKey)
}

// serves asks that a node can read, write, and create tenants for the others.
func serves(t *testing.T, v *vault.Vault, tenants ...uuid.UUID) uuid.UUID {
	t.Helper()
	for _, tenant := range tenants {
		tok := create(t, v.Tenant(tenant), generic)
		wantData(t, "data", get(t, v.Tenant(tenant), tok.ID).Data, `"x"`)
	}
	return tenantOf(t, v).TenantID()
}

// In each step of a change of the master key all nodes serve, those that are
// a step behind too; and at the end the old key is not needed.
func TestMasterKeyIsChangedWhileNodesServe(t *testing.T) {
	t.Parallel()
	c := &changing{filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vault.NewKey()}
	behind := c.node(t, c.old)
	tenants := []uuid.UUID{serves(t, behind)}
	for _, key := range []vault.AEAD{vault.Keys(c.old, c.new), vault.Keys(c.new, c.old)} {
		ahead := c.node(t, key)
		for _, v := range []*vault.Vault{behind, ahead, behind} {
			tenants = append(tenants, serves(t, v, tenants...))
		}
		behind = ahead
	}
	c.refuses(t, "the new key alone, too early", c.new)

	deleted := serves(t, behind)
	if err := behind.DeleteTenant(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	other := c.node(t, vault.Keys(c.new, c.old))
	serves(t, other, tenants...)
	for range 2 { // it can be called again
		if err := behind.RewrapKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tenants = append(tenants, serves(t, other, tenants...))

	c.refuses(t, "the old key", c.old)
	last := c.node(t, c.new)
	for _, v := range []*vault.Vault{last, behind, other} {
		tenants = append(tenants, serves(t, v, tenants...))
	}
	page, err := last.Tenant(tenants[0]).ListLogs(t.Context(), vault.ListLogsParams{EntityType: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, e := range page.Data {
		messages = append(messages, e.Message)
	}
	same(t, "log", slices.Compact(messages), []string{"Data keys up to 1 wrapped anew", "Tenant created"})
}

// While a tenant's keys cannot be opened, the database asks for the old key.
func TestRewrapKeysDoesNotLeaveATenantBehind(t *testing.T) {
	t.Parallel()
	c := &changing{filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vault.NewKey()}
	serves(t, c.node(t, c.old))
	astray := c.node(t, vault.Keys(vault.NewKey(), c.old))
	lost := serves(t, astray)
	v := c.node(t, vault.Keys(c.new, c.old))
	if err := v.RewrapKeys(t.Context()); err == nil || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("a tenant under a third key: %v", err)
	}
	c.refuses(t, "the new key alone", c.new)
	if err := astray.DeleteTenant(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if err := v.RewrapKeys(t.Context()); err != nil {
		t.Errorf("without it: %v", err)
	}
	c.node(t, c.new)
}
