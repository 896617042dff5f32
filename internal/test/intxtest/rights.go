package intxtest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// A client in a transaction has its current rights, even if the snapshot of the
// transaction is older than a change of the rights.
func currentRights(t *testing.T, shops Shops) {
	t.Helper()
	for name, revoke := range map[string]func(*vault.Owner, uuid.UUID) error{
		"deleted": func(c *vault.Owner, app uuid.UUID) error { return c.DeleteApplication(context.Background(), app) },
		"key regenerated": func(c *vault.Owner, app uuid.UUID) error {
			_, err := c.RegenerateKey(context.Background(), app)
			return err
		},
		"rights cut": func(c *vault.Owner, app uuid.UUID) error {
			_, err := c.PatchApplication(context.Background(), app, vault.JSON(`{"permissions":["token:create"]}`))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shops.Each(t, nil, func(t *testing.T, s *Shop) {
				if !s.Beside {
					return // the transaction has the only lock
				}
				secret := create(t, s.Owner.Client, aCard("secret"))
				for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
					app, err := s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
					if err != nil {
						t.Fatal(err)
					}
					c, err := s.Authenticate(t.Context(), app.Key)
					if err != nil {
						t.Fatal(err)
					}
					as, err := s.Owner.As(t.Context(), app.ID)
					if err != nil {
						t.Fatal(err)
					}
					tx, err := s.Begin(context.Background(), &sql.TxOptions{Isolation: level})
					if err != nil {
						t.Fatal(err)
					}
					get(t, c.InTx(tx), secret.ID) // takes the snapshot
					if err := revoke(s.Owner, app.ID); err != nil {
						t.Fatal(err)
					}
					if _, err := c.InTx(tx).GetToken(t.Context(), secret.ID); err == nil {
						t.Errorf("%s: the key still works in the transaction", level)
					}
					if _, err := as.InTx(tx).GetToken(t.Context(), secret.ID); (err == nil) != (name == "key regenerated") {
						t.Errorf("%s: as the application: %v", level, err)
					}
					if _, err := s.Owner.InTx(tx).GetApplication(t.Context(), app.ID); err != nil {
						t.Errorf("%s: the application of the snapshot: %v", level, err)
					}
					rollback(t, tx)
				}
			})
		})
	}
}

// A change of an application takes effect at once inside the same transaction.
func ownRights(t *testing.T, shops Shops) {
	t.Helper()
	shops.Each(t, nil, func(t *testing.T, s *Shop) {
		secret := create(t, s.Owner.Client, aCard("secret"))
		app, err := s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}})
		if err != nil {
			t.Fatal(err)
		}
		tx := s.BeginTx(t)
		in := s.Owner.InTx(tx)
		as, err := in.As(t.Context(), app.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = as.GetToken(t.Context(), secret.ID)
		wantError(t, "before", err, vault.ErrForbidden)
		if _, err := in.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions":["token:read"]}`)); err != nil {
			t.Fatal(err)
		}
		get(t, as, secret.ID)
		if err := in.DeleteApplication(t.Context(), app.ID); err != nil {
			t.Fatal(err)
		}
		_, err = as.GetToken(t.Context(), secret.ID)
		wantError(t, "deleted", err, vault.ErrUnauthenticated)
		rollback(t, tx)
	})
}
