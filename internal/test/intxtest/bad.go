package intxtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
)

// badTransactions checks that a bad transaction leaves nothing behind, and does no
// harm.
func badTransactions(t *testing.T, shops Shops) {
	t.Helper()
	for name, test := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shops.Each(t, nil, func(t *testing.T, s *Shop) {
				test(t, s)
				if n := total(t, s.Owner.Client); n != 0 {
					t.Errorf("%d tokens are left, want none", n)
				}
				if n := entriesOf(t, s.Owner.Client, vault.OperationCreate); n != 0 {
					t.Errorf("%d entries are left, want none", n)
				}
				create(t, s.Owner.Client, aCard("card"))
				if n := total(t, s.Owner.Client); n != 1 {
					t.Errorf("%d tokens, want 1", n)
				}
			})
		})
	}
}

// bad are transactions that are unusable or fail.
var bad = map[string]func(t *testing.T, s *Shop){
	"none": func(t *testing.T, s *Shop) {
		if _, err := s.Owner.InTx(nil).CreateToken(t.Context(), aCard("card")); err == nil {
			t.Error("a token was created in no transaction")
		}
	},
	"a nil pointer": func(t *testing.T, s *Shop) {
		var tx *sql.Tx
		if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); err == nil {
			t.Error("a token was created in no transaction")
		}
	},
	"finished": func(t *testing.T, s *Shop) {
		for _, end := range []func(testing.TB, vault.Tx){commit, rollback} {
			tx := s.BeginTx(t)
			c := s.Owner.InTx(tx)
			end(t, tx)
			if _, err := c.CreateToken(t.Context(), aCard("card")); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("got %v, want ErrTxDone", err)
			}
		}
	},
	"of another database": func(t *testing.T, s *Shop) {
		tx, err := s.Other(t)(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrOtherDatabase) {
			t.Errorf("got %v, want ErrOtherDatabase", err)
		}
	},
	"cancelled": func(t *testing.T, s *Shop) {
		if !s.Ends {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := s.Begin(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := s.Owner.InTx(tx)
		create(t, c.Client, aCard("card"))
		cancel()
		for { // the rollback happens in the background
			if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCardNumber, Data: visa}); err != nil {
				break
			}
		}
		if err := tx.Commit(); err == nil {
			t.Error("it could be committed")
		}
	},
	"a call that is cancelled": func(t *testing.T, s *Shop) {
		tx := s.BeginTx(t)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Owner.InTx(tx).CreateToken(gone, aCard("card")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
		rollback(t, tx)
	},
	"a commit that fails": func(t *testing.T, s *Shop) {
		s.exec(t, s.DB, `CREATE TABLE parts (id integer PRIMARY KEY, of integer REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`)
		tx := s.BeginTx(t)
		create(t, s.Owner.InTx(tx).Client, aCard("card"))
		s.exec(t, tx, `INSERT INTO parts (id, of) VALUES (1, 77)`)
		if err := tx.Commit(); err == nil {
			t.Error("the commit did not fail")
		}
		_ = tx.Rollback()
	},
	"that may not write": func(t *testing.T, s *Shop) {
		tx := s.BeginTx(t)
		setting, again := `SET TRANSACTION READ ONLY`, `SELECT 1`
		if !s.Beside {
			setting, again = `PRAGMA query_only = 1`, `PRAGMA query_only = 0`
		}
		s.exec(t, tx, setting)
		if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("got %v, want ErrReadOnly", err)
		}
		s.exec(t, tx, again) // SQLite keeps it for the connection
		rollback(t, tx)
	},
	"a lost connection": func(t *testing.T, s *Shop) {
		if !s.Beside {
			return // SQLite is in this process: TestAcknowledgedWritesSurviveAKill ends that
		}
		tx := s.BeginTx(t)
		c := s.Owner.InTx(tx)
		create(t, c.Client, aCard("card"))
		s.lose(t, tx)
		if _, err := c.CreateToken(t.Context(), aCard("next")); err == nil {
			t.Error("a token was created on a lost connection")
		}
		if err := tx.Commit(); err == nil {
			t.Error("it could be committed")
		}
	},
	"a panic": func(t *testing.T, s *Shop) {
		func() {
			defer func() { _ = recover() }()
			tx := s.BeginTx(t)
			defer func() { _ = tx.Rollback() }()
			create(t, s.Owner.InTx(tx).Client, aCard("card"))
			panic("the application's own")
		}()
	},
}

// lose terminates the connection of a transaction from outside.
func (s *Shop) lose(t testing.TB, tx vault.Tx) {
	t.Helper()
	s.exec(t, s.DB, `SELECT pg_terminate_backend($1)`, pid(t, tx))
}
