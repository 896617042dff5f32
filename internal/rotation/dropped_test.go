package rotation_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A trigger drops the changes of rows. Then their key is not destroyed, and without the
// trigger the rotation ends.
func TestRotationKeepsTheKeyOfRowsThatDoNotChange(t *testing.T) {
	t.Parallel()
	for table, condition := range map[string]string{
		"vault_tokens": "", "vault_records": " WHEN OLD.kind = 'application'", "vault_claims": "", "vault_jobs": "",
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			ctx, h := t.Context(), onMemory(t)
			db := must.Get(h.Storage.(*sqlite.Store).OpenDB())(t)
			defer db.Close()
			v, c := open(t, h, vault.Config{})
			o := v.Tenant(c.TenantID())
			tok := must.Get(o.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(t)
			must.Get(o.CreateApplication(ctx, vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(t)
			must.Get(replayed(o.Once(ctx, vault.IdempotencyKey{Key: "key"}, func(context.Context, *vault.Owner) (vault.StoredResponse, error) {
				return vault.StoredResponse{Status: 200}, nil
			})))(t)
			reactor := must.Get(o.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: "module.exports = 1", Configuration: map[string]string{}}))(t)
			must.Get(o.ReactAsync(ctx, reactor.ID, vault.ReactParams{CallbackURL: "https://callback.example/"}))(t)
			must.Get(db.ExecContext(ctx, "CREATE TRIGGER dropped BEFORE UPDATE ON "+table+condition+" BEGIN SELECT RAISE(IGNORE); END"))(t)
			if err := v.RotateDataKeys(ctx, o.TenantID(), nil); err == nil {
				t.Error("the rotation has ended")
			}
			must.Get(db.ExecContext(ctx, "DROP TRIGGER dropped"))(t)
			must.Get(o.GetToken(ctx, tok.ID))(t)
			must.Do(t, v.RotateDataKeys(ctx, o.TenantID(), nil))
			must.Get(o.GetToken(ctx, tok.ID))(t)
			must.Get(o.ListApplications(ctx, vault.ListApplicationsParams{}))(t)
		})
	}
}

// A trigger undoes the change of a ring after it was written. The call must not end as
// if the tenant had new keys.
func TestKeysThatTheDatabaseDoesNotKeep(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *vault.Vault, uuid.UUID) error{
		"rotate": func(ctx context.Context, v *vault.Vault, id uuid.UUID) error { return v.RotateDataKeys(ctx, id, nil) },
		"own key": func(ctx context.Context, v *vault.Vault, id uuid.UUID) error {
			return v.SetTenantKey(ctx, id, "test:key")
		},
	} {
		for _, step := range []int{0, 1, 2} {
			t.Run(fmt.Sprint(name, " ", step), func(t *testing.T) {
				t.Parallel()
				ctx, h, key := t.Context(), onMemory(t), vault.NewKey()
				db := must.Get(h.Storage.(*sqlite.Store).OpenDB())(t)
				defer db.Close()
				v, c := open(t, h, vault.Config{OpenKey: func(context.Context, string) (vault.AEAD, error) { return key, nil }})
				tok := must.Get(v.Tenant(c.TenantID()).CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(t)
				undo := fmt.Sprintf(`CREATE TABLE steps (n INTEGER); INSERT INTO steps VALUES (0);
					CREATE TRIGGER undone AFTER UPDATE OF body ON vault_records WHEN OLD.kind = 'ring' BEGIN
						UPDATE vault_records SET body = OLD.body, rev = OLD.rev WHERE rowid = OLD.rowid AND (SELECT n FROM steps) >= %d;
						UPDATE steps SET n = n + 1;
					END`, step)
				must.Get(db.ExecContext(ctx, undo))(t)
				must.Fail(0, call(ctx, v, c.TenantID()))(t, "the call", must.Text("look for a trigger that undoes changes"))
				must.Get(db.ExecContext(ctx, "DROP TRIGGER undone"))(t)
				must.Do(t, call(ctx, v, c.TenantID()))
				must.Get(v.Tenant(c.TenantID()).GetToken(ctx, tok.ID))(t)
			})
		}
	}
}

func replayed(_ vault.StoredResponse, again bool, err error) (bool, error) { return again, err }
