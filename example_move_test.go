package vault_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// newExampleVault opens a vault in memory with one tenant.
func newExampleVault(ctx context.Context) (*vault.Vault, *vault.Client, error) {
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		return nil, nil, err
	}
	tenant, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		return nil, nil, err
	}
	return v, v.Tenant(tenant.ID), nil
}

// A file of cards is imported row by row. One is not a card number; it does not
// stop the others.
func ExampleClient_Import() {
	ctx := context.Background()
	v, c, err := newExampleVault(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()

	file := csv.NewReader(strings.NewReader("ref,pan\norder-1,4242424242424242\norder-2,4242424242424241\norder-3,5555555555554444\n"))
	rows := func(yield func(vault.TokenParams, error) bool) {
		_, _ = file.Read() // the names of the columns
		for {
			record, err := file.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(vault.TokenParams{}, err)
				return
			}
			if !yield(vault.TokenParams{ID: record[0], Type: vault.TypeCardNumber, Data: record[1]}, nil) {
				return
			}
		}
	}
	for result, err := range c.Import(ctx, rows, vault.ImportOptions{OnDuplicate: vault.DuplicateSkips}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Row, result.Outcome, result.ID, result.Errors)
	}
	// Output:
	// 1 created order-1 map[]
	// 2 failed  map[data:[must have a valid check digit (Luhn)]]
	// 3 created order-3 map[]
}

// The tokens of one vault are copied into another.
func ExampleClient_Export() {
	ctx := context.Background()
	from, source, err := newExampleVault(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer from.Close()
	to, target, err := newExampleVault(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer to.Close()
	if _, err := source.CreateToken(ctx, vault.TokenParams{ID: "order-1", Type: vault.TypeCardNumber, Data: "4242424242424242"}); err != nil {
		fmt.Println(err)
		return
	}

	for result, err := range target.Import(ctx, source.Export(ctx, vault.ExportOptions{Query: "type:card_number"}), vault.ImportOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.ID, result.Outcome)
	}
	// Output: order-1 created
}

// A follower saves its cursor after each batch, and would go on from there after
// a restart.
func ExampleClient_FollowLogs() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	v, c, err := newExampleVault(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	if _, err := c.CreateToken(ctx, vault.TokenParams{ID: "order-1", Type: vault.TypeCardNumber, Data: "4242424242424242"}); err != nil {
		fmt.Println(err)
		return
	}

	saved := vault.LogsSince(time.Now().Add(-time.Hour))
	for batch, err := range c.FollowLogs(ctx, saved) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, entry := range batch.Data {
			fmt.Println(entry.EntityType, entry.Message)
		}
		saved = batch.Cursor
		break // for the example's sake
	}
	fmt.Println(saved != "")
	// Output:
	// tenant Tenant created
	// card_number Token created
	// true
}
