package postgres_test

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/latertest"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// catalogText describes all tables, columns and indexes of the current schema.
const catalogText = `SELECT c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_class c
	JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'i') ORDER BY 1`

// later returns a backend of latertest on a database.
func later(t *testing.T, address, schema string, open func(context.Context, string, *postgres.Options) (*postgres.Store, error)) *latertest.Backend {
	t.Helper()
	return &latertest.Backend{
		Open: func(ctx context.Context, mode storage.MigrateMode, added ...storage.Migration) (storage.Storage, error) {
			return open(ctx, address, postgres.WithAdded(&postgres.Options{Schema: schema, Migrate: mode}, added...))
		},
		DB: database(t, with(t, address, "search_path", schema)), Catalog: catalogText, Bytes: "bytea",
	}
}

// TestLaterTableIsDistributed lists the tables that Citus distributes.
func TestLaterTableIsDistributed(t *testing.T) {
	t.Parallel()
	now := postgres.CitusTables()
	later := postgres.CitusTables(storage.Migration{Version: 1002, SQL: "CREATE TABLE vault_later (x int);"})
	must.Same(t, "tables", append(now, "vault_later"), later)
}

// TestLaterMigration runs an invented migration, in the current schema and in one
// that the search path lacks, with the statements for one server and for Citus.
func TestLaterMigration(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(context.Context, string, *postgres.Options) (*postgres.Store, error){
		"one server": postgres.OpenOptions, "as on Citus": postgres.OpenRouted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.URL(t)
			schema := currentSchema(t, database(t, address))
			latertest.Run(t, later(t, with(t, address, "search_path", "public"), schema, open))
		})
	}
}
