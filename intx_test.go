package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver that applications use

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/intxtest"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestInTx runs the transaction suite on both databases through three database/sql
// drivers. Module vaultpgx runs it on pgx transactions.
func TestInTx(t *testing.T) {
	t.Parallel()
	intxtest.Run(t, shops)
}

// A transaction may be of the application's own type, which may refer to its client.
func TestInTxOfAnotherType(t *testing.T) {
	t.Parallel()
	s := newShopOnSQLite(t, ":memory:", nil)
	tx, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	work := &unitOfWork{Tx: tx}
	work.c = s.Owner.InTx(work)
	app, err := work.c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "App", Type: vault.ApplicationPrivate, Permissions: everything})
	if err != nil {
		t.Fatal(err)
	}
	as, err := s.Owner.InTx(work).As(t.Context(), app.ID) // which another client of the transaction made
	if err != nil {
		t.Fatal(err)
	}
	create(t, as, aCard("card"))
	commit(t, work)
	get(t, s.Owner.Client, "card")
	if _, err := work.c.GetToken(t.Context(), "card"); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("after the commit: got %v, want ErrTxDone", err)
	}
}

type unitOfWork struct {
	*sql.Tx
	c *vault.Owner
}

// document returns a document that becomes many tokens, and is large enough to need
// one of its tenant's slots.
func document() []any {
	doc := make([]any, 300)
	for i := range doc {
		doc[i] = fmt.Sprintf("value %d", i)
	}
	return doc
}

// TestLargeCallsBesideATransaction lets large changes of a tenant wait for a
// transaction of the same tenant, which makes a large change itself. The
// transaction is not delayed, and the waiting changes fail with ErrUnavailable, one
// after the other.
func TestLargeCallsBesideATransaction(t *testing.T) {
	t.Parallel()
	s := newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), nil)
	tx := s.BeginTx(t)
	in := s.Owner.InTx(tx)
	create(t, in.Client, aCard("card"))
	const callers = 3
	outside := make(chan error, callers)
	for range callers {
		go func() {
			_, err := s.Owner.Tokenize(context.Background(), document())
			outside <- err
		}()
	}
	for range callers {
		if _, err := in.Tokenize(t.Context(), document()); err != nil {
			t.Fatalf("in the transaction: %v", err)
		}
		if err := <-outside; !errors.Is(err, vault.ErrUnavailable) {
			t.Errorf("beside the transaction: got %v, want ErrUnavailable", err)
		}
	}
	commit(t, tx)
	if page, err := s.Owner.ListTokens(t.Context(), vault.ListTokensParams{}); err != nil || page.Pagination.TotalItems != 1+callers*300 {
		t.Errorf("%d tokens after the commit (%v)", page.Pagination.TotalItems, err)
	}
}

// shop is an application that has its orders in the vault's database.
type shop = intxtest.Shop

var shops = intxtest.Shops{
	"sqlite": func(t *testing.T, cfg *vault.Config) *shop {
		return newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), cfg)
	},
	"memory": func(t *testing.T, cfg *vault.Config) *shop { return newShopOnSQLite(t, ":memory:", cfg) },
	"lib/pq": func(t *testing.T, cfg *vault.Config) *shop { return newShopOnPostgres(t, "postgres", cfg) },
	"pgx":    func(t *testing.T, cfg *vault.Config) *shop { return newShopOnPostgres(t, "pgx", cfg) },
}

func newShopOnSQLite(t *testing.T, path string, cfg *vault.Config) *shop {
	t.Helper()
	store, err := sqlite.OpenOptions(t.Context(), path, &sqlite.Options{WriteWait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.OpenStorage(t, store, cfg)
	other := func(t testing.TB) intxtest.Begin { return intxtest.On(vaulttest.New(t).DB) }
	return &shop{Vault: v, DB: v.DB, Begin: intxtest.On(v.DB), Other: other, Ends: true}
}

func newShopOnPostgres(t *testing.T, driver string, cfg *vault.Config) *shop {
	t.Helper()
	address := pgtest.URL(t)
	store, err := postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	open := func(address string) *sql.DB {
		db, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	other := func(testing.TB) intxtest.Begin {
		return intxtest.On(open(strings.Replace(address, "/postgres?", "/template1?", 1)))
	}
	db := open(address)
	return &shop{Vault: vaulttest.OpenStorage(t, store, cfg), DB: db, Begin: intxtest.On(db), Other: other, Beside: true, Ends: true}
}

func commit(t testing.TB, tx vault.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func rollback(t testing.TB, tx vault.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func aCard(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: visa}
}
