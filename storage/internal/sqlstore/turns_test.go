package sqlstore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"
)

// A list that takes long holds up lists beyond the limit, for as long as their
// callers wait, and no read of a single row.
func TestListsLeaveConnectionsForSingleRows(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(2)
	s, err := New(t.Context(), db, Dialect{PointLimit: 1, ListLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	answer := &point{query: "SELECT 42"}

	var n, found int
	err = s.each(t.Context(), "SELECT 1", nil, []any{&n}, func() {
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.count(stopped, "SELECT 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("a second list, whose caller has left: %v", err)
		}
		if len(s.listTurns) != 1 {
			t.Errorf("%d turns are taken by one list", len(s.listTurns))
		}
		if ok, err := s.one(t.Context(), answer, []any{&found}); !ok || err != nil {
			t.Errorf("a single row beside a list: %v, %v", ok, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if found != 42 || len(s.listTurns)+len(s.pointTurns) != 0 {
		t.Errorf("found %d; turns still taken: %d and %d", found, len(s.listTurns), len(s.pointTurns))
	}
}
