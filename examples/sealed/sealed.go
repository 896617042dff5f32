// Package sealed keeps customers in a table whose columns hold token ids, with the
// libraries that Go programs use for SQL: one file for each of sqlx, pgx, GORM and
// sqlc. It is a separate module, so the vault does not depend on these libraries.
package sealed

import (
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// Customer is a row of the table customers.
type Customer struct {
	ID    int64
	Name  vaultsql.Text `vault:"container=/pii/high/,index"`
	Email vaultsql.Text `vault:"dedup"`
	Card  vaultsql.Card // NULL for a customer without a card
}
