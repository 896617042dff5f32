package vaultpgx_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultpgx"
)

// An order and its card are one commit.
func Example() {
	order := func(ctx context.Context, pool *pgxpool.Pool, c *vault.Client, number string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			card, err := c.InTx(vaultpgx.Tx(tx)).CreateToken(ctx, vault.TokenParams{Type: vault.TypeCardNumber, Data: number})
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO orders (card) VALUES ($1)`, card.ID)
			return err
		})
	}
	_ = order
}
