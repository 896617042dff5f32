package pgtest

import (
	"database/sql"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// fillNotes creates two tables. One has a row that stays.
func fillNotes(tb testing.TB, address string) {
	tb.Helper()
	run(tb, address, `CREATE TABLE notes (n int, filler bytea); CREATE TABLE version AS SELECT 1 AS version`)
}

func run(tb testing.TB, address, statement string) {
	tb.Helper()
	must.Do(tb, admin(address, statement))
}

func rowsOf(tb testing.TB, address, table string) (n int) {
	tb.Helper()
	db := must.Get(sql.Open("postgres", address))(tb)
	defer func() { _ = db.Close() }()
	must.Do(tb, db.QueryRowContext(tb.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// TestSchemasAreLentAgain lets tests write to a schema, one after the other.
// Each test gets an empty schema. It gets a new one if the previous test
// changed more than rows.
func TestSchemasAreLentAgain(t *testing.T) { //nolint:tparallel // its subtests run in sequence
	t.Parallel()
	s := &Schemas{Fill: fillNotes, Keep: "version"}
	t.Cleanup(func() {
		if err := s.Drop(); err != nil {
			t.Error(err)
		}
	})
	var last string
	for _, test := range []struct {
		name, does string
		again      bool // the next test gets the same schema
	}{
		{"few rows", `INSERT INTO notes VALUES (1)`, true},
		{"many rows", `INSERT INTO notes SELECT i, decode(repeat('00', 1000), 'hex') FROM generate_series(1, 1000) i`, true},
		{"nothing", `SELECT`, true},
		{"a table", `CREATE TABLE more (n int)`, false},
		{"a column", `ALTER TABLE notes ADD COLUMN more int`, false},
		{"a function", `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'`, false},
		{"a trigger", `CREATE TRIGGER t BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`, false},
		{"a trigger for a time", `CREATE TRIGGER t BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger(); DROP TRIGGER t ON notes`, true},
		{"a row that stays", `INSERT INTO version VALUES (2)`, false},
		{"the last", `SELECT`, true},
	} {
		t.Run(test.name, func(t *testing.T) { //nolint:paralleltest // in sequence
			own := s.URL(t)
			if got := rowsOf(t, own, "notes"); got != 0 {
				t.Errorf("%d notes, want none", got)
			}
			if got := rowsOf(t, own, "version"); got != 1 {
				t.Errorf("%d versions, want one", got)
			}
			if last != "" && own != last {
				t.Error("not the schema of the previous test")
			}
			if other := s.URL(t); other == own {
				t.Error("two schemas in use have the same address")
			}
			run(t, own, test.does)
			last = ""
			if test.again {
				last = own
			}
		})
	}
}
