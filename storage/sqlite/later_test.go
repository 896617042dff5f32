package sqlite

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/latertest"
	"github.com/seed-72ea4aab/vault/storage"
)

// catalogText describes all tables, columns and indexes.
const catalogText = `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name`

// TestLaterMigration runs an invented migration.
func TestLaterMigration(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	latertest.Run(t, &latertest.Backend{
		Open: func(ctx context.Context, mode storage.MigrateMode, added ...storage.Migration) (storage.Storage, error) {
			return OpenOptions(ctx, path, &Options{Migrate: mode, added: added})
		},
		DB: beside(t, path), Catalog: catalogText, Bytes: "BLOB",
	})
}
