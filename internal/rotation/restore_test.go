package rotation_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// restore restores records that were read earlier.
func restore(t *testing.T, store storage.Storage, before []storage.Record) {
	t.Helper()
	now, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Limit: 100})
	must.Do(t, err)
	for _, r := range now {
		c := &storage.Change{Tenant: r.Tenant, DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}}
		must.Do(t, store.Write(t.Context(), c))
	}
	for _, r := range before {
		must.Do(t, store.Write(t.Context(), &storage.Change{Tenant: r.Tenant, InsertRecords: []storage.Record{r}}))
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
		return must.Get(vault.Open(t.Context(), h, key, &vault.Config{SweepEvery: -1, WorkEvery: -1}))(t)
	}
	v := start()
	t.Cleanup(func() { v.Close() })
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	before, _, err := h.ListRecords(t.Context(), storage.RecordFilter{Limit: 100})
	must.Do(t, err)
	must.Do(t, v.RotateDataKeys(t.Context(), tenant.ID, nil))
	create := func(v *vault.Vault, id string) error {
		_, err := v.Tenant(tenant.ID).CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"})
		return err
	}
	must.Do(t, create(v, "rotated"))
	restore(t, h.Storage, before)
	must.Match(t, "after the restore: got", create(v, "restored"), fault.ErrAltered)
	restarted := start()
	must.Match(t, "after a restart", create(restarted, "restored"), nil)
	if tok, err := restarted.Tenant(tenant.ID).GetToken(t.Context(), "restored"); err != nil || string(tok.Data) != `"x"` {
		t.Errorf("the token: %v", err)
	}
}
