package sqlstore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the database of these tests

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

var someTenant = storage.ID{1}

// newStore returns a Store on an empty SQLite database.
func newStore(t *testing.T) *Store {
	t.Helper()
	db := openDB(t)
	must.Do(t, migrate(t.Context(), db, os.DirFS("../../sqlite/migrations")))
	d := Dialect{
		Prepared:   true,
		Conns:      1,
		LogsByType: true,
		ID:         func(id storage.ID) any { return id[:] },
		In: func(column string, values []any) (string, []any) {
			return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", values
		},
	}
	s := must.Get(New(t.Context(), db, d))(t)
	t.Cleanup(s.Close)
	return s
}

// openDB opens an empty SQLite database.
func openDB(t *testing.T) *sqlx.DB {
	t.Helper()
	db := must.Get(sqlx.Open("sqlite", filepath.Join(t.TempDir(), "test.db")))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// plan returns the steps of SQLite's plan for a query.
func plan(t *testing.T, s *Store, query clause) string {
	t.Helper()
	var steps []struct {
		ID, Parent, NotUsed int
		Detail              string
	}
	if err := s.db.Select(&steps, `EXPLAIN QUERY PLAN `+query.text, query.args...); err != nil {
		t.Fatalf("%v in %s", err, query.text)
	}
	details := make([]string, len(steps))
	for i, step := range steps {
		details[i] = step.Detail
	}
	return strings.Join(details, "\n")
}

func TestFoldName(t *testing.T) {
	t.Parallel()
	for a, b := range map[string]string{"STRASSE": "straße", "ÉTÉ": "été", "Billing": "bILLING"} {
		if FoldName(a) != FoldName(b) {
			t.Errorf("%q and %q differ", a, b)
		}
	}
}

func TestDriverErrorsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.dialect.Error = func(error) error { return context.DeadlineExceeded }
	s.db.MustExec(`DROP TABLE vault_container_sets`)
	must.Fail(s.ContainerSets(t.Context(), someTenant))(t, "a slow list", context.DeadlineExceeded)
}
