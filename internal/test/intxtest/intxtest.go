// Package intxtest is the test suite of [vault.Client.InTx]. It runs the
// operations of a client in a transaction of the application, for every kind of
// transaction that a vault accepts.
package intxtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Run checks every rule in every shop.
func Run(t *testing.T, shops Shops) {
	t.Helper()
	for name, rule := range map[string]func(*testing.T, Shops){
		"a commit is of both":                      commits,
		"a rollback leaves nothing":                rollsBack,
		"a refusal leaves the transaction usable":  refusals,
		"an expired token makes room":              makesRoom,
		"clients share a transaction":              twoClients,
		"entries of reads":                         readEntries,
		"calls outside":                            callsOutside,
		"bad transactions":                         badTransactions,
		"transactions that wait keep no turn":      waitsKeepNoTurn,
		"every method":                             everyMethod,
		"what a transaction made works after it":   worksAfterIt,
		"inside Once":                              insideOnce,
		"current rights":                           currentRights,
		"a transaction sees its changes of rights": ownRights,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule(t, shops)
		})
	}
}

// Shop is an application that keeps its orders in the vault's database.
type Shop struct {
	*vaulttest.Vault

	DB     *sql.DB // for statements outside of transactions
	Begin  Begin
	Other  func(testing.TB) Begin // on another database
	Beside bool                   // the vault can work while a transaction of the shop is open
	Ends   bool                   // a transaction ends with the context of Begin
}

// Begin begins a transaction.
type Begin func(context.Context, *sql.TxOptions) (vault.Tx, error)

// On returns a Begin for transactions of [database/sql].
func On(db *sql.DB) Begin {
	return func(ctx context.Context, o *sql.TxOptions) (vault.Tx, error) { return db.BeginTx(ctx, o) }
}

// Shops open shops, by the names of their drivers.
type Shops map[string]func(*testing.T, *vault.Config) *Shop

// Each runs a test in every shop.
func (shops Shops) Each(t *testing.T, cfg *vault.Config, test func(t *testing.T, s *Shop)) {
	t.Helper()
	for name, open := range shops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, cfg)
			s.exec(t, s.DB, `CREATE TABLE orders (id integer PRIMARY KEY, card text NOT NULL)`)
			test(t, s)
		})
	}
}

// BeginTx begins a transaction. The end of the test rolls it back.
func (s *Shop) BeginTx(t testing.TB) vault.Tx {
	t.Helper()
	tx, err := s.Begin(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Shop) exec(t testing.TB, on execer, query string, args ...any) {
	t.Helper()
	if _, err := on.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// order places an order in a transaction.
func (s *Shop) order(t testing.TB, tx vault.Tx, id int, card *vault.Token) {
	t.Helper()
	s.exec(t, tx, `INSERT INTO orders (id, card) VALUES ($1, $2)`, id, card.ID)
}

func (s *Shop) orders(t testing.TB) (n int) {
	t.Helper()
	if err := s.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pid returns the PostgreSQL process of a transaction.
func pid(t testing.TB, tx vault.Tx) (pid int) {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), `SELECT pg_backend_pid()`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() || rows.Scan(&pid) != nil {
		t.Fatalf("there is no process: %v", rows.Err())
	}
	return pid
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

const (
	visa       = "4242424242424242"
	mastercard = "5555555555554444"
)

// everything holds all permissions on tokens.
var everything = []vault.Permission{"token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"}

func aCard(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: visa}
}

func create(t testing.TB, c *vault.Client, p vault.TokenParams) *vault.Token {
	t.Helper()
	tok, err := c.CreateToken(t.Context(), p)
	if err != nil {
		t.Fatalf("create token: %v", err)
	}
	return tok
}

func get(t testing.TB, c *vault.Client, id string) *vault.Token {
	t.Helper()
	tok, err := c.GetToken(t.Context(), id)
	if err != nil {
		t.Fatalf("get token: %v", err)
	}
	return tok
}

func authenticated(t testing.TB, s *Shop, key string) *vault.Client {
	t.Helper()
	c, err := s.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatalf("authenticate: %v", err)
	}
	return c
}

func total(t testing.TB, c *vault.Client) int {
	t.Helper()
	page, err := c.ListTokens(t.Context(), vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCardNumber}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Pagination.TotalItems
}

// entriesOf returns the number of log entries of an operation on cards.
func entriesOf(t testing.TB, c *vault.Client, operation vault.LogOperation) (n int) {
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

func wantError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want an error that matches %q", what, err, kind)
	}
}

// eventually waits until holds returns true, for as long as the test runs.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: not before the test ended", what)
		case <-tick.C:
		}
	}
}
