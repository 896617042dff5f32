package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver that applications use

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestBadTransactions is about transactions that are of no use, or end badly.
func TestBadTransactions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, s *shop){
		"none": func(t *testing.T, s *shop) {
			if _, err := s.Owner.InTx(nil).CreateToken(t.Context(), aCard("card")); err == nil {
				t.Error("a token was created in no transaction")
			}
		},
		"finished": func(t *testing.T, s *shop) {
			for _, end := range []func(testing.TB, *sql.Tx){commit, rollback} {
				tx := s.begin(t)
				c := s.Owner.InTx(tx)
				end(t, tx)
				if _, err := c.CreateToken(t.Context(), aCard("card")); !errors.Is(err, sql.ErrTxDone) {
					t.Errorf("got %v, want ErrTxDone", err)
				}
			}
		},
		"of another database": func(t *testing.T, s *shop) {
			tx, err := s.other(t).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrOtherDatabase) {
				t.Errorf("got %v, want ErrOtherDatabase", err)
			}
		},
		"cancelled": func(t *testing.T, s *shop) {
			ctx, cancel := context.WithCancel(t.Context())
			tx, err := s.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := s.Owner.InTx(tx)
			create(t, c, aCard("card"))
			cancel()
			for { // the rollback comes in the background
				if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCardNumber, Data: visa}); err != nil {
					break
				}
			}
			if err := tx.Commit(); err == nil {
				t.Error("it could be committed")
			}
		},
		"a call that is cancelled": func(t *testing.T, s *shop) {
			tx := s.begin(t)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Owner.InTx(tx).CreateToken(gone, aCard("card")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want Canceled", err)
			}
			rollback(t, tx)
		},
		"a commit that fails": func(t *testing.T, s *shop) {
			s.exec(t, s.db, `CREATE TABLE parts (id integer PRIMARY KEY, of integer REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`)
			tx := s.begin(t)
			create(t, s.Owner.InTx(tx), aCard("card"))
			s.exec(t, tx, `INSERT INTO parts (id, of) VALUES (1, 77)`)
			if err := tx.Commit(); err == nil {
				t.Error("the commit did not fail")
			}
			_ = tx.Rollback()
		},
		"that may not write": func(t *testing.T, s *shop) {
			tx := s.begin(t)
			setting, again := `SET TRANSACTION READ ONLY`, `SELECT 1`
			if !s.beside {
				setting, again = `PRAGMA query_only = 1`, `PRAGMA query_only = 0`
			}
			s.exec(t, tx, setting)
			if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrReadOnly) {
				t.Errorf("got %v, want ErrReadOnly", err)
			}
			s.exec(t, tx, again) // SQLite keeps it for the connection
			rollback(t, tx)
		},
		"a lost connection": func(t *testing.T, s *shop) {
			if !s.beside {
				return // SQLite is in this process: TestAcknowledgedWritesSurviveAKill ends that
			}
			tx := s.begin(t)
			c := s.Owner.InTx(tx)
			create(t, c, aCard("card"))
			s.lose(t, tx)
			if _, err := c.CreateToken(t.Context(), aCard("next")); err == nil {
				t.Error("a token was created on a lost connection")
			}
			if err := tx.Commit(); err == nil {
				t.Error("it could be committed")
			}
		},
		"a panic": func(t *testing.T, s *shop) {
			func() {
				defer func() { _ = recover() }()
				tx := s.begin(t)
				defer func() { _ = tx.Rollback() }()
				create(t, s.Owner.InTx(tx), aCard("card"))
				panic("the application's own")
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShops(t, nil, func(t *testing.T, s *shop) {
				test(t, s)
				if n := total(t, s.Owner); n != 0 {
					t.Errorf("%d tokens are left, want none", n)
				}
				if n := entriesOf(t, s.Owner, vault.OperationCreate); n != 0 {
					t.Errorf("%d entries are left, want none", n)
				}
				create(t, s.Owner, aCard("card"))
				if n := total(t, s.Owner); n != 1 {
					t.Errorf("%d tokens, want 1", n)
				}
			})
		})
	}
}

// lose ends the connection of a transaction from outside.
func (s *shop) lose(t testing.TB, tx *sql.Tx) {
	t.Helper()
	var pid int
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	s.exec(t, s.db, `SELECT pg_terminate_backend($1)`, pid)
}
