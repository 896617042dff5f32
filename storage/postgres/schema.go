package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sync.OnceValues(func() ([]storage.Migration, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	all, err := sqlstore.ReadMigrations(files)
	for i := range all {
		all[i].SQL = marked(all[i].SQL)
	}
	return all, err
})

// Migrations returns the SQL that creates the vault's tables in the given
// schema, in order. The first migration creates the schema if it does not
// exist. An empty name means the current schema of the connection that runs
// them.
//
// Use it to run migrations separately, and then open the database with
// [storage.MigrateCheck].
func Migrations(schema string) []storage.Migration {
	name := schemaName("")
	if schema != "" {
		name = newSchemaName(schema)
	}
	all := name.migrations(nil)
	if schema != "" {
		all[0].SQL = "CREATE SCHEMA IF NOT EXISTS " + pq.QuoteIdentifier(schema) + ";\n" + all[0].SQL
	}
	return all
}

// schemaName is the quoted name of the schema, followed by a dot, as used in
// statements. An empty schemaName leaves table names unqualified.
type schemaName string

func newSchemaName(schema string) schemaName { return schemaName(pq.QuoteIdentifier(schema) + ".") }

// in returns a statement with the schema added to every table name, so that the
// search path of a connection does not matter. In statements only table names
// start with vault_.
func (n schemaName) in(statement string) string {
	return strings.ReplaceAll(statement, "vault_", string(n)+"vault_")
}

// tableNames finds the table names in a migration, where names of indexes also
// start with vault_.
var tableNames = regexp.MustCompile(`\b(TABLE|ON|INTO|FROM|UPDATE) vault_`)

// mark stands for the schema in the program's migrations. No SQL has this character.
const mark = "\x00"

// marked returns a migration with a mark before every table name.
func marked(sql string) string { return tableNames.ReplaceAllString(sql, "$1 "+mark+"vault_") }

// migrations returns the program's migrations, and added ones, with the schema.
func (n schemaName) migrations(added []storage.Migration) []storage.Migration {
	all, err := migrations()
	if err != nil {
		panic(err) // unreachable: the files are part of the program, and tests read them
	}
	named := slices.Clone(all)
	for _, m := range added {
		named = append(named, storage.Migration{Version: m.Version, SQL: marked(m.SQL)})
	}
	for i := range named {
		named[i].SQL = strings.ReplaceAll(named[i].SQL, mark, string(n))
	}
	return named
}

// findSchema returns the schema of the tables. It creates the schema of the
// options if it does not exist and the mode allows it.
func findSchema(ctx context.Context, db *sql.DB, o *Options) (string, error) {
	if o.Schema == "" {
		var current sql.NullString
		if err := db.QueryRowContext(ctx, "SELECT pg_catalog.current_schema()").Scan(&current); err != nil {
			return "", link.Clean(err)
		}
		if !current.Valid {
			return "", errors.New("postgres: the connection has no current schema; set Options.Schema")
		}
		return current.String, nil
	}
	var exists bool
	err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", o.Schema).Scan(&exists)
	if err == nil && !exists && o.Migrate != storage.MigrateCheck {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pq.QuoteIdentifier(o.Schema))
		if link.Code(err) != "" && link.Refused(err) {
			err = nil // another node has just created it
		}
	}
	return o.Schema, link.Clean(err)
}

// migrate runs migrations, or checks that they have run. Building an index on a
// large table takes longer than the usual limit on silence, so migrate lifts
// it. It waits for locks of other nodes and of the application until the
// context ends.
func (s *Store) migrate(ctx context.Context, schema string, o *Options) error {
	s.readers.Lines.SetSilence(0)
	defer s.readers.Lines.SetSilence(o.HangTimeout)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(link.CancelTimeout, s.readers.Lines.CutAll) })()
	for {
		err := migrate(ctx, s.readers.DB, schema, o)
		if link.Code(err) != pqerror.LockNotAvailable || pace.Sleep(ctx, lockPause) != nil {
			return err
		}
	}
}

// migrate makes one attempt to run migrations, or checks that they have run.
func migrate(ctx context.Context, db *sql.DB, schema string, o *Options) error {
	in, name := pq.QuoteLiteral(schema), newSchemaName(schema)
	all := name.migrations(o.added)
	for i := range all {
		all[i].SQL = "SET LOCAL statement_timeout = 0;\n" + all[i].SQL
	}
	m := sqlstore.Migrator{DB: sqlx.NewDb(db, "postgres"), All: all, Catalog: sqlstore.Catalog{
		Names: `SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = ` + in + ` AND pg_catalog.starts_with(c.relname, 'vault_')`,
		Columns: `SELECT a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = ` + in + ` AND c.relname = 'vault_migrations' AND a.attnum > 0 AND NOT a.attisdropped`,
		Table: name.in("vault_migrations"),
	}}
	return m.Run(ctx, o.Migrate)
}
