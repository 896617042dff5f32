package sealed_test

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/examples/sealed"
	"github.com/seed-72ea4aab/vault/examples/sealed/customers"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	pgstorage "github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

//go:embed schema.sql
var schema string

// library is one of the libraries with a database.
type library struct {
	create func(ctx context.Context, c *vault.Client, cust *sealed.Customer) error
	find   func(ctx context.Context, c vault.API, email string) ([]sealed.Customer, error)
}

// customerVault is a vault and a table of customers in one database.
type customerVault struct {
	*vaulttest.Vault
	db  *sql.DB
	dsn string
}

// newCustomerVault creates a vault on PostgreSQL, or in memory with SQLite.
func newCustomerVault(t *testing.T, onSQLite bool) *customerVault {
	t.Helper()
	if onSQLite {
		v := vaulttest.New(t)
		w := &customerVault{Vault: v, db: v.DB}
		w.exec(t, strings.ReplaceAll(schema, "bigserial", "integer"))
		return w
	}
	dsn := pgtest.URL(t)
	store, err := pgstorage.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	w := &customerVault{Vault: vaulttest.OpenStorage(t, store, nil), dsn: dsn}
	if w.db, err = sql.Open("postgres", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.exec(t, schema)
	return w
}

func (w *customerVault) exec(t *testing.T, statement string) {
	t.Helper()
	must.Get(w.db.ExecContext(t.Context(), statement))(t)
}

// pool opens a pgx pool.
func (w *customerVault) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := must.Get(pgxpool.New(t.Context(), w.dsn))(t)
	t.Cleanup(pool.Close)
	return pool
}

func withSQLX(t *testing.T, w *customerVault) library {
	t.Helper()
	driver := "postgres"
	if w.DB != nil {
		driver = "sqlite3"
	}
	db := sqlx.NewDb(w.db, driver)
	return library{
		func(ctx context.Context, c *vault.Client, cust *sealed.Customer) error {
			return sealed.CreateWithSQLX(ctx, db, c, cust)
		},
		func(ctx context.Context, c vault.API, email string) ([]sealed.Customer, error) {
			return sealed.FindWithSQLX(ctx, db, c, email)
		},
	}
}

func withPGX(t *testing.T, w *customerVault) library {
	t.Helper()
	pool := w.pool(t)
	return library{
		func(ctx context.Context, c *vault.Client, cust *sealed.Customer) error {
			return sealed.CreateWithPGX(ctx, pool, c, cust)
		},
		func(ctx context.Context, c vault.API, email string) ([]sealed.Customer, error) {
			return sealed.FindWithPGX(ctx, pool, c, email)
		},
	}
}

func withGORM(t *testing.T, w *customerVault) library {
	t.Helper()
	var log strings.Builder
	t.Cleanup(func() {
		if strings.Contains(log.String(), "Jane") || !strings.Contains(log.String(), "INSERT") {
			t.Error("GORM logged no statements, or logged values")
		}
	})
	db := must.Get(gorm.Open(postgres.Open(w.dsn), &gorm.Config{Logger: logger.New(writer{&log}, logger.Config{LogLevel: logger.Info})}))(t)
	closeGORM(t, db)
	w.exec(t, `DROP TABLE customers`)
	must.Do(t, db.AutoMigrate(&sealed.Customer{}))
	return library{
		func(ctx context.Context, c *vault.Client, cust *sealed.Customer) error {
			return sealed.CreateWithGORM(ctx, db, c, cust)
		},
		func(ctx context.Context, c vault.API, email string) ([]sealed.Customer, error) {
			return sealed.FindWithGORM(ctx, db, c, email)
		},
	}
}

// closeGORM closes the connections when the test ends.
func closeGORM(t *testing.T, db *gorm.DB) {
	t.Helper()
	pool := must.Get(db.DB())(t)
	t.Cleanup(func() { _ = pool.Close() })
}

// writer writes what GORM logs.
type writer struct{ *strings.Builder }

func (w writer) Printf(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func withSQLC(t *testing.T, w *customerVault) library {
	t.Helper()
	return library{
		func(ctx context.Context, c *vault.Client, cust *sealed.Customer) (err error) {
			cust.ID, err = sealed.CreateWithSQLC(ctx, w.db, c, &customers.CreateParams{Name: cust.Name, Email: cust.Email, Card: cust.Card})
			return err
		},
		func(ctx context.Context, c vault.API, email string) ([]sealed.Customer, error) {
			found, err := sealed.FindWithSQLC(ctx, w.db, c, email)
			var all []sealed.Customer
			for _, f := range found {
				all = append(all, sealed.Customer{ID: f.ID, Name: f.Name, Email: f.Email, Card: f.Card})
			}
			return all, err
		},
	}
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		use      func(*testing.T, *customerVault) library
		onSQLite bool
	}{
		"sqlx": {withSQLX, false}, "sqlx on SQLite": {withSQLX, true}, "pgx": {withPGX, false}, "gorm": {withGORM, false}, "sqlc": {withSQLC, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCustomerVault(t, tt.onSQLite)
			tt.use(t, w).check(t, w)
		})
	}
}

// check writes customers and reads them back.
func (l library) check(t *testing.T, w *customerVault) {
	t.Helper()
	ctx := t.Context()
	text, email := vaultsql.NewText, "jane@example.com"
	for _, cust := range []sealed.Customer{
		{Name: text("Jane Doe"), Email: text(email), Card: vaultsql.NewCard(vault.CardData{Number: "4242424242424242"})},
		{Name: text("Jane Roe"), Email: text(email)},
		{Name: text("Joe"), Email: text("joe@example.com")},
	} {
		if err := l.create(ctx, w.Private, &cust); err != nil || cust.ID == 0 {
			t.Fatalf("%d: %v", cust.ID, err)
		}
	}
	bad := sealed.Customer{Name: text("Jane Poe"), Email: text(email), Card: vaultsql.NewCard(vault.CardData{Number: "1"})}
	if err := l.create(ctx, w.Private, &bad); err == nil || !strings.Contains(err.Error(), ".Card") {
		t.Errorf("an invalid card: %v", err)
	}
	found := must.Get(l.find(ctx, w.Private, email))(t)
	var got []string
	for _, cust := range found {
		name, errName := cust.Name.Get()
		card, errCard := cust.Card.Get()
		got = append(got, fmt.Sprintf("%d: %s, card %q, absent %v, %v %v", cust.ID, name, card.Number, cust.Card.IsZero(), errName, errCard))
	}
	want := []string{`1: Jane Doe, card "4242424242424242", absent false, <nil> <nil>`, `2: Jane Roe, card "", absent true, <nil> <nil>`}
	must.Same(t, "customers", want, got)
	var rows, cards, tokens int
	must.Do(t, w.db.QueryRowContext(ctx, `SELECT count(*), count(card) FROM customers WHERE name LIKE '%-%-%-%-%'`).Scan(&rows, &cards))
	page := must.Get(w.Private.ListTokens(ctx, vault.ListTokensParams{}))(t)
	if tokens = page.Pagination.TotalItems; rows != 3 || cards != 1 || tokens != 6 {
		t.Errorf("%d rows, %d cards, %d tokens", rows, cards, tokens)
	}
}

// A change is made in the token, so the row stays unchanged.
func TestRename(t *testing.T) {
	t.Parallel()
	w := newCustomerVault(t, false)
	pool := w.pool(t)
	cust := sealed.Customer{Name: vaultsql.NewText("Jane Doe"), Email: vaultsql.NewText("jane@example.com")}
	must.Do(t, sealed.CreateWithPGX(t.Context(), pool, w.Private, &cust))
	must.Do(t, sealed.RenameWithPGX(t.Context(), pool, w.Private, cust.ID, "Jane Roe"))
	found, err := sealed.FindWithPGX(t.Context(), pool, w.Private, "jane@example.com")
	if err != nil || len(found) != 1 {
		t.Fatal(len(found), err)
	}
	if name, err := found[0].Name.Get(); name != "Jane Roe" || found[0].Name.ID() != cust.Name.ID() {
		t.Errorf("the name or its token is wrong (%v)", err)
	}
}

// Each library rejects writing a value that was not sealed.
func TestUnsealedValuesAreNotWritten(t *testing.T) {
	t.Parallel()
	w := newCustomerVault(t, false)
	const insert = `INSERT INTO customers (name, email) VALUES ($1, $1)`
	name := vaultsql.NewText("Jane Doe")
	db := must.Get(gorm.Open(postgres.Open(w.dsn), &gorm.Config{Logger: logger.Discard}))(t)
	closeGORM(t, db)
	_, bySQL := w.db.ExecContext(t.Context(), insert, name)
	_, byPGX := w.pool(t).Exec(t.Context(), insert, name)
	byGORM := db.Create(&sealed.Customer{Name: name, Email: name}).Error
	for by, err := range map[string]error{"database/sql": bySQL, "pgx": byPGX, "gorm": byGORM} {
		if err == nil || !strings.Contains(err.Error(), vaultsql.ErrUnsealed.Error()) || strings.Contains(err.Error(), "Jane") {
			t.Errorf("%s: %v", by, err)
		}
	}
}
