package serve

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// Migrations returns all migrations that this program knows for the kind of
// database.
func (d *Database) Migrations() []storage.Migration {
	if IsPostgres(d.Path) {
		return postgres.Migrations(d.Schema)
	}
	return sqlite.Migrations()
}

// OpenSQL opens the database directly, without a vault.
func (d *Database) OpenSQL() (*sql.DB, error) {
	if IsPostgres(d.Path) {
		connector, err := pq.NewConnector(d.Path)
		if err != nil {
			return nil, errors.New("the URL of the database cannot be read; it is postgres://user@host/database?sslmode=verify-full")
		}
		return sql.OpenDB(connector), nil
	}
	if _, err := os.Stat(d.Path); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(d.Path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(30000)"}).String())
}

// Pending returns the migrations that have not run. A database without a vault, or a
// missing file, lacks all.
func (d *Database) Pending(ctx context.Context) ([]storage.Migration, error) {
	pending := d.Migrations()
	db, err := d.OpenSQL()
	if errors.Is(err, fs.ErrNotExist) {
		return pending, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	there, err := d.hasVault(ctx, db)
	if err != nil {
		return nil, err
	}
	if !there {
		return pending, nil
	}
	rows, err := db.QueryContext(ctx, "SELECT version FROM "+d.tableName("vault_migrations"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var version int
		if err := rows.Scan(&version); err != nil {
			return nil, err
		}
		pending = slices.DeleteFunc(pending, func(m storage.Migration) bool { return m.Version == version })
	}
	return pending, rows.Err()
}

func (d *Database) tableName(name string) string {
	if d.Schema == "" || !IsPostgres(d.Path) {
		return name
	}
	return pq.QuoteIdentifier(d.Schema) + "." + name
}

// hasVault reports whether the database has the vault's tables.
func (d *Database) hasVault(ctx context.Context, db *sql.DB) (there bool, err error) {
	if IsPostgres(d.Path) {
		err = db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", d.tableName("vault_migrations")).Scan(&there)
	} else {
		err = db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'vault_migrations'").Scan(&there)
	}
	return there, err
}
