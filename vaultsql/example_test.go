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

// The ids of the tokens that hold a value are for a WHERE clause. A value of another
// type is an error, because it would find nothing.
func ExampleLookup() {
	ctx := context.Background()
	v, c := opened(ctx)
	defer v.Close()
	jane := Customer{Email: vaultsql.NewText("jane@example.com")}
	check(vaultsql.Seal(ctx, c, &jane))
	ids := result(vaultsql.Lookup(ctx, c, Customer{}, "Email", "jane@example.com"))
	fmt.Println(len(ids), ids[0] == jane.Email.ID())
	_, err := vaultsql.Lookup(ctx, c, Customer{}, "Email", []byte("jane@example.com"))
	fmt.Println(err)
	// Output:
	// 1 true
	// vaultsql: Customer.Email: vault: invalid input: the value to look up is a []uint8, and the field holds string
}

// The compiler checks the field and the type of the value.
func ExampleLookupIn() {
	ctx := context.Background()
	v, c := opened(ctx)
	defer v.Close()
	jane := Customer{Name: vaultsql.NewText("Jane Doe")}
	check(vaultsql.Seal(ctx, c, &jane))
	ids := result(vaultsql.LookupIn(ctx, c, func(row *Customer) *vaultsql.Text { return &row.Name }, "Jane Doe"))
	fmt.Println(len(ids), ids[0] == jane.Name.ID())
	// Output: 1 true
}

// opened returns a new vault in memory, and a client.
func opened(ctx context.Context) (*vault.Vault, *vault.Client) {
	v := result(vault.Open(ctx, result(sqlite.Open(ctx, ":memory:")), vault.NewKey(), nil))
	return v, v.Tenant(result(v.CreateTenant(ctx, "Shop")).ID).Client
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
