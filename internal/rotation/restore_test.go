package rotation_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
)

// restore puts back records that were read before.
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

// A database that is restored while a vault serves it may not have the keys which
// the vault knows. The vault must not acknowledge a token under such a key.
func TestRestoreBehindARotation(t *testing.T) {
	t.Parallel()
	h := onMemory(t)
	v, c := open(t, h, vault.Config{})
	before, _, err := h.ListRecords(t.Context(), storage.RecordFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.RotateDataKeys(t.Context(), c.TenantID(), nil); err != nil {
		t.Fatal(err)
	}
	version := func(id string) int {
		t.Helper()
		if _, err := c.CreateToken(t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}); err != nil {
			t.Fatal(err)
		}
		rows, err := h.Tokens(t.Context(), storage.ID(c.TenantID()), []string{id})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		return rows[0].KeyVersion
	}
	rotated := version("rotated")
	restore(t, h.Storage, before)
	if restored := version("restored"); restored != rotated-1 {
		t.Errorf("after the restore a token is sealed under key %d, want %d", restored, rotated-1)
	}
	if tok, err := c.GetToken(t.Context(), "restored"); err != nil || string(tok.Data) != `"x"` {
		t.Errorf("the token: %v", err)
	}
}
