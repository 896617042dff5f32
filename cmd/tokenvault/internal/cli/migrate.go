package cli

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func databaseCommands() []*command {
	return []*command{
		{
			name: "migrate status", reach: inProcess, summary: "show which migrations the database has",
			about:   "Changes nothing, and needs no master key.",
			example: "tokenvault migrate status --db postgres://vault@db/vault",
			act:     migrateStatus,
		},
		{
			name: "migrate sql", reach: inProcess, summary: "print the SQL of the migrations",
			about: `Prints all migrations, or with --pending the missing ones, each as one
				transaction, for a role that may change the schema.`,
			example: "tokenvault migrate sql --pending --db postgres://vault@db/vault > vault.sql",
			setup: func(f *flag.FlagSet) action {
				pending := f.Bool("pending", false, "only migrations that the database lacks")
				return func(c *call) error { return migrateSQL(c, *pending) }
			},
		},
		{
			name: "migrate up", reach: inProcess, summary: "update the schema, or create it",
			about: `Within a major version, migrations only add, so servers of the old and the new
				version can run side by side. Several processes may run it at once. It needs no
				master key.`,
			example: "tokenvault migrate up --db vault.db",
			act:     migrateUp,
		},
		distributeCommand(), doctorCommand(), backupCommand(), restoreCommand(), statsCommand(),
	}
}

// needDB returns an error if no database is given.
func (c *call) needDB() error {
	_, err := c.way()
	return err
}

// migrations returns all migrations that this program knows for the kind of
// database.
func (c *call) migrations() []storage.Migration {
	if serve.IsPostgres(c.target.Path) {
		return postgres.Migrations(c.target.Schema)
	}
	return sqlite.Migrations()
}

// openSQL opens the database directly, without a vault.
func (c *call) openSQL() (*sql.DB, error) {
	if serve.IsPostgres(c.target.Path) {
		connector, err := pq.NewConnector(c.target.Path)
		if err != nil {
			return nil, errors.New("the URL of the database cannot be read; it is postgres://user@host/database?sslmode=verify-full")
		}
		return sql.OpenDB(connector), nil
	}
	if _, err := os.Stat(c.target.Path); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(c.target.Path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(30000)"}).String())
}

// appliedMigrations returns the versions that the database has. A database
// without a vault, or a missing file, has none.
func (c *call) appliedMigrations(ctx context.Context) (map[int]bool, error) {
	applied := map[int]bool{}
	db, err := c.openSQL()
	if errors.Is(err, fs.ErrNotExist) {
		return applied, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	there, err := c.hasVault(ctx, db)
	if err != nil {
		return nil, err
	}
	if !there {
		return applied, c.former()
	}
	rows, err := db.QueryContext(ctx, "SELECT version FROM "+c.tableName("vault_migrations"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var version int
		if err := rows.Scan(&version); err != nil {
			return nil, err
		}
		applied[version] = true
	}
	return applied, rows.Err()
}

// former returns the error with which a server refuses a database with the tables
// of an earlier version.
func (c *call) former() error {
	store, err := c.openStore(storage.MigrateCheck)
	switch {
	case err == nil:
		return store.Close()
	case errors.Is(err, storage.ErrFormerSchema):
		return err
	default:
		return nil // such as missing migrations, which the caller counts
	}
}

func (c *call) tableName(name string) string {
	if c.target.Schema == "" || !serve.IsPostgres(c.target.Path) {
		return name
	}
	return pq.QuoteIdentifier(c.target.Schema) + "." + name
}

// hasVault reports whether the database has the vault's tables.
func (c *call) hasVault(ctx context.Context, db *sql.DB) (there bool, err error) {
	if serve.IsPostgres(c.target.Path) {
		err = db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", c.tableName("vault_migrations")).Scan(&there)
	} else {
		err = db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'vault_migrations'").Scan(&there)
	}
	return there, err
}

// migrationState is a line of migrate status.
type migrationState struct {
	Version int    `json:"version"`
	State   string `json:"state"` // applied or pending
}

func migrateStatus(c *call) error {
	if err := c.needDB(); err != nil {
		return err
	}
	applied, err := c.appliedMigrations(c.ctx)
	if err != nil {
		return err
	}
	var states []migrationState
	for _, m := range c.migrations() {
		state := "pending"
		if applied[m.Version] {
			state = "applied"
		}
		states = append(states, migrationState{m.Version, state})
	}
	return printAll(c, each(states, nil), []column[*migrationState]{
		{"VERSION", func(m *migrationState) string { return fmt.Sprintf("%04d", m.Version) }},
		{"STATE", func(m *migrationState) string { return m.State }},
	})
}

func migrateSQL(c *call, pending bool) error {
	if err := c.needDB(); err != nil {
		return err
	}
	applied := map[int]bool{}
	if pending {
		var err error
		if applied, err = c.appliedMigrations(c.ctx); err != nil {
			return err
		}
	}
	for _, m := range c.migrations() {
		switch {
		case applied[m.Version]:
		case c.json:
			if err := writeJSON(c.Out, map[string]any{"version": m.Version, "sql": m.SQL}); err != nil {
				return err
			}
		default:
			if _, err := fmt.Fprintf(c.Out, "-- migration %d\nBEGIN;\n%s\nCOMMIT;\n\n", m.Version, terminated(m.SQL)); err != nil {
				return err
			}
		}
	}
	return nil
}

// terminated adds a semicolon after the last statement, if it is missing.
func terminated(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasSuffix(text, ";") {
		text += ";"
	}
	return text
}

func migrateUp(c *call) error {
	if err := c.needDB(); err != nil {
		return err
	}
	before, err := c.appliedMigrations(c.ctx)
	if err != nil {
		return err
	}
	store, err := c.openStore(storage.MigrateOnly)
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	ran := 0
	for _, m := range c.migrations() {
		if !before[m.Version] {
			ran++
		}
	}
	return c.say(nil, map[string]any{"migrations": ran}, "The schema is up to date: ran %s.", counted(ran, "migration"))
}

func distributeCommand() *command {
	return &command{
		name: "distribute", reach: inProcess, asks: true, summary: "spread a vault over the nodes of a Citus cluster",
		about: `Distributes the tables of an empty or a filled vault by tenant. The extension
			citus must exist. It needs no master key. Tables that are already distributed do
			not change.`,
		example: "tokenvault distribute --db postgres://vault@coordinator/vault --yes",
		act: func(c *call) error {
			if err := c.needDB(); err != nil {
				return err
			}
			if !serve.IsPostgres(c.target.Path) {
				return usagef("Citus is an extension of PostgreSQL: --db must be a postgres:// URL")
			}
			if err := c.confirm("Distribute the tables of this vault over the nodes of the cluster?"); err != nil {
				return err
			}
			return c.say(postgres.Distribute(c.ctx, c.target.Path, c.target.Postgres(storage.MigrateAuto)), map[string]any{"distributed": true}, "The vault is distributed.")
		},
	}
}
