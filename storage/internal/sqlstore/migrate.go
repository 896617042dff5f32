package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
)

// versionsPerMajor is the number of migrations in a major version of the
// schema. Within a major version, migrations only add to the schema, so that a
// program that does not know the latest ones still works.
const versionsPerMajor = 1000

// SchemaVersions returns the versions of the migrations that have run, oldest
// first.
func (s *Store) SchemaVersions(ctx context.Context) ([]int, error) {
	var all []int
	var version int
	err := s.each(ctx, `SELECT version FROM vault_migrations ORDER BY version`, nil, []Field{{&version}}, func() {
		all = append(all, version)
	})
	return all, err
}

// ReadMigrations returns the migrations of a directory in order. Each file name
// starts with the version, as in 1001_initial.sql: the major version, then
// three digits. Each migration begins by recording its version in
// vault_migrations, which the first one creates.
func ReadMigrations(files fs.FS) ([]storage.Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("storage: there are no migrations")
	}
	migrations := make([]storage.Migration, 0, len(names))
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
		migrations = append(migrations, storage.Migration{Version: version, SQL: string(script)})
	}
	slices.SortFunc(migrations, func(a, b storage.Migration) int { return a.Version - b.Version })
	return migrations, nil
}

// Catalog has the queries for the contents of a database. Each query returns
// one column of text.
type Catalog struct {
	Names   string // names of tables and indexes that start with vault_
	Columns string // columns of vault_migrations; no rows if the table does not exist
	Table   string // vault_migrations, as used in statements
}

// Migrator migrates a database to the latest schema, or checks that it is up to
// date.
type Migrator struct {
	DB      *sqlx.DB
	All     []storage.Migration
	Catalog Catalog
}

// Run runs the missing migrations, each in one transaction. A second node that
// starts at the same time waits for it. With [storage.MigrateCheck], Run
// changes nothing and returns [storage.ErrOldSchema] if a migration is missing.
//
// Run returns [storage.ErrNewerSchema] for a schema of a later major version.
// It returns [storage.ErrNameTaken], and changes nothing, if a table or index
// that is not the vault's has a name that the vault needs.
func (m *Migrator) Run(ctx context.Context, mode storage.MigrateMode) error {
	var before []int // versions that had run at the last failure
	for failed := false; ; {
		done, err := m.versions(ctx)
		if err != nil {
			return err
		}
		hasRun := func(one storage.Migration) bool { return slices.Contains(done, one.Version) }
		missing := slices.DeleteFunc(slices.Clone(m.All), hasRun)
		if len(missing) == 0 {
			return m.newer(done)
		}
		if mode == storage.MigrateCheck {
			return errors.Join(m.newer(done), fmt.Errorf("%w: %s", storage.ErrOldSchema, versionsText(missing)))
		}
		err = m.newer(done)
		if err == nil {
			err = m.next(ctx, missing)
		}
		if err == nil {
			continue
		}
		// If nodes run a migration at the same time, one of them succeeds. The
		// others find it done next time.
		if failed && slices.Equal(done, before) || ctx.Err() != nil {
			return err
		}
		failed, before = true, done
	}
}

func versionsText(missing []storage.Migration) string {
	texts := make([]string, len(missing))
	for i, m := range missing {
		texts[i] = strconv.Itoa(m.Version)
	}
	return "missing " + strings.Join(texts, ", ")
}

// newer rejects a schema of a later major version.
func (m *Migrator) newer(done []int) error {
	known := m.All[len(m.All)-1].Version
	if latest := slices.Max(append(done, 0)); latest/versionsPerMajor > known/versionsPerMajor {
		return fmt.Errorf("%w: the database is at version %d, this program supports up to %d", storage.ErrNewerSchema, latest, known)
	}
	return nil
}

// versions returns the versions of the migrations that have run.
func (m *Migrator) versions(ctx context.Context) ([]int, error) {
	var columns []string
	if err := m.DB.SelectContext(ctx, &columns, m.Catalog.Columns); err != nil {
		return nil, fmt.Errorf("storage: looking for the schema: %w", err)
	}
	switch {
	case len(columns) == 0:
		return nil, nil
	case !slices.Contains(columns, "version") || !slices.Contains(columns, "vault_id"):
		return nil, fmt.Errorf("%w: vault_migrations", storage.ErrNameTaken)
	}
	var done []int
	err := m.DB.SelectContext(ctx, &done, `SELECT version FROM `+m.Catalog.Table+` ORDER BY version`)
	if err != nil {
		return nil, fmt.Errorf("storage: reading the schema version: %w", err)
	}
	return done, nil
}

// created finds the names that a migration creates.
var created = regexp.MustCompile(`CREATE (?:TABLE|INDEX|UNIQUE INDEX) (?:\S+\.)?(vault_\w+)`)

// next runs the first missing migration, unless a name that any of them needs
// is taken.
func (m *Migrator) next(ctx context.Context, missing []storage.Migration) error {
	var names []string
	if err := m.DB.SelectContext(ctx, &names, m.Catalog.Names); err != nil {
		return fmt.Errorf("storage: looking for the schema: %w", err)
	}
	for _, one := range missing {
		for _, found := range created.FindAllStringSubmatch(one.SQL, -1) {
			if slices.Contains(names, found[1]) {
				return fmt.Errorf("%w: %s", storage.ErrNameTaken, found[1])
			}
		}
	}
	if err := m.apply(ctx, missing[0].SQL); err != nil {
		return fmt.Errorf("storage: migration %d: %w", missing[0].Version, err)
	}
	return nil
}

func (m *Migrator) apply(ctx context.Context, script string) error {
	tx, err := m.DB.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	for _, statement := range statements(script) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

var comments = regexp.MustCompile(`--[^\n]*`)

// statements splits a migration, because an engine that forwards statements to
// other servers needs them one by one. A text in a migration contains a semicolon
// only between two $$, and never the start of a comment.
func statements(script string) (all []string) {
	for i, part := range strings.Split(comments.ReplaceAllString(script, ""), "$$") {
		if i%2 == 1 {
			all[len(all)-1] += "$$" + part + "$$"
			continue
		}
		pieces := strings.Split(part, ";")
		if i > 0 {
			all[len(all)-1] += pieces[0]
			pieces = pieces[1:]
		}
		all = append(all, pieces...)
	}
	return slices.DeleteFunc(all, func(statement string) bool { return strings.TrimSpace(statement) == "" })
}
