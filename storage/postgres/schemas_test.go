package postgres_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// fixture creates a database with a script and a file with more of it.
func fixture(t *testing.T, script, file string) (address string) {
	t.Helper()
	more := must.Get(os.ReadFile(file))(t)
	address = pgtest.URL(t)
	must.Get(database(t, address).Exec(script + string(more)))(t)
	return address
}

// TestEverySchemaOpens opens a database of every past schema: the migrations up
// to it, and rows. TestLandedMigrations checks that these migrations stay.
func TestEverySchemaOpens(t *testing.T) {
	t.Parallel()
	var script string
	for _, m := range postgres.Migrations("") {
		script += m.SQL
		upTo := script
		t.Run(strconv.Itoa(m.Version), func(t *testing.T) {
			t.Parallel()
			storagetest.CheckFixture(t, openAt(t, fixture(t, upTo, "testdata/rows.sql"), nil))
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
			address := fixture(t, "", "../internal/sqlstore/testdata/former.sql")
			db := database(t, address)
			must.Get(db.Exec(test.change))(t)
			before := relations(t, db, currentSchema(t, db))
			s, err := postgres.Open(t.Context(), address)
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
			if after := relations(t, db, currentSchema(t, db)); len(after) != len(before) {
				t.Errorf("the schema has changed: %v", after)
			}
		})
	}
}
