package postgres

import (
	"context"
	"database/sql"
)

// OpenRouted opens a database with the statements for distributed tables.
func OpenRouted(ctx context.Context, url string, opts *Options) (*Store, error) {
	return open(ctx, url, opts, func(context.Context, *sql.DB) (bool, error) { return true, nil })
}
