package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
)

// versionsPerMajor is how many migrations a major version of the schema has
// room for. Within a major version migrations only add, so that a program that
// does not know the latest of them still works.
const versionsPerMajor = 1000

// createAttempts bounds how often the table of versions is asked for: when two
// nodes create it at once, one of them may fail and find it there next time.
const createAttempts = 5

// Migrate brings the database to the latest schema. The files are named by
// version, as in 1001_initial.sql: the major version, then three digits.
//
// Each migration is one transaction that inserts its version first: a second
// node that starts at the same time waits for it, and then has nothing to do.
// A schema of a later major version is [storage.ErrNewerSchema].
func Migrate(ctx context.Context, db *sqlx.DB, files fs.FS) error {
	migrations, err := readMigrations(files)
	if err != nil {
		return err
	}
	done, err := versions(ctx, db)
	if err != nil {
		return fmt.Errorf("storage: reading the schema version: %w", err)
	}
	known := migrations[len(migrations)-1].version
	if latest := slices.Max(append(done, 0)); latest/versionsPerMajor > known/versionsPerMajor {
		return fmt.Errorf("%w: the database is at version %d, this program supports up to %d", storage.ErrNewerSchema, latest, known)
	}
	for _, m := range migrations {
		if slices.Contains(done, m.version) {
			continue
		}
		if err := m.run(ctx, db); err != nil {
			return fmt.Errorf("storage: migration %d: %w", m.version, err)
		}
	}
	return nil
}

type migration struct {
	version int
	script  string
}

func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("storage: there are no migrations")
	}
	migrations := make([]migration, 0, len(names))
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("storage: migration %s: the name does not start with a version", name)
		}
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		migrations = append(migrations, migration{version, string(script)})
	}
	slices.SortFunc(migrations, func(a, b migration) int { return a.version - b.version })
	return migrations, nil
}

// versions returns the migrations that have run, after it has made sure that
// there is a table of them.
func versions(ctx context.Context, db *sqlx.DB) ([]int, error) {
	var done []int
	var err error
	for range createAttempts {
		if err = db.SelectContext(ctx, &done, `SELECT version FROM schema_version`); err == nil {
			return done, nil
		}
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY)`)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err == nil {
		err = db.SelectContext(ctx, &done, `SELECT version FROM schema_version`)
	}
	return done, err
}

func (m migration) run(ctx context.Context, db *sqlx.DB) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	inserted, err := tx.ExecContext(ctx,
		tx.Rebind(`INSERT INTO schema_version (version) VALUES (?) ON CONFLICT DO NOTHING`), m.version)
	if err != nil {
		return err
	}
	if n, err := inserted.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, m.script); err != nil {
		return err
	}
	return tx.Commit()
}
