package rotation_test

import (
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// restore restores records that were read earlier.
func restore(t *testing.T, store storage.Storage, before []storage.Record) {
	t.Helper()
	now, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range now {
		c := &storage.Change{Tenant: r.Tenant, DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}}
		if err := store.Write(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range before {
		if err := store.Write(t.Context(), &storage.Change{Tenant: r.Tenant, InsertRecords: []storage.Record{r}}); err != nil {
			t.Fatal(err)
		}
	}
}

// A database that is restored while a vault serves it may lack keys that the
// vault knows. The vault must not acknowledge a token with such a key. After
// a restart it uses the restored keys.
func TestRestoreAfterARotation(t *testing.T) {
	t.Parallel()
	h := onMemory(t)
	key := vault.NewKey()
	start := func() *vault.Vault {
		v, err := vault.Open(t.Context(), h, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := start()
	t.Cleanup(func() { v.Close() })
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := h.ListRecords(t.Context(), storage.RecordFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.RotateDataKeys(t.Context(), tenant.ID, nil); err != nil {
		t.Fatal(err)
	}
	create := func(v *vault.Vault, id string) error {
		_, err := v.Tenant(tenant.ID).CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"})
		return err
	}
	if err := create(v, "rotated"); err != nil {
		t.Fatal(err)
	}
	restore(t, h.Storage, before)
	if err := create(v, "restored"); !errors.Is(err, fault.ErrAltered) {
		t.Errorf("after the restore: got %v, want ErrAltered", err)
	}
	restarted := start()
	if err := create(restarted, "restored"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if tok, err := restarted.Tenant(tenant.ID).GetToken(t.Context(), "restored"); err != nil || string(tok.Data) != `"x"` {
		t.Errorf("the token: %v", err)
	}
}
