package sealed

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultpgx"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// CreateWithPGX writes a customer and its tokens in one transaction of pgx.
func CreateWithPGX(ctx context.Context, pool *pgxpool.Pool, c *vault.Client, cust *Customer) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after Commit
	if err := vaultsql.Seal(ctx, c.InTx(vaultpgx.Tx(tx)), cust); err != nil {
		return err
	}
	err = tx.QueryRow(ctx, `INSERT INTO customers (name, email, card) VALUES ($1, $2, $3) RETURNING id`,
		cust.Name, cust.Email, cust.Card).Scan(&cust.ID)
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// FindWithPGX returns the customers with an email address, opened. It uses
// pgx directly.
func FindWithPGX(ctx context.Context, pool *pgxpool.Pool, c vault.API, email string) ([]Customer, error) {
	ids, err := vaultsql.Lookup(ctx, c, Customer{}, "Email", email)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, `SELECT id, name, email, card FROM customers WHERE email = ANY ($1) ORDER BY id`, ids)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Customer])
	if err != nil {
		return nil, err
	}
	return found, vaultsql.Open(ctx, c, found)
}

// RenameWithPGX changes the name of a customer. The token keeps its id, so
// the row stays unchanged.
func RenameWithPGX(ctx context.Context, pool *pgxpool.Pool, c vault.API, id int64, name string) error {
	rows, err := pool.Query(ctx, `SELECT id, name, email, card FROM customers WHERE id = $1`, id)
	if err != nil {
		return err
	}
	cust, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[Customer])
	if err != nil {
		return err
	}
	cust.Name.Set(name)
	return vaultsql.Seal(ctx, c, cust)
}
