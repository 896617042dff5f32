package vault_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// Without its tables and its key, evidence does not begin again beside an anchor
// that has notes.
func TestEvidenceCannotBeRemoved(t *testing.T) {
	t.Parallel()
	for name, records := range map[string]string{
		"with the key":    `DELETE FROM vault_records WHERE kind = 'evidence'`,
		"without the key": `DELETE FROM vault_records WHERE kind = 'none'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEachMoment(t, func(a *attacked, anchor string, at func(func()) error) {
				k := a.keep(a.owners[0])
				eventually(a, "the anchor has the note", func() bool {
					text, err := os.ReadFile(anchor)
					return err == nil && bytes.Contains(text, k.vault)
				})
				opened := at(func() { a.removeEvidence(records) })
				for round := range 2 { // and again after another restart
					if opened != nil {
						return // the vault does not even open
					}
					a.wantSuspended(k, anchor)
					if round == 0 {
						opened = a.reopen(nil)
					}
				}
				if err := a.v.AcceptRestore(a.Context(), "the evidence was removed"); err != nil {
					a.Fatal(err)
				}
				if s, err := a.v.EvidenceStatus(); err != nil || s.Suspended != "" {
					a.Errorf("after it was accepted: %+v, %v", s, err)
				}
			})
		})
	}
}

// removeEvidence removes the trees, and an entry of the log.
func (a *attacked) removeEvidence(records string) {
	a.Helper()
	a.exec(records)
	for _, table := range slices.Sorted(maps.Keys(logKeys)) {
		if table != "vault_logs" {
			a.exec("DELETE FROM " + table)
		}
	}
	rows := a.rows("vault_logs", "WHERE tenant_id = ? ORDER BY id", binary(a.owners[0].TenantID()))
	a.change(a.owners[0], "DELETE FROM vault_logs WHERE id = ? AND tenant_id = ?", binary(rows[1].entry()))
}

// wantSuspended fails the test if a vault signs, or writes to the anchor, although
// the anchor has notes that the database does not explain.
func (a *attacked) wantSuspended(k kept, anchor string) {
	a.Helper()
	before, err := os.ReadFile(anchor)
	if err != nil {
		a.Fatal(err)
	}
	a.calls(a.owners[0])
	a.wantNobodyDeceived(k, a.owners[0])
	a.wantAlarm()
	if s, err := a.v.EvidenceStatus(); err != nil || s.Suspended == "" {
		a.Errorf("the vault signs: %+v, %v", s, err)
	}
	if after, err := os.ReadFile(anchor); err != nil || !bytes.Equal(before, after) {
		a.Errorf("the anchor was written to: %q, %v", bytes.TrimPrefix(after, before), err)
	}
}

// A tenant whose deletion is signed stays deleted, although a writer of the
// database puts its rows back.
func TestDeletedTenantsStayDeleted(t *testing.T) {
	t.Parallel()
	atEachMoment(t, func(a *attacked, _ string, at func(func()) error) {
		gone := a.v.Tenant(tenantOf(a, a.v).TenantID())
		app, err := gone.CreateApplication(a.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: everything})
		if err != nil {
			a.Fatal(err)
		}
		create(a, gone.Client, aText("secret", "x"))
		a.mustVerify()
		tables := append(slices.Sorted(maps.Keys(logKeys)), "vault_records", "vault_lookups", "vault_tokens", "vault_container_sets")
		restore := a.putBack(gone, slices.DeleteFunc(tables, func(t string) bool { return t == "vault_log_events" || t == "vault_log_checkpoints" })...)
		if err := a.v.DeleteTenant(a.Context(), gone.TenantID()); err != nil {
			a.Fatal(err)
		}
		a.mustVerify()
		if err := at(func() {
			a.exec(`DELETE FROM vault_records WHERE kind = 'tombstone'`)
			restore()
		}); err != nil {
			return
		}
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
		"get the tenant": func() error { _, err := o.GetTenant(ctx); return err },
		"get a token":    func() error { _, err := o.GetToken(ctx, "secret"); return err },
		"create a token": func() error { _, err := o.CreateToken(ctx, aText("more", "x")); return err },
		"list the log":   func() error { _, err := o.ListLogs(ctx, vault.ListLogsParams{}); return err },
	} {
		wantError(a, name, call(), vault.ErrNotFound)
	}
	a.wantAlarm()
	if inPlace(a, a.v) == "" {
		a.Error("verification does not report the tenant")
	}
	a.wantAlarm()
}

// However many callers ask, a vault signs about one note per second.
func TestCallersDoNotMakeTheVaultSign(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		v, err := vault.Open(a.Context(), a.open(), a.key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}})
		if err != nil {
			a.Fatal(err)
		}
		defer v.Close()
		before, began := len(a.logRows("vault_log_checkpoints")), time.Now()
		o := v.Tenant(a.owners[0].TenantID())
		var writers, readers sync.WaitGroup
		for n := range 4 {
			writers.Go(func() {
				for i := range 13 {
					create(a, o.Client, aText(fmt.Sprintf("token-%d-%d", n, i), "x"))
					readers.Go(func() {
						if _, err := o.LogCheckpoint(a.Context()); err != nil {
							a.Error(err)
						}
					})
				}
			})
		}
		writers.Wait()
		readers.Wait()
		signed, most := len(a.logRows("vault_log_checkpoints"))-before, int(time.Since(began)/time.Second)+2
		if signed > most {
			a.Errorf("%d notes are signed, want at most %d", signed, most)
		}
	})
}

// An entry that expires must still be an entry that the vault wrote.
func TestForgedEntriesDoNotExpire(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.retain = 24 * time.Hour
		a.node(nil)
		a.live(15)
		old := a.clock.Now()
		a.clock.Advance(48 * time.Hour)
		create(a, a.owners[0].Client, aText("secret", "x"))
		if swept, err := a.v.Sweep(a.Context()); err != nil || swept.Logs == 0 {
			a.Fatalf("swept %+v, %v", swept, err)
		}
		a.mustVerifyExpired()
		row := a.rows("vault_logs", "WHERE entity_id = 'secret'")[0]
		for name, values := range map[string]map[string]any{
			"old": {}, "old, but not its time": {"created_at": a.clock.Now().UnixMicro()}, "old, with a mac": {"mac": []byte("0123456789abcdef")},
		} {
			invented := a.invent(row, old, values)
			a.put(invented)
			a.Log(name)
			a.wantForged(a.owners[0], invented.entry())
			a.change(a.owners[0], "DELETE FROM vault_logs WHERE id = ? AND tenant_id = ?", binary(invented.entry()))
		}
	})
}

// mustVerifyExpired is mustVerify for a log with expired entries.
func (a *attacked) mustVerifyExpired() {
	a.Helper()
	if report := settled(a, a.v); !report.OK() {
		a.Fatalf("nobody has changed anything: %+v", report.Findings)
	}
}
