// Package latertest tests how a backend runs a migration that a later version of the
// program adds.
package latertest

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// Backend is one database of a backend.
type Backend struct {
	// Open opens the database as a program that knows these migrations besides its
	// first one.
	Open func(ctx context.Context, mode storage.MigrateMode, added ...storage.Migration) (storage.Storage, error)
	// DB reads the database. Its tables need no schema in their names.
	DB *sql.DB
	// Catalog is a query for one column of text that describes all tables, columns
	// and indexes.
	Catalog string
	// Bytes is the type of a column of bytes.
	Bytes string
}

// later returns the invented migration: a column, an index, and a table filled from
// another. The table exists once for each tenant, so a migration that ran twice would
// fail.
func (b *Backend) later() storage.Migration {
	return storage.Migration{Version: 1002, SQL: `
-- An invented migration; nothing here is real.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_jobs ADD COLUMN later integer NOT NULL DEFAULT 7;
CREATE INDEX vault_jobs_later ON vault_jobs (tenant_id, later);
CREATE TABLE vault_later (
	tenant_id ` + b.Bytes + ` NOT NULL,
	n         integer NOT NULL,
	PRIMARY KEY (tenant_id)
);
INSERT INTO vault_later (tenant_id, n) SELECT tenant_id, count(*) FROM vault_tokens GROUP BY tenant_id;
`}
}

// Run tests a backend with an invented migration.
func Run(t *testing.T, b *Backend) {
	later := b.later()
	failing := later
	failing.SQL += "INSERT INTO vault_later (tenant_id, n) SELECT tenant_id, n FROM vault_later;"
	earlier := b.open(t, storage.MigrateAuto)
	insert(t, earlier, 1)
	before := b.state(t)

	must.Fail(b.Open(t.Context(), storage.MigrateCheck, later))(t, "MigrateCheck before the migration", storage.ErrOldSchema)
	must.Same(t, "the schema after MigrateCheck", before, b.state(t))

	for _, mode := range []storage.MigrateMode{storage.MigrateAuto, storage.MigrateOnly} {
		must.Fail(b.Open(t.Context(), mode, failing))(t, "a failing migration", must.Text("vault_later"))
		must.Same(t, "the schema after a failing migration", before, b.state(t))
		insert(t, earlier, 2+byte(mode))
	}

	b.atOnce(t, later)
	must.Same(t, "migrations", 2, b.number(t, `SELECT count(*) FROM vault_migrations`))
	must.Same(t, "databases", 1, b.number(t, `SELECT count(DISTINCT vault_id) FROM vault_migrations`))
	must.Same(t, "tokens that the migration counted", b.number(t, `SELECT count(*) FROM vault_tokens`), b.number(t, `SELECT n FROM vault_later`))

	after := b.state(t)
	insert(t, earlier, 10) // a node of the earlier version that still runs
	for i, mode := range []storage.MigrateMode{storage.MigrateAuto, storage.MigrateCheck} {
		insert(t, b.open(t, mode), 20+byte(i))        // a node of the earlier version that starts
		insert(t, b.open(t, mode, later), 30+byte(i)) // and one of the later
	}
	only := must.Get(b.Open(t.Context(), storage.MigrateOnly, later))(t)
	must.Match(t, "a write after MigrateOnly", write(t, only, 40), storage.ErrClosed)
	must.Same(t, "the schema after everything", after, b.state(t))
}

// atOnce migrates the database with several nodes at once.
func (b *Backend) atOnce(t *testing.T, later storage.Migration) {
	t.Helper()
	var nodes sync.WaitGroup
	for i := range byte(4) {
		nodes.Go(func() {
			s, err := b.Open(t.Context(), storage.MigrateAuto, later)
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			must.Match(t, "Close", s.Close(), nil)
		})
	}
	nodes.Wait()
}

func (b *Backend) open(t *testing.T, mode storage.MigrateMode, added ...storage.Migration) storage.Storage {
	t.Helper()
	s := must.Get(b.Open(t.Context(), mode, added...))(t)
	t.Cleanup(func() { must.Match(t, "Close", s.Close(), nil) })
	return s
}

// insert writes the token with a number, and reads it.
func insert(t *testing.T, s storage.Storage, n byte) {
	t.Helper()
	must.Do(t, write(t, s, n))
	found := must.Get(s.Tokens(t.Context(), storage.ID{1}, []string{string('a' + rune(n))}))(t)
	must.Same(t, "tokens", 1, len(found))
}

func write(t *testing.T, s storage.Storage, n byte) error {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return s.Write(t.Context(), &storage.Change{Tenant: storage.ID{1}, Now: now, InsertTokens: []storage.Token{{
		Ord: storage.ID{n}, ID: string('a' + rune(n)), Type: "token", Set: storage.Hash{1}, Containers: []string{"/a/"},
		Fingerprint: storage.Key{n}, Expression: storage.Hash{1}, KeyVersion: 1, Body: []byte{n}, CreatedAt: now, Rev: 1,
	}}, Logs: []storage.Log{{ID: storage.ID{n}, CreatedAt: now, EntityType: "token", Operation: "create"}}})
}

// state describes the schema and its versions.
func (b *Backend) state(t *testing.T) []string {
	t.Helper()
	return append(b.texts(t, b.Catalog), b.texts(t, `SELECT CAST(version AS text) FROM vault_migrations ORDER BY 1`)...)
}

func (b *Backend) texts(t *testing.T, query string) (all []string) {
	t.Helper()
	rows := must.Get(b.DB.QueryContext(t.Context(), query))(t)
	defer rows.Close()
	for rows.Next() {
		var one string
		must.Do(t, rows.Scan(&one))
		all = append(all, one)
	}
	must.Do(t, rows.Err())
	return all
}

func (b *Backend) number(t *testing.T, query string) (n int) {
	t.Helper()
	must.Do(t, b.DB.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}
