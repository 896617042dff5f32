package vault_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// tables are what a database writer copies and restores.
var tables = []string{"vault_records", "vault_lookups"}

// copyRows keeps copies of rows, and returns a function that brings them back.
func copyRows(exec func(string, ...any)) (restore func()) {
	for _, table := range tables {
		exec(`DROP TABLE IF EXISTS old_` + table)
		exec(`CREATE TABLE old_` + table + ` AS SELECT * FROM ` + table)
	}
	return func() {
		for _, table := range tables {
			exec(`INSERT OR REPLACE INTO ` + table + ` SELECT * FROM old_` + table)
		}
	}
}

// A database writer restores an older row of an application: one whose key was
// regenerated, whose rights were cut, or that was deleted. A node that has seen the
// newer row refuses it, with an alarm.
func TestApplicationsAreNotRolledBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *vaulttest.Vault, *vault.Application){
		"key regenerated": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			if _, err := v.Owner.RegenerateKey(t.Context(), app.ID); err != nil {
				t.Fatal(err)
			}
		},
		"rights cut": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			if _, err := v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions": ["token:create"]}`)); err != nil {
				t.Fatal(err)
			}
		},
		"deleted": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			if err := v.Owner.DeleteApplication(t.Context(), app.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, exec, heard := alarmed(t)
			app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read", "token:create"}})
			if err != nil {
				t.Fatal(err)
			}
			create(t, v.Owner.Client, aText("secret", "x"))
			c, err := v.Authenticate(t.Context(), app.Key)
			if err != nil {
				t.Fatal(err)
			}
			get(t, c, "secret")
			restore := copyRows(exec)
			change(t, v, app)
			restore()
			if c, err := v.Authenticate(t.Context(), app.Key); err == nil {
				_, err = c.GetToken(t.Context(), "secret")
				t.Errorf("the old key works: %v", err)
			}
			if _, err := v.Owner.GetApplication(t.Context(), app.ID); err == nil {
				t.Error("the old application can be read")
			}
			if alarms := heard.take(); len(alarms) == 0 || alarms[0] != "rolled_back" {
				t.Errorf("alarms: %q", alarms)
			}
		})
	}
}

// A record cannot say that it is older than its sealed document.
func TestRevisionsAreSealed(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	for range 2 {
		if _, err := v.Owner.PatchTenant(t.Context(), vault.JSON(`{"name":"Acme"}`)); err != nil {
			t.Fatal(err)
		}
	}
	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"b"}`)); err != nil {
		t.Fatal(err)
	}
	exec(`UPDATE vault_records SET rev = 0 WHERE kind = 'application'`)
	_, err = v.Owner.GetApplication(t.Context(), app.ID)
	wantError(t, "a lower revision", err, fault.ErrAltered)
	if diff := cmp.Diff([]string{"rolled_back"}, heard.take()); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
}

// A change that was rolled back with the application's transaction does not make
// the stored row an old one.
func TestTransactionsThatRollBackAreForgotten(t *testing.T) {
	t.Parallel()
	v, _, heard := alarmed(t)
	app, err := v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*vault.Owner) error{
		func(c *vault.Owner) error {
			_, err := c.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"b"}`))
			return err
		},
		func(c *vault.Owner) error { return c.DeleteApplication(t.Context(), app.ID) },
	} {
		tx, err := v.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(v.Owner.InTx(tx)); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Authenticate(t.Context(), app.Key); err != nil {
			t.Errorf("after a rollback: %v", err)
		}
	}
	if alarms := heard.take(); len(alarms) > 0 {
		t.Errorf("alarms: %q", alarms)
	}
}

// A database writer restores the key ring from before a rotation, with the key
// that was destroyed, or the keys of a deleted tenant. A node that has used the
// newer ring refuses it.
func TestKeyRingsAreNotRolledBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *vaulttest.Vault){
		"rotated": func(t *testing.T, v *vaulttest.Vault) {
			if err := v.RotateDataKeys(t.Context(), v.Acme.ID, nil); err != nil {
				t.Fatal(err)
			}
		},
		"deleted": func(t *testing.T, v *vaulttest.Vault) {
			if err := v.DeleteTenant(t.Context(), v.Acme.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := &alarms{}
			v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: heard, KeyAge: time.Nanosecond})
			exec := func(sql string, args ...any) {
				t.Helper()
				if _, err := v.DB.ExecContext(t.Context(), sql, args...); err != nil {
					t.Fatal(err)
				}
			}
			create(t, v.Owner.Client, aText("aaa", "x"))
			restore := copyRows(exec)
			change(t, v)
			restore()
			if tok, err := v.Owner.CreateToken(t.Context(), aText("bbb", "x")); err == nil {
				t.Errorf("a token was created under old keys: %+v", tok)
			}
			if alarms := heard.take(); len(alarms) == 0 || alarms[0] != "rolled_back" {
				t.Errorf("alarms: %q", alarms)
			}
		})
	}
}
