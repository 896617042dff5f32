package sqlite

import (
	"context"
	"embed"
	"io/fs"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sync.OnceValues(func() ([]storage.Migration, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return sqlstore.ReadMigrations(files)
})

// Migrations returns the SQL that creates the schema, in order. Use it to run
// migrations separately, and then open the database with
// [storage.MigrateCheck].
func Migrations() []storage.Migration {
	all, err := migrations()
	if err != nil {
		panic(err) // unreachable: the files are part of the program, and tests read them
	}
	return slices.Clone(all)
}

var catalog = sqlstore.Catalog{
	Names:   `SELECT lower(name) FROM sqlite_schema WHERE lower(name) LIKE 'vault\_%' ESCAPE '\'`,
	Columns: `SELECT lower(name) FROM pragma_table_info('vault_migrations')`,
	Table:   `vault_migrations`,
}

func migrate(ctx context.Context, db *sqlx.DB, o *Options) error {
	m := sqlstore.Migrator{DB: db, All: append(Migrations(), o.added...), Catalog: catalog}
	return m.Run(ctx, o.Migrate)
}
