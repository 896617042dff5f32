//go:build !race

package tampering

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// An entry that lists show is found, although the tables allow what they should not, or an
// index does not have it.
func TestEntriesBesideTheSchemaAreFound(t *testing.T) {
	t.Parallel()
	const column, index = "a column may be NULL", "an index is not complete"
	statements := map[bool]map[string][2]string{
		true: { // PostgreSQL
			column: {"ALTER TABLE vault_logs ALTER xid DROP NOT NULL", ""},
		},
		false: {
			column: {`PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'seq         INTEGER NOT NULL', 'seq INTEGER') WHERE name = 'vault_logs'; PRAGMA writable_schema = RESET`, ""},
			index: {`PRAGMA writable_schema = ON; CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = 'vault_logs_seq';
				DELETE FROM sqlite_schema WHERE name = 'vault_logs_seq'; PRAGMA writable_schema = RESET`,
				`PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden; PRAGMA writable_schema = RESET`},
		},
	}
	for _, name := range []string{column, index} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				run, ok := statements[a.pg][name]
				if !ok {
					return
				}
				create(a, a.owners[0].Client, aText("secret"))
				a.mustVerify()
				invented := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0].set(map[string]any{"id": binary(idAt(a.clock.Now()))})
				if name == column {
					invented = invented.set(map[string]any{map[bool]string{true: "xid", false: "seq"}[a.pg]: nil})
				}
				must.Do(a, a.v.Close())
				a.exec(run[0])
				if !a.replace(nil, []*logRow{invented}) {
					a.Fatal("the row cannot be inserted")
				}
				if run[1] != "" {
					a.exec(run[1])
				}
				a.v = nil
				a.node(nil)
				page := must.Get(a.owners[0].ListLogs(a.Context(), vault.ListLogsParams{EntityID: "secret"}))(a)
				if found := inPlace(a, a.v); found == "" {
					a.Errorf("the list has %d entries, and the verification does not find one", len(page.Data))
				}
				if a.pg {
					a.exec("DELETE FROM vault_logs; ALTER TABLE vault_logs ALTER xid SET NOT NULL")
				}
			})
		})
	}
}

// An older application beside the newer one is found and refused, whichever the database
// returns first.
func TestOlderRowBesideTheNewer(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		if !a.pg {
			return
		}
		o := a.owners[0]
		app := must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: everything}))(a)
		older := a.rows("vault_records", "WHERE kind = 'application'")
		must.Get(o.PatchApplication(a.Context(), app.ID, vault.JSON(`{"permissions":["token:read"]}`)))(a)
		a.mustVerify()
		newer := a.rows("vault_records", "WHERE kind = 'application'")
		a.exec("ALTER TABLE vault_records DROP CONSTRAINT vault_records_pkey; DELETE FROM vault_records WHERE kind = 'application'")
		defer a.exec("ALTER TABLE vault_records ADD PRIMARY KEY (tenant_id, kind, id)")
		defer a.exec("DELETE FROM vault_records WHERE kind = 'application'")
		a.put(append(older, newer...)...)
		a.node(nil)
		if is, err := a.owners[0].GetApplication(a.Context(), app.ID); err == nil {
			a.Errorf("the application has %v", is.Permissions)
		}
		must.Contain(a, "verification", inPlace(a, a.v), "application "+app.ID.String())
	})
}

// The keys of a deleted tenant are found, also without its record.
func TestKeysOfADeletedTenantAreFound(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		gone := a.v.Tenant(tenantOf(a, a.v).TenantID())
		a.mustVerify()
		ring := a.rows("vault_records", "WHERE kind = 'ring' AND tenant_id = ?", binary(gone.TenantID()))
		must.Do(a, a.v.DeleteTenant(a.Context(), gone.TenantID()))
		a.mustVerify()
		a.put(ring...)
		a.node(nil)
		if found := inPlace(a, a.v); found == "" {
			a.Error("the verification does not find the keys of a deleted tenant")
		}
	})
}

// A record whose id is written as text is another row of the same record. Nothing uses it.
func TestIDsAsTextAreNoIDs(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		o, end := a.owners[0], a.clock.Now().Add(time.Hour)
		public, _ := a.public()
		s := must.Get(public.CreateSession(a.Context()))(a)
		must.Do(a, o.AuthorizeSession(a.Context(), vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: end}))
		app := must.Get(o.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: everything}))(a)
		const kinds = "WHERE kind IN ('session', 'application', 'application_key')"
		former := append(a.rows("vault_records", kinds), a.rows("vault_lookups", kinds)...)
		must.Do(a, o.DeleteSession(a.Context(), must.Get(o.ListSessions(a.Context(), vault.PageParams{}))(a).Data[0].ID))
		must.Do(a, o.DeleteApplication(a.Context(), app.ID))
		a.mustVerify()
		a.exec("DELETE FROM vault_lookups " + kinds)
		for i, r := range former {
			former[i] = r.set(map[string]any{"id": []byte(uuid.UUID(r.value("id").([]byte)).String())})
		}
		a.put(former...)
		a.node(nil)
		for what, key := range map[string]string{"an ended session": s.SessionKey, "a deleted application": app.Key} {
			if c, err := a.v.Authenticate(a.Context(), key); err == nil {
				_, err = c.CreateToken(a.Context(), aText(what[:2]))
				a.Errorf("%s is accepted (and creates a token: %v); verification finds: %q", what, err, inPlace(a, a.v))
			}
		}
	})
}
