package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the database of these tests

	"github.com/seed-72ea4aab/vault/storage"
)

var someTenant = storage.ID{1}

// newStore returns a Store on an empty SQLite database.
func newStore(t *testing.T) *Store {
	t.Helper()
	db := openDB(t)
	if err := migrate(t.Context(), db, os.DirFS("../../sqlite/migrations"), storage.MigrateAuto); err != nil {
		t.Fatal(err)
	}
	d := Dialect{
		Prepared:   true,
		Conns:      1,
		LogsByType: true,
		ID:         func(id storage.ID) any { return id[:] },
		In: func(column string, values []any) (string, []any) {
			return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", values
		},
	}
	s, err := New(t.Context(), db, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// openDB opens an empty SQLite database.
func openDB(t *testing.T) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
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

// countTokens makes a list believe that there are this many tokens.
func countTokens(t *testing.T, s *Store, set storage.Hash, n int) {
	t.Helper()
	s.db.MustExec(`INSERT INTO vault_token_counts (tenant_id, set_id, type, n) VALUES (?, ?, 'card', ?)`, someTenant[:], set[:], n)
}

func TestPlans(t *testing.T) { //nolint:tparallel // the cases share one connection
	t.Parallel()
	s := newStore(t)
	rare, common := storage.Hash{1}, storage.Hash{2}
	countTokens(t, s, rare, 10)
	countTokens(t, s, common, 1_000_000)
	now := time.Now()
	for _, test := range []struct {
		name   string
		where  storage.Cond
		offset int
		want   []string // parts of the plan for the ords of the page
	}{
		{"all", nil, 0, []string{"INDEX sqlite_autoindex_vault_tokens_1 (tenant_id=?)"}},
		{"all, far in", nil, 1000, []string{"COVERING INDEX sqlite_autoindex_vault_tokens_1 (tenant_id=?)"}},
		{"a set", storage.SetIn{rare}, 0, []string{"INDEX vault_tokens_set (tenant_id=? AND set_id=? AND type=?)"}},
		{"a type", storage.TypeIn{"card"}, 0, []string{"INDEX vault_tokens_set (tenant_id=? AND set_id=? AND type=?)"}},
		{"a hash", storage.HashIs{9}, 0, []string{"h USING PRIMARY KEY (tenant_id=? AND hash=?)", "t USING INDEX sqlite_autoindex_vault_tokens_1 (tenant_id=? AND ord=?)"}},
		{"a hash in a common set", storage.And{storage.SetIn{common}, storage.HashIs{9}}, 0, []string{"h USING PRIMARY KEY (tenant_id=? AND hash=?)"}},
		{"a fingerprint in a common set", storage.And{storage.SetIn{common}, storage.FingerprintIs{9}}, 0, []string{"f USING COVERING INDEX vault_tokens_fingerprint (tenant_id=? AND fingerprint=?)"}},
		{"ids", storage.And{storage.IDIn{"a", "b"}, storage.HashIs{9}}, 0, []string{"f USING INDEX sqlite_autoindex_vault_tokens_2 (tenant_id=? AND id=?)"}},
		{"a prefix", storage.IDPrefix("a"), 0, []string{"f USING INDEX sqlite_autoindex_vault_tokens_2 (tenant_id=? AND id>? AND id<?)"}},
		{"either of two", storage.Or{storage.HashIs{9}, storage.FingerprintIs{9}}, 0, []string{"h USING PRIMARY KEY (tenant_id=? AND hash=?)", "f USING COVERING INDEX vault_tokens_fingerprint (tenant_id=? AND fingerprint=?)"}},
		{"a set or a hash", storage.Or{storage.SetIn{common}, storage.HashIs{9}}, 0, []string{"INDEX vault_tokens_set (tenant_id=? AND set_id=? AND type=?)", "h USING PRIMARY KEY (tenant_id=? AND hash=?)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := storage.TokenFilter{Tenant: someTenant, Where: test.where, Now: now, Limit: 20, Offset: test.offset}
			lists, err := s.tokenLists(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			got := plan(t, s, mergeOrds(lists, f.Limit, f.Offset))
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("no step with %q in\n%s", want, got)
				}
			}
			if strings.Contains(got, "SCAN t") {
				t.Errorf("a scan of the table in\n%s", got)
			}
		})
	}
}

func TestTotalsOfSets(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	countTokens(t, s, storage.Hash{1}, 1000)
	for name, where := range map[string]storage.Cond{
		"all":           nil,
		"sets":          storage.SetIn{{1}, {2}},
		"all but a set": storage.Not{Cond: storage.SetIn{{2}}},
		"sets or types": storage.Or{storage.SetIn{{1}}, storage.TypeIn{"card"}},
	} {
		f := storage.TokenFilter{Tenant: someTenant, Where: where, Now: time.Now(), Limit: 20}
		lists, err := s.tokenLists(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if total, err := lists[0].total(t.Context()); err != nil || total != 1000 {
			t.Errorf("%s: the total is %d, %v, want 1000", name, total, err)
		}
	}
}

func TestLogPlans(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, kind := range []string{"card", "proxy"} {
		s.db.MustExec(`INSERT INTO vault_log_counts (tenant_id, entity_type, day, n, first_id, last_id) VALUES (?, ?, 0, 1, ?, ?)`,
			someTenant[:], kind, someTenant[:], someTenant[:])
	}
	const byType, byEntity = "PRIMARY KEY (tenant_id=? AND entity_type=?", "vault_logs_entity (tenant_id=? AND entity_id=?)"
	for name, test := range map[string]struct {
		filter storage.LogFilter
		want   string
	}{
		"all":               {storage.LogFilter{}, byType},
		"all of a time":     {storage.LogFilter{From: time.Unix(1, 0)}, byType + " AND id>?)"},
		"type":              {storage.LogFilter{EntityType: "card"}, byType},
		"type and time":     {storage.LogFilter{EntityType: "card", To: time.Unix(1, 0)}, byType + " AND id<?)"},
		"entity":            {storage.LogFilter{EntityID: "x"}, byEntity},
		"entity and type":   {storage.LogFilter{EntityID: "x", EntityType: "card"}, byEntity},
		"entity and a time": {storage.LogFilter{EntityID: "x", From: time.Unix(1, 0)}, byEntity},
	} {
		test.filter.Tenant = someTenant
		l := s.newLogList(test.filter)
		if test.filter.EntityID == "" {
			if found, err := l.narrow(t.Context()); err != nil || !found {
				t.Fatalf("%s: found %v, %v", name, found, err)
			}
		}
		if got := plan(t, s, l.pageQuery(20, 0)); !strings.Contains(got, test.want) {
			t.Errorf("%s: the plan is\n%s", name, got)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, test := range []struct {
		name, wanted string
		want         bool
	}{
		{"Billing", "billing", true},
		{"Billing", "bill", false},
		{"Billing", "bill*", true},
		{"Billing", "*ING", true},
		{"Billing", "b*l*g", true},
		{"Billing", "*", true},
		{"", "*", true},
		{"Billing", "**b***g**", true},
		{"100%", "100%", true},
		{"100x", "100%", false},
		{"a_c", "a_*", true},
		{"abc", "a_*", false},
		{`a\c`, `a\*`, true},
		{"a*c", "a*c", true},
		{"STRASSE", "straße", true},
		{"ÉTÉ", "été*", true},
		{"[a-z]", "[a-z]*", true},
		{"b", "[a-z]*", false},
	} {
		condition, pattern := nameIs(test.wanted)
		var got bool
		query := `SELECT ` + condition + ` FROM (SELECT ? AS name_fold) r`
		if err := s.db.Get(&got, query, pattern, FoldName(test.name)); err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("%q matches %q: got %v", test.name, test.wanted, got)
		}
	}
}

func TestWholeTotal(t *testing.T) {
	t.Parallel()
	type answer struct {
		Total int
		Known bool
	}
	for name, test := range map[string]struct {
		got, offset, limit int
		before             storage.ID
		want               answer
	}{
		"a short first page":     {got: 3, limit: 10, want: answer{3, true}},
		"nothing":                {limit: 10, want: answer{0, true}},
		"a short later page":     {got: 3, offset: 20, limit: 10, want: answer{23, true}},
		"a full page":            {got: 10, limit: 10},
		"behind the end":         {offset: 20, limit: 10},
		"no page":                {},
		"from somewhere else on": {got: 3, limit: 10, before: someTenant},
	} {
		var got answer
		got.Total, got.Known = wholeTotal(test.got, test.offset, test.limit, test.before)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDriverErrorsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.dialect.Error = func(error) error { return context.DeadlineExceeded }
	s.db.MustExec(`DROP TABLE vault_container_sets`)
	if _, err := s.ContainerSets(t.Context(), someTenant); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
