package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// document returns a document that becomes many tokens. The last token has this
// id, unless it is "". The document is large enough to need the tenant's turns.
func document(last string) []any {
	const tokens = 300
	doc := make([]any, tokens)
	for i := range doc {
		doc[i] = fmt.Sprintf("value %d", i)
	}
	if last != "" {
		doc[tokens-1] = map[string]any{"id": last, "type": "token", "data": "x"}
	}
	return doc
}

// TestInTxWaitsWithoutATurn makes a transaction hold an id that other transactions of its
// tenant want, as many as the tenant has turns. They wait in the database, and the
// first transaction must still get a turn to finish.
func TestInTxWaitsWithoutATurn(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		if !s.Beside {
			return
		}
		first := s.begin(t)
		in := s.Owner.InTx(first)
		given.Create(t, in.Client, aCard("wanted"))
		callers := runtime.GOMAXPROCS(0)
		waiting := make(chan error, callers)
		for range callers {
			tx := s.begin(t)
			go func() {
				_, err := s.Owner.InTx(tx).Tokenize(context.Background(), document("wanted"))
				waiting <- errors.Join(err, tx.Rollback())
			}()
		}
		given.Eventually(t, "the others wait for the first", func() bool {
			return s.waitingFor(t, first) >= max(1, callers-1)
		})
		must.Match(t, "the transaction that the others wait for", must.Err(in.Tokenize(t.Context(), document(""))), nil)
		commit(t, first)
		for range callers {
			must.Match(t, "after the commit", <-waiting, vault.ErrConflict)
		}
	})
}

// waitingFor returns the number of connections that wait for a transaction.
func (s *shop) waitingFor(t testing.TB, tx *sql.Tx) (n int) {
	t.Helper()
	must.Do(t, s.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid(t, tx)).Scan(&n))
	return n
}

// A client in a transaction has its current rights, even if the snapshot of the
// transaction is older than a change of the rights.
func TestInTxCurrentRights(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(*vault.Owner, uuid.UUID) error{
		"deleted":         func(c *vault.Owner, app uuid.UUID) error { return c.DeleteApplication(context.Background(), app) },
		"key regenerated": func(c *vault.Owner, app uuid.UUID) error { return must.Err(c.RegenerateKey(context.Background(), app)) },
		"rights cut": func(c *vault.Owner, app uuid.UUID) error {
			return must.Err(c.PatchApplication(context.Background(), app, vault.JSON(`{"permissions":["token:create"]}`)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shops.each(t, nil, func(t *testing.T, s *shop) {
				if !s.Beside {
					return // the transaction has the only lock
				}
				secret := given.Create(t, s.Owner.Client, aCard("secret"))
				for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
					app := must.Get(s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(t)
					c := must.Get(s.Authenticate(t.Context(), app.Key))(t)
					as := must.Get(s.Owner.As(t.Context(), app.ID))(t)
					tx := must.Get(s.DB.BeginTx(context.Background(), &sql.TxOptions{Isolation: level}))(t)
					given.Get(t, c.InTx(tx), secret.ID) // takes the snapshot
					must.Do(t, revoke(s.Owner, app.ID))
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
func TestInTxOwnRights(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		secret := given.Create(t, s.Owner.Client, aCard("secret"))
		app := must.Get(s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}}))(t)
		tx := s.begin(t)
		in := s.Owner.InTx(tx)
		as := must.Get(in.As(t.Context(), app.ID))(t)
		must.Match(t, "before", must.Err(as.GetToken(t.Context(), secret.ID)), vault.ErrForbidden)
		must.Get(in.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions":["token:read"]}`)))(t)
		given.Get(t, as, secret.ID)
		must.Do(t, in.DeleteApplication(t.Context(), app.ID))
		must.Match(t, "deleted", must.Err(as.GetToken(t.Context(), secret.ID)), vault.ErrUnauthenticated)
		rollback(t, tx)
	})
}

// TestInTxThatIsBad checks that a bad transaction leaves nothing behind, and does no
// harm.
func TestInTxThatIsBad(t *testing.T) {
	t.Parallel()
	for name, test := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shops.each(t, nil, func(t *testing.T, s *shop) {
				test(t, s)
				given.Same(t, "total", total(t, s.Owner.Client), 0)
				given.Same(t, "log entries", entriesOf(t, s.Owner.Client, vault.OperationCreate), 0)
				given.Create(t, s.Owner.Client, aCard("card"))
				given.Same(t, "total", total(t, s.Owner.Client), 1)
			})
		})
	}
}

// bad are transactions that are unusable or fail.
var bad = map[string]func(t *testing.T, s *shop){
	"none": func(t *testing.T, s *shop) {
		must.Match(t, "a token was created in no transaction", must.Err(s.Owner.InTx(nil).CreateToken(t.Context(), aCard("card"))), must.Text("InTx was given no transaction"))
	},
	"a nil pointer": func(t *testing.T, s *shop) {
		var tx *sql.Tx
		must.Match(t, "a token was created in no transaction", must.Err(s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card"))), must.Text("InTx was given no transaction"))
	},
	"of another database": func(t *testing.T, s *shop) {
		tx := must.Get(s.Other(t).BeginTx(t.Context(), nil))(t)
		defer func() { _ = tx.Rollback() }()
		must.Match(t, "CreateToken", must.Err(s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card"))), storage.ErrOtherDatabase)
	},
	"cancelled": func(t *testing.T, s *shop) {
		ctx, cancel := context.WithCancel(t.Context())
		tx := must.Get(s.DB.BeginTx(ctx, nil))(t)
		c := s.Owner.InTx(tx)
		given.Create(t, c.Client, aCard("card"))
		cancel()
		for { // the rollback happens in the background
			if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCardNumber, Data: given.Visa}); err != nil {
				break
			}
		}
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, context.Canceled) {
			t.Errorf("it could be committed: %v", err)
		}
	},
	"a commit that fails": func(t *testing.T, s *shop) {
		s.exec(t, s.DB, `CREATE TABLE parts (id integer PRIMARY KEY, of integer REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`)
		tx := s.begin(t)
		given.Create(t, s.Owner.InTx(tx).Client, aCard("card"))
		s.exec(t, tx, `INSERT INTO parts (id, of) VALUES (1, 77)`)
		must.Match(t, "the commit did not fail", tx.Commit(), must.Text("constraint"))
		_ = tx.Rollback()
	},
	"that may not write": func(t *testing.T, s *shop) {
		tx := s.begin(t)
		setting, again := `SET TRANSACTION READ ONLY`, `SELECT 1`
		if !s.Beside {
			setting, again = `PRAGMA query_only = 1`, `PRAGMA query_only = 0`
		}
		s.exec(t, tx, setting)
		must.Match(t, "CreateToken", must.Err(s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card"))), storage.ErrReadOnly)
		s.exec(t, tx, again) // SQLite keeps it for the connection
		rollback(t, tx)
	},
	"a lost connection": func(t *testing.T, s *shop) {
		if !s.Beside {
			return // SQLite is in this process: TestAcknowledgedWritesSurviveAKill ends that
		}
		tx := s.begin(t)
		c := s.Owner.InTx(tx)
		given.Create(t, c.Client, aCard("card"))
		s.lose(t, tx)
		must.Match(t, "a token was created on a lost connection", must.Err(c.CreateToken(t.Context(), aCard("next"))), must.Text("postgres: "))
		must.Match(t, "it could be committed", tx.Commit(), must.Text("conn"))
	},
}

// lose terminates the connection of a transaction from outside.
func (s *shop) lose(t testing.TB, tx *sql.Tx) {
	t.Helper()
	s.exec(t, s.DB, `SELECT pg_terminate_backend($1)`, pid(t, tx))
}

// A transaction may be of the application's own type, which may refer to its client.
func TestInTxOfAnotherType(t *testing.T) {
	t.Parallel()
	s := newShopOnSQLite(t, ":memory:", nil)
	tx := must.Get(s.DB.BeginTx(t.Context(), nil))(t)
	work := &unitOfWork{Tx: tx}
	work.c = s.Owner.InTx(work)
	app := must.Get(work.c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "App", Type: vault.ApplicationPrivate, Permissions: given.Everything}))(t)
	as, err := s.Owner.InTx(work).As(t.Context(), app.ID) // which another client of the transaction made
	must.Do(t, err)
	given.Create(t, as, aCard("card"))
	commit(t, work)
	given.Get(t, s.Owner.Client, "card")
	must.Match(t, "after the commit", must.Err(work.c.GetToken(t.Context(), "card")), sql.ErrTxDone)
}

type unitOfWork struct {
	*sql.Tx
	c *vault.Owner
}

// TestLargeCallsBesideATransaction lets large changes of a tenant wait for a
// transaction of the same tenant, which makes a large change itself. The
// transaction is not delayed, and the waiting changes fail with ErrUnavailable, one
// after the other.
func TestLargeCallsBesideATransaction(t *testing.T) {
	t.Parallel()
	s := newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), nil)
	tx := s.begin(t)
	in := s.Owner.InTx(tx)
	given.Create(t, in.Client, aCard("card"))
	const callers = 3
	outside := make(chan error, callers)
	for range callers {
		go func() {
			_, err := s.Owner.Tokenize(context.Background(), document(""))
			outside <- err
		}()
	}
	for range callers {
		must.Get(in.Tokenize(t.Context(), document("")))(t)
		must.Match(t, "beside the transaction", <-outside, vault.ErrUnavailable)
	}
	commit(t, tx)
	if page, err := s.Owner.ListTokens(t.Context(), vault.ListTokensParams{}); err != nil || page.Pagination.TotalItems != 1+callers*300 {
		t.Errorf("%d tokens after the commit (%v)", page.Pagination.TotalItems, err)
	}
}
