package faults

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/lib/pq" // the application's drivers
	_ "modernc.org/sqlite"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// openShop opens the database like an application that keeps its orders there.
func openShop(ctx context.Context, dsn string) (*sql.DB, error) {
	driver := "postgres"
	if !strings.Contains(dsn, "://") {
		driver, dsn = "sqlite", "file:"+dsn+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=synchronous(full)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (card text NOT NULL, cancelled boolean NOT NULL)`)
	return db, err
}

// order places an order together with its token. Before, it begins another order
// and rolls it back.
func (w *writer) order(ctx context.Context, _ int) error {
	tx, err := w.shop.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := w.placeOrder(ctx, tx, true); err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	tx, err = w.shop.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	id, err := w.placeOrder(ctx, tx, false)
	if err != nil {
		return err
	}
	return said(tx.Commit(), "order %s", id)
}

func (w *writer) placeOrder(ctx context.Context, tx *sql.Tx, cancelled bool) (string, error) {
	tok, err := w.c.InTx(tx).CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "card", Metadata: map[string]string{"order": "yes"}})
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO orders (card, cancelled) VALUES ($1, $2)`, tok.ID, cancelled)
	return tok.ID, err
}

// readRows reads tokens, orders and the log. It repeats this until they are
// consistent.
func (a *aftermath) readRows(t *testing.T, dsn string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		var problem string
		a.tokens = readTokens(t, a.c)
		if a.orders, problem = readOrders(t, dsn, a.tokens); problem == "" {
			a.logged = readLog(t, a.c)
			return
		}
		if attempt == 5 {
			t.Fatal(problem)
		}
	}
}

// readOrders returns the cards of all orders. problem names an order without
// its token, a token without its order, or a row that was rolled back.
func readOrders(t *testing.T, dsn string, tokens map[string]vault.Token) (orders map[string]bool, problem string) {
	t.Helper()
	db := must.Get(openShop(t.Context(), dsn))(t)
	defer db.Close()
	rows := must.Get(db.QueryContext(t.Context(), `SELECT card, cancelled FROM orders`))(t)
	defer rows.Close()
	orders = map[string]bool{}
	for rows.Next() {
		var card string
		var cancelled bool
		must.Do(t, rows.Scan(&card, &cancelled))
		if _, there := tokens[card]; !there || cancelled {
			problem = "an order without its token, or one that was rolled back: " + card
		}
		orders[card] = true
	}
	must.Do(t, rows.Err())
	for id, tok := range tokens {
		if tok.Metadata["order"] != "" && !orders[id] {
			problem = "a token without its order: " + id
		}
	}
	return orders, problem
}

// ordered checks that an order and its token exist.
func (a *aftermath) ordered(id string) string {
	if !a.orders[id] {
		return fmt.Sprintf("the order is missing (%d orders exist)", len(a.orders))
	}
	return a.token("create", id)
}
