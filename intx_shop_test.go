package vault_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver that applications use

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// shop is an application that has its orders in the vault's database.
type shop struct {
	*vaulttest.Vault
	db     *sql.DB
	beside bool // the vault works while a transaction of the shop's is open
	other  func(testing.TB) *sql.DB
}

// inShops runs a test on every database, through every driver.
func inShops(t *testing.T, cfg *vault.Config, test func(t *testing.T, s *shop)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *shop{
		"sqlite": func(t *testing.T) *shop { return newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), cfg) },
		"memory": func(t *testing.T) *shop { return newShopOnSQLite(t, ":memory:", cfg) },
		"lib/pq": func(t *testing.T) *shop { return newShopOnPostgres(t, "postgres", cfg) },
		"pgx":    func(t *testing.T) *shop { return newShopOnPostgres(t, "pgx", cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.exec(t, s.db, `CREATE TABLE orders (id integer PRIMARY KEY, card text NOT NULL)`)
			test(t, s)
		})
	}
}

func newShopOnSQLite(t *testing.T, path string, cfg *vault.Config) *shop {
	t.Helper()
	store, err := sqlite.OpenOptions(t.Context(), path, &sqlite.Options{WriteWait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.OpenStorage(t, store, cfg)
	return &shop{Vault: v, db: v.DB, other: func(t testing.TB) *sql.DB { return vaulttest.New(t).DB }}
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
	other := func(testing.TB) *sql.DB { return open(strings.Replace(address, "/postgres?", "/template1?", 1)) }
	return &shop{Vault: vaulttest.OpenStorage(t, store, cfg), db: open(address), beside: true, other: other}
}

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *shop) exec(t testing.TB, on execer, query string, args ...any) {
	t.Helper()
	if _, err := on.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// order places an order in a transaction.
func (s *shop) order(t testing.TB, tx *sql.Tx, id int, card *vault.Token) {
	t.Helper()
	s.exec(t, tx, `INSERT INTO orders (id, card) VALUES ($1, $2)`, id, card.ID)
}

func (s *shop) orders(t testing.TB) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shop) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func commit(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func rollback(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func total(t testing.TB, c *vault.Client) int {
	t.Helper()
	page, err := c.ListTokens(t.Context(), vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCardNumber}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Pagination.TotalItems
}

// entriesOf returns how many entries of an operation on cards the log has.
func entriesOf(t testing.TB, c *vault.Client, operation vault.Operation) (n int) {
	t.Helper()
	page, err := c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "card_number", PageParams: vault.PageParams{Size: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Data {
		if e.Operation == operation {
			n++
		}
	}
	return n
}

func aCard(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: visa}
}
