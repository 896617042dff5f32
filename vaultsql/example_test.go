package vaultsql_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// Customer is a row of the table customers.
type Customer struct {
	ID    int64
	Name  vaultsql.Text `vault:"container=/pii/high/,index"`
	Email vaultsql.Text `vault:"dedup"`
	Card  vaultsql.Card
}

// The table has token ids in its columns. The tokens and the row are written
// in one commit.
func Example() {
	ctx := context.Background()
	store := result(sqlite.Open(ctx, ":memory:"))
	v := result(vault.Open(ctx, store, vault.NewKey(), nil))
	defer v.Close()
	db := result(store.OpenDB()) // the application's own connections to the same database
	defer db.Close()
	c := v.Tenant(result(v.CreateTenant(ctx, "Shop")).ID)
	result(db.ExecContext(ctx, "CREATE TABLE customers (id integer PRIMARY KEY, name text, email text, card text)"))

	tx := result(db.BeginTx(ctx, nil))
	defer tx.Rollback()
	jane := Customer{
		Name: vaultsql.NewText("Jane Doe"), Email: vaultsql.NewText("jane@example.com"),
		Card: vaultsql.NewCard(vault.CardData{Number: "4242424242424242"}),
	}
	check(vaultsql.Seal(ctx, c.InTx(tx), &jane))
	result(tx.ExecContext(ctx, "INSERT INTO customers (name, email, card) VALUES ($1, $2, $3)", jane.Name, jane.Email, jane.Card))
	check(tx.Commit())

	// Find the customer with an address by the id of its token.
	ids := result(vaultsql.Lookup(ctx, c, Customer{}, "Email", "jane@example.com"))
	var found Customer
	check(db.QueryRowContext(ctx, "SELECT name, card FROM customers WHERE email = $1", ids[0]).Scan(&found.Name, &found.Card))
	_, err := found.Name.Get()
	fmt.Println("before Open:", errors.Is(err, vaultsql.ErrSealed))

	clerk := found
	check(vaultsql.Open(ctx, c.Masked(), &clerk)) // a client that sees only masks
	fmt.Println("a clerk:", clerk.Name.Mask(), clerk.Card.Mask())

	check(vaultsql.Open(ctx, c, &found))
	fmt.Println("the program:", result(found.Name.Get()))
	// Output:
	// before Open: true
	// a clerk: XXXXXXXX {"number":"XXXXXXXXXXXX4242"}
	// the program: Jane Doe
}

// The compiler checks the field and the type of the value.
func ExampleLookupIn() {
	byEmail := func(ctx context.Context, c vault.API, email string) ([]string, error) {
		return vaultsql.LookupIn(ctx, c, func(row *Customer) *vaultsql.Text { return &row.Email }, email)
	}
	_ = byEmail
}

// The ids of the tokens that hold a value are for a WHERE clause.
func ExampleLookup() {
	byEmail := func(ctx context.Context, c vault.API, email string) ([]string, error) {
		return vaultsql.Lookup(ctx, c, Customer{}, "Email", email)
	}
	_ = byEmail
}

func result[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
