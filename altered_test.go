package vault_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// alarms is an observer that keeps the names of alarms.
type alarms struct {
	mu    sync.Mutex
	names []string
}

func (a *alarms) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.names = append(a.names, e.Name)
	}
	return ctx, func(error) {}
}

// take returns the alarms since the last call.
func (a *alarms) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}

// alarmed returns a vault, a function that runs SQL on its database, and its
// alarms.
func alarmed(t testing.TB) (*vaulttest.Vault, func(sql string, args ...any), *alarms) {
	t.Helper()
	heard := &alarms{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: heard})
	return v, func(sql string, args ...any) {
		t.Helper()
		if _, err := v.DB.ExecContext(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}, heard
}

// A database writer swaps the fingerprints of two tokens, so that deduplication
// finds the other one. That is an error and an alarm, and never a result.
func TestSwappedFingerprintsAreAnAlarm(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	yes := true
	number := func(id, number string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: number, DeduplicateToken: &yes}
	}
	prints := map[string]string{}
	for id, data := range map[string]string{"aaa": visa, "bbb": "4111111111111111"} {
		create(t, v.Owner.Client, number(id, data))
		var print string
		if err := v.DB.QueryRowContext(t.Context(), `SELECT fingerprint FROM vault_tokens WHERE id = ?`, id).Scan(&print); err != nil {
			t.Fatal(err)
		}
		prints[id] = print
	}
	fingerprint := get(t, v.Owner.Client, "aaa").Fingerprint
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'aaa'`, []byte(prints["bbb"]))
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'bbb'`, []byte(prints["aaa"]))
	wantAlarm := func(what string, err error) {
		t.Helper()
		wantError(t, what, err, fault.ErrAltered)
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", what, diff)
		}
	}
	_, err := v.Owner.CreateToken(t.Context(), number("", visa))
	wantAlarm("a duplicate", err)
	_, err = v.Owner.Tokenize(t.Context(), []any{number("", visa)})
	wantAlarm("a duplicate in a document", err)
	for r, err := range v.Owner.Import(t.Context(), rowsOf(number("", visa)), nil) {
		wantAlarm("a duplicate in an import: "+string(r.Outcome), err)
	}
	for r, err := range v.Owner.Import(t.Context(), rowsOf(number("bbb", visa)), &vault.ImportOptions{Resumed: true}) {
		wantAlarm("a row that was imported before: "+string(r.Outcome), err)
	}
	_, err = v.Owner.GetToken(t.Context(), "aaa")
	wantAlarm("the token", err)
	page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "fingerprint:" + fingerprint})
	if err != nil || len(page.Data) > 0 {
		t.Errorf("a search by fingerprint finds %+v, %v", page, err)
	}
	wantAlarm("a search by fingerprint", fault.ErrAltered)
}

// The columns that a body is sealed with cannot be changed beside it.
func TestColumnsAreSealedWithTheBody(t *testing.T) {
	t.Parallel()
	for _, column := range []string{
		"fingerprint = randomblob(32)", "expression = randomblob(16)", "dedup = randomblob(16)", "set_id = randomblob(16)",
		"created_by = randomblob(16)", "modified_by = randomblob(16)", "created_at = created_at + 1", "modified_at = 1",
	} {
		v, exec, heard := alarmed(t)
		create(t, v.Owner.Client, aText("aaa", "x"))
		exec(`UPDATE vault_tokens SET ` + column)
		_, err := v.Owner.GetToken(t.Context(), "aaa")
		wantError(t, column, err, fault.ErrAltered)
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", column, diff)
		}
	}
}

// A database writer moves the hash of a search index to another token. The search
// does not find that token.
func TestMovedSearchHashesFindNothing(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	ssn := func(id, number, owner string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeSocialSecurityNumber, Data: number, Metadata: map[string]string{"owner": owner}}
	}
	create(t, v.Owner.Client, ssn("aaa", "123-45-6789", "jane"))
	create(t, v.Owner.Client, ssn("bbb", "987-65-4321", "joe"))
	exec(`UPDATE vault_token_hashes SET ord = (SELECT ord FROM vault_tokens WHERE id = 'bbb') WHERE ord = (SELECT ord FROM vault_tokens WHERE id = 'aaa')`)
	for _, query := range []string{`data:"123-45-6789"`, `metadata.owner:"jane"`, `NOT type:card AND data:"123-45-6789"`} {
		page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query})
		if err != nil || len(page.Data) > 0 {
			t.Errorf("%s finds %+v, %v", query, page, err)
		}
		if diff := cmp.Diff([]string{"altered"}, heard.take()); diff != "" {
			t.Errorf("%s: alarms (-want +got):\n%s", query, diff)
		}
	}
	page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: `data:"987-65-4321" OR metadata.owner:"joe"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "bbb" {
		t.Errorf("a search for what is there finds %+v, %v", page, err)
	}
}

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
