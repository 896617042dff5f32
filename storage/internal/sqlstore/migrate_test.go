package sqlstore

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
)

func emptyDatabase(t *testing.T) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func script(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func versionsOf(t *testing.T, db *sqlx.DB) []int {
	t.Helper()
	var done []int
	if err := db.Select(&done, `SELECT version FROM schema_version ORDER BY version`); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	files := fstest.MapFS{
		"1001_first.sql":  script(`CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);`),
		"1002_second.sql": script(`INSERT INTO a VALUES (2);`),
	}
	for range 2 {
		if err := Migrate(t.Context(), db, files); err != nil {
			t.Fatal(err)
		}
	}
	files["1010_third.sql"] = script(`INSERT INTO a SELECT count(*) FROM a;`)
	if err := Migrate(t.Context(), db, files); err != nil {
		t.Fatal(err)
	}
	var rows []int
	if err := db.Select(&rows, `SELECT x FROM a ORDER BY rowid`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2, 2}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1001, 1002, 1010}, versionsOf(t, db)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestMigrationThatFails(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	files := fstest.MapFS{
		"1001_first.sql":  script(`CREATE TABLE a (x INTEGER)`),
		"1002_second.sql": script(`CREATE TABLE b (x INTEGER); no such statement`),
	}
	if err := Migrate(t.Context(), db, files); err == nil {
		t.Fatal("the second migration did not fail")
	}
	if diff := cmp.Diff([]int{1001}, versionsOf(t, db)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	files["1002_second.sql"] = script(`CREATE TABLE b (x INTEGER)`)
	if err := Migrate(t.Context(), db, files); err != nil {
		t.Errorf("the corrected migration: %v", err)
	}
}

func TestMigrateKnowsItsLimits(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	old := fstest.MapFS{"1001_first.sql": script(`CREATE TABLE a (x INTEGER)`)}
	newer := fstest.MapFS{"1001_first.sql": old["1001_first.sql"], "2001_next.sql": script(`DROP TABLE a`)}
	if err := Migrate(t.Context(), db, newer); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), db, old); !errors.Is(err, storage.ErrNewerSchema) {
		t.Errorf("a newer major version: got %v", err)
	}
	for name, files := range map[string]fstest.MapFS{
		"no migrations":            {},
		"a name without a version": {"initial.sql": script(``)},
	} {
		if err := Migrate(t.Context(), emptyDatabase(t), files); err == nil {
			t.Errorf("%s was not refused", name)
		}
	}
}
