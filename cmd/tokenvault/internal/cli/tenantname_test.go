package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A tenant can rename itself to a name that another tenant no longer uses.
// Commands that make changes do not accept such a name; commands that only
// read do.
func TestReusedNameNeedsTheID(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	delete(w.env, "TOKENVAULT_TENANT")
	id := func(name string) string {
		out := w.must("tenant", "create", name, "--json")
		_, rest, _ := strings.Cut(out, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	globex, mallory := id("Globex"), id("Mallory")
	w.must("token", "create", "--type", "token", "--data", "x", "--tenant", "Globex")
	w.must("tenant", "update", globex, "--name", "Globex Inc.")
	w.must("tenant", "update", mallory, "--name", "Globex")
	for _, args := range [][]string{
		{"token", "create", "--type", "token", "--data", "x", "--tenant", "Globex"},
		{"tenant", "delete", "Globex", "--yes"},
		{"tenant", "update", "Globex Inc.", "--deduplicate-tokens=true"},
	} {
		w.says(1, "use its id", args...)
	}
	w.must("token", "list", "--tenant", "Globex")
	w.must("tenant", "update", mallory, "--deduplicate-tokens=true")
	w.must("tenant", "delete", globex, "--yes")
	w.must("tenant", "delete", mallory, "--yes")

	// The names of deleted tenants are remembered, and so are the names that
	// tenants had in between.
	for _, name := range []string{"Globex", "Globex Inc."} {
		again := id(name)
		w.says(1, "use its id", "token", "create", "--type", "token", "--data", "x", "--tenant", name)
		w.must("token", "create", "--type", "token", "--data", "x", "--tenant", again)
	}

	// A tenant that takes its own name back is the same one.
	acme := id("Initech")
	w.must("tenant", "update", acme, "--name", "Initrode")
	w.must("tenant", "update", acme, "--name", "Initech")
	w.must("token", "create", "--type", "token", "--data", "x", "--tenant", "Initech")
}

// A tenant whose keys do not open is marked in the list, and can be deleted. The
// figures and a rotation leave it out.
func TestUnreadableTenantIsMarked(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	delete(w.env, "TOKENVAULT_TENANT")
	var bad vault.Tenant
	must.Do(t, json.Unmarshal([]byte(w.exits(0, "tenant", "create", "Broken", "--json")), &bad))
	w.sql(`UPDATE vault_records SET body = x'00' WHERE tenant_id = ? AND kind = 'ring'`, bad.ID[:])
	if got := w.exits(0, "tenant", "list"); !strings.Contains(got, bad.ID.String()+"  (unreadable)") || !strings.Contains(got, "Acme") {
		t.Errorf("tenants: %s", got)
	}
	if got := w.exits(0, "tenant", "list", "--json"); strings.Count(got, `"unreadable":true`) != 1 || strings.Contains(got, "Broken") {
		t.Errorf("tenants as JSON: %s", got)
	}
	must.Contain(t, "figures", w.exits(0, "stats"), "unreadable   1 tenant")
	w.exits(0, "token", "list", "--tenant", "Acme")
	// The unreadable tenant may have the name.
	w.says(1, "use its id", "token", "create", "--type", "token", "--data", "x", "--tenant", "Acme")
	w.exits(1, "stats", "--tenant", bad.ID.String())
	w.exits(0, "tenant", "delete", bad.ID.String(), "--yes")
	must.Lack(t, "after the deletion", w.exits(0, "tenant", "list"), "unreadable")
}
