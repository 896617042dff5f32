package sqlite

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// fixture creates a database with a script and a file with more of it.
func fixture(t *testing.T, path, script, file string) {
	t.Helper()
	more := must.Get(os.ReadFile(file))(t)
	must.Get(beside(t, path).Exec(script + string(more)))(t)
}

// TestEverySchemaOpens opens a database of every past schema: the migrations up
// to it, and rows. TestLandedMigrations checks that these migrations stay.
func TestEverySchemaOpens(t *testing.T) {
	t.Parallel()
	var script string
	for _, m := range Migrations() {
		script += m.SQL
		upTo := script
		t.Run(strconv.Itoa(m.Version), func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			fixture(t, path, upTo, "testdata/rows.sql")
			storagetest.CheckFixture(t, open(t, path))
		})
	}
}

// TestFormerSchemaIsRejected opens a database from before table names had a prefix.
func TestFormerSchemaIsRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   error
	}{
		"all of its tables":                      {"", storage.ErrFormerSchema},
		"an application's, which lacks a table":  {"DROP TABLE claims", nil},
		"an application's, which lacks a column": {"ALTER TABLE tokens DROP COLUMN body", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			fixture(t, path, "", "../internal/sqlstore/testdata/former.sql")
			db := beside(t, path)
			must.Get(db.Exec(test.change))(t)
			before := schemaOf(t, db)
			s, err := Open(t.Context(), path)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), "schema version 1003") {
				t.Errorf("the error does not name the version: %v", err)
			}
			must.Same(t, "the schema has changed", len(before), len(schemaOf(t, db)))
		})
	}
}
