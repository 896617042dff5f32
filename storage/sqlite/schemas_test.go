package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// schemas is the directory of the fixtures. For each migration it has a script
// that creates a database as that migration left it, with a few rows. To add a
// migration, add a script with all migrations up to it and the rows of the
// previous script.
const schemas = "testdata/schemas"

func fixture(t *testing.T, path, name string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(schemas, name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := beside(t, path).Exec(string(script)); err != nil {
		t.Fatal(err)
	}
}

// TestEverySchemaOpens opens a database of every past schema.
func TestEverySchemaOpens(t *testing.T) {
	t.Parallel()
	for _, m := range Migrations() {
		t.Run(strconv.Itoa(m.Version), func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			fixture(t, path, strconv.Itoa(m.Version))
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
			fixture(t, path, "unprefixed")
			db := beside(t, path)
			if _, err := db.Exec(test.change); err != nil {
				t.Fatal(err)
			}
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
			if !strings.Contains(err.Error(), "schema version 1002") {
				t.Errorf("the error does not name the version: %v", err)
			}
			if after := schemaOf(t, db); len(after) != len(before) {
				t.Errorf("the schema has changed:\n%s", strings.Join(after, "\n"))
			}
		})
	}
}
