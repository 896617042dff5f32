package rotation_test

import (
	"context"
	"testing"

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

func replayed(_ vault.StoredResponse, again bool, err error) (bool, error) { return again, err }
