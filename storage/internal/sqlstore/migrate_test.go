package sqlstore

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func emptyDatabase(t *testing.T) *sqlx.DB {
	t.Helper()
	db := must.Get(sqlx.Open("sqlite", ":memory:"))(t)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func script(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// first returns a script that creates the table of migrations, as the first
// migration does.
func first(text string) *fstest.MapFile {
	return script(`CREATE TABLE vault_migrations (version INTEGER PRIMARY KEY, vault_id BLOB);
		INSERT INTO vault_migrations VALUES (1001, 'x'); ` + text)
}

// next returns a script that records its version.
func next(version int, text string) *fstest.MapFile {
	return script(fmt.Sprintf(`INSERT INTO vault_migrations VALUES (%d, 'x'); %s`, version, text))
}

// migrate runs the migrations of a directory on a SQLite database.
func migrate(ctx context.Context, db *sqlx.DB, files fs.FS) error {
	all, err := ReadMigrations(files)
	if err != nil {
		return err
	}
	m := Migrator{DB: db, All: all, Catalog: Catalog{
		Names: `SELECT name FROM sqlite_schema`, Columns: `SELECT name FROM pragma_table_info('vault_migrations')`, Table: `vault_migrations`,
	}}
	return m.Run(ctx, storage.MigrateAuto)
}

func versionsOf(t *testing.T, db *sqlx.DB) []int {
	t.Helper()
	var done []int
	must.Do(t, db.Select(&done, `SELECT version FROM vault_migrations ORDER BY version`))
	return done
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	files := fstest.MapFS{
		"1001_first.sql":  first(`CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);`),
		"1002_second.sql": next(1002, `INSERT INTO a VALUES (2);`),
	}
	for range 2 {
		must.Do(t, migrate(t.Context(), db, files))
	}
	files["1010_third.sql"] = next(1010, `INSERT INTO a SELECT count(*) FROM a;`)
	must.Do(t, migrate(t.Context(), db, files))
	var rows []int
	must.Do(t, db.Select(&rows, `SELECT x FROM a ORDER BY rowid`))
	must.Same(t, "rows", []int{1, 2, 2}, rows)
	must.Same(t, "versions", []int{1001, 1002, 1010}, versionsOf(t, db))
}

func TestFailedMigrationIsRolledBack(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	files := fstest.MapFS{
		"1001_first.sql":  first(`CREATE TABLE a (x INTEGER)`),
		"1002_second.sql": next(1002, `CREATE TABLE b (x INTEGER); no such statement`),
	}
	must.Match(t, "the second migration did not fail", migrate(t.Context(), db, files), must.Text("storage: migration 1002: "))
	must.Same(t, "versions", []int{1001}, versionsOf(t, db))
	files["1002_second.sql"] = next(1002, `CREATE TABLE b (x INTEGER)`)
	must.Match(t, "the corrected migration", migrate(t.Context(), db, files), nil)
}

func TestInvalidMigrationsAreRejected(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	old := fstest.MapFS{"1001_first.sql": first(`CREATE TABLE a (x INTEGER)`)}
	newer := fstest.MapFS{"1001_first.sql": old["1001_first.sql"], "2001_next.sql": next(2001, `DROP TABLE a`)}
	must.Do(t, migrate(t.Context(), db, newer))
	must.Match(t, "a newer major version", migrate(t.Context(), db, old), storage.ErrNewerSchema)
	for want, files := range map[string]fstest.MapFS{
		"storage: there are no migrations": {},
		"does not start with a version":    {"initial.sql": script(``)},
	} {
		must.Match(t, want, migrate(t.Context(), emptyDatabase(t), files), must.Text(want))
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	got := statements("-- One; and more.\nCREATE TABLE a (\n\tb int -- c; d\n);\n\nINSERT INTO a VALUES (1);\nDO $$ BEGIN x; y; END $$;\nDROP TABLE a;\n-- The end.\n")
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if diff := cmp.Diff([]string{"CREATE TABLE a ( b int )", "INSERT INTO a VALUES (1)", "DO $$ BEGIN x; y; END $$", "DROP TABLE a"}, got); diff != "" {
		t.Error(diff)
	}
}
