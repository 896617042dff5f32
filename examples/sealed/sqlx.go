package sealed

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// CreateWithSQLX writes a customer and its tokens in one transaction.
func CreateWithSQLX(ctx context.Context, db *sqlx.DB, c *vault.Client, cust *Customer) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := vaultsql.Seal(ctx, c.InTx(tx), cust); err != nil {
		return err
	}
	insert, err := tx.PrepareNamedContext(ctx, `INSERT INTO customers (name, email, card) VALUES (:name, :email, :card) RETURNING id`)
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	if err := insert.GetContext(ctx, &cust.ID, cust); err != nil {
		return err
	}
	return tx.Commit()
}

// FindWithSQLX returns the customers with an email address, opened.
func FindWithSQLX(ctx context.Context, db *sqlx.DB, c vault.API, email string) ([]Customer, error) {
	ids, err := vaultsql.Lookup(ctx, c, Customer{}, "Email", email)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	query, args, err := sqlx.In(`SELECT id, name, email, card FROM customers WHERE email IN (?) ORDER BY id`, ids)
	if err != nil {
		return nil, err
	}
	var found []Customer
	if err := db.SelectContext(ctx, &found, db.Rebind(query), args...); err != nil {
		return nil, err
	}
	return found, vaultsql.Open(ctx, c, found)
}
