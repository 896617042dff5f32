//go:build !race

package tampering

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// An acknowledged entry that never reaches the tree raises an alarm within 30
// seconds, whether a trigger drops it or an attacker deletes it at once.
func TestMissingAcknowledgedEntriesRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*attacked){
		"a trigger":  (*attacked).dropInserts,
		"a deletion": func(*attacked) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				alarms := make(chan vault.Alarm, 100)
				a.node(func(alarm vault.Alarm) { alarms <- alarm })
				a.mustVerify()
				drop(a)
				create(a, a.owners[0].Client, vault.TokenParams{ID: "lost", Type: vault.TypeGeneric, Data: "x"})
				a.exec("DELETE FROM vault_logs WHERE entity_id = 'lost'")
				a.clock.Advance(30 * time.Second)
				eventually(a, "there is an alarm", func() bool {
					must.Get(a.v.Checkpoint(a.Context()))(a)
					return len(alarms) > 0
				})
				if alarm := <-alarms; alarm.Kind != vault.AlarmMissing || alarm.TenantID != a.owners[0].TenantID() || alarm.EntryID == (uuid.UUID{}) {
					a.Errorf("the alarm is %+v", alarm)
				}
			})
		})
	}
}

// dropInserts makes the database drop entries about a token.
func (a *attacked) dropInserts() {
	a.Helper()
	if !a.pg {
		a.exec("CREATE TRIGGER hide BEFORE INSERT ON vault_logs WHEN NEW.entity_id = 'lost' BEGIN SELECT RAISE(IGNORE); END")
		return
	}
	a.exec("CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.entity_id = 'lost' THEN RETURN NULL; END IF; RETURN NEW; END $$")
	a.exec("CREATE TRIGGER hide BEFORE INSERT ON vault_logs FOR EACH ROW EXECUTE FUNCTION hide()")
}

// breakTenant replaces the body of a tenant's record of a kind.
func (a *attacked) breakTenant(id uuid.UUID, kind string) {
	a.Helper()
	done := must.Get(a.db.ExecContext(a.Context(), a.bind(`UPDATE vault_records SET body = ? WHERE tenant_id = ? AND kind = ?`), []byte("altered"), id[:], kind))(a)
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		a.Fatalf("%d rows of kind %s were altered (%v)", n, kind, err)
	}
}

// A tenant whose keys or document do not open hides neither the other tenants nor
// the evidence about them, and can be deleted.
func TestUnreadableTenantsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		ctx, good := a.Context(), tenantOf(a, a.v).TenantID()
		for _, o := range []*vault.Owner{a.owners[0], a.owners[1], a.v.Tenant(good)} {
			create(a, o.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		}
		a.mustVerify()
		var want, got, all []vault.Tenant
		for _, id := range []uuid.UUID{good, a.owners[1].TenantID(), a.owners[0].TenantID()} {
			is := must.Get(a.v.Tenant(id).GetTenant(ctx))(a)
			if id != good {
				is = &vault.Tenant{ID: id, CreatedAt: is.CreatedAt, Unreadable: true}
			}
			is.CreatedAs = is.Name
			want = append(want, *is)
		}
		a.breakTenant(want[1].ID, "tenant")
		a.breakTenant(want[2].ID, "ring")
		a.node(nil)
		page, err := a.v.ListTenants(ctx, vault.PageParams{})
		if err != nil || page.Pagination.TotalItems != len(want) {
			a.Fatalf("tenants: %+v, %v", page, err)
		}
		got = page.Data
		for is, err := range a.v.AllTenants(ctx) {
			must.Do(a, err)
			all = append(all, *is)
		}
		for how, list := range map[string][]vault.Tenant{"page": got, "all": all} {
			must.Same(a, how, want, list)
		}
		create(a, a.v.Tenant(good).Client, aText("later"))
		before := a.evidence()
		eventually(a, "a note covers the entries of the readable tenant", func() bool {
			must.Get(a.v.Checkpoint(ctx))(a)
			return a.evidence() > before
		})
		report := must.Get(a.v.VerifyLogs(ctx, nil))(a)
		found := map[uuid.UUID][]evidence.Verdict{}
		for _, f := range report.Findings {
			found[f.Tenant] = append(found[f.Tenant], f.Verdict)
		}
		altered := []evidence.Verdict{evidence.Altered}
		must.Same(a, "findings", map[uuid.UUID][]evidence.Verdict{want[1].ID: altered, want[2].ID: altered}, found)
		a.clock.Advance(2 * time.Hour)
		must.Same(a, "swept", vault.Swept{Tokens: 1, Unopened: 2}, sweep(a, a.v))
		for i := range want[1:] {
			must.Match(a, "delete an unreadable tenant", a.v.DeleteTenant(ctx, want[1+i].ID), nil)
		}
		if page, err := a.v.ListTenants(ctx, vault.PageParams{}); err != nil || len(page.Data) != 1 || page.Data[0].Unreadable {
			a.Errorf("after the deletion: %+v, %v", page, err)
		}
	})
}

// Case 6: a tenant whose deletion is signed stays deleted, although a writer of the
// database puts its rows back.
func TestDeletedTenantsStayDeleted(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		gone := a.v.Tenant(tenantOf(a, a.v).TenantID())
		app := must.Get(gone.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: everything}))(a)
		create(a, gone.Client, aText("secret"))
		a.mustVerify()
		restore := a.putBack(gone, "vault_logs", "vault_log_trees", "vault_log_leaves", "vault_log_nodes", "vault_records", "vault_lookups", "vault_tokens", "vault_container_sets")
		must.Do(a, a.v.DeleteTenant(a.Context(), gone.TenantID()))
		a.mustVerify()
		a.exec(`DELETE FROM vault_records WHERE kind = 'tombstone'`)
		restore()
		a.wantGone(gone.TenantID(), app.Key)
		a.node(nil)
		a.wantGone(gone.TenantID(), app.Key)
	})
}

// wantGone fails the test if a deleted tenant is served, or not reported.
func (a *attacked) wantGone(tenant uuid.UUID, key string) {
	a.Helper()
	ctx, o := a.Context(), a.v.Tenant(tenant)
	if c, err := a.v.Authenticate(ctx, key); err == nil {
		_, err = c.GetToken(ctx, "secret")
		a.Errorf("the key of a deleted tenant authenticates (and reads a token: %v)", err)
	}
	for name, call := range map[string]func() error{
		"get the tenant": func() error { return must.Err(o.GetTenant(ctx)) },
		"get a token":    func() error { return must.Err(o.GetToken(ctx, "secret")) },
		"create a token": func() error { return must.Err(o.CreateToken(ctx, aText("more"))) },
		"list the log":   func() error { return must.Err(o.ListLogs(ctx, vault.ListLogsParams{})) },
	} {
		must.Match(a, name, call(), vault.ErrNotFound)
	}
	if s, err := a.v.EvidenceStatus(); err != nil || len(s.Alarms) == 0 {
		a.Errorf("there is no alarm (%v)", err)
	}
	if inPlace(a, a.v) == "" {
		a.Error("verification does not report the tenant")
	}
}
