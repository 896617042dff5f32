package sealed

import (
	"context"
	"database/sql"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/examples/sealed/customers"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

// CreateWithSQLC writes a customer and its tokens in one transaction.
// sqlc.yaml lists the sealed columns.
func CreateWithSQLC(ctx context.Context, db *sql.DB, c *vault.Client, p *customers.CreateParams) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := vaultsql.Seal(ctx, c.InTx(tx), p); err != nil {
		return 0, err
	}
	id, err := customers.New(tx).Create(ctx, *p)
	if err != nil {
		return 0, err
	}
	return id, tx.Commit()
}

// FindWithSQLC returns the customers with an email address, opened.
func FindWithSQLC(ctx context.Context, db *sql.DB, c vault.API, email string) ([]customers.Customer, error) {
	ids, err := vaultsql.Lookup(ctx, c, customers.Customer{}, "Email", email)
	if err != nil {
		return nil, err
	}
	found, err := customers.New(db).Find(ctx, ids)
	if err != nil {
		return nil, err
	}
	return found, vaultsql.Open(ctx, c, found)
}
