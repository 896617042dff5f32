package postgres_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// relations lists the tables, indexes and constraints of a schema.
func relations(t *testing.T, db *sql.DB, schema string) []string {
	t.Helper()
	return column[string](t, db, `SELECT c.relname FROM pg_class c WHERE c.relnamespace = $1::regnamespace
		UNION SELECT k.conname FROM pg_constraint k WHERE k.connamespace = $1::regnamespace AND k.contype <> 'n' ORDER BY 1`, schema)
}

func currentSchema(t *testing.T, db *sql.DB) (name string) {
	t.Helper()
	must.Do(t, db.QueryRow("SELECT current_schema()").Scan(&name))
	return name
}

// ownSchema returns the name of a schema that does not exist yet. The schema is
// dropped at the end of the test.
func ownSchema(t *testing.T, db *sql.DB) string {
	t.Helper()
	name := currentSchema(t, db) + " Own"
	t.Cleanup(func() {
		must.Match(t, "Exec", must.Err(db.Exec(`DROP SCHEMA IF EXISTS "`+name+`" CASCADE`)), nil)
	})
	return name
}

// exercise runs every kind of statement that names a table.
func exercise(t *testing.T, s *postgres.Store) {
	t.Helper()
	ctx, tenant, now := t.Context(), newID(), time.Now()
	one, many := sample(tenant, 1), sample(tenant, 20)
	one.InsertJobs = []storage.Job{{ID: newID(), Kind: "react", RunAt: now, Payload: []byte("x")}}
	for _, c := range []*storage.Change{one, many} {
		must.Do(t, s.Write(ctx, c))
	}
	if _, err := s.ReadToken(ctx, storage.Reading{Tenant: tenant, ID: one.InsertTokens[0].ID,
		Entry: storage.Log{ID: newID(), CreatedAt: now, ActorType: "user", Operation: "read", Message: "Token read"}}); err != nil {
		t.Error(err)
	}
	page, total, err := s.ListTokens(ctx, storage.TokenFilter{Tenant: tenant, Limit: 5, Count: true})
	if err != nil || len(page) != 5 || total != 21 {
		t.Errorf("got %d tokens of %d (%v), want 5 of 21", len(page), total, err)
	}
	if jobs, err := s.LeaseJobs(ctx, storage.Lease{Tenant: tenant, Owner: newID(), Now: now.Add(time.Second), Until: now.Add(time.Minute), Limit: 5}); err != nil || len(jobs) != 1 {
		t.Errorf("got %d jobs (%v), want 1", len(jobs), err)
	}
	must.Same(t, "deleted", 5, must.Get(s.DeleteLogs(ctx, tenant, now.Add(time.Hour), 5))(t))
	must.Get(s.Sweep(ctx, now, 10))(t)
	if more, err := s.Purge(ctx, tenant, 1000); err != nil || more {
		t.Errorf("purged with more %v (%v)", more, err)
	}
}

func TestAllNamesStartWithVault(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	openAt(t, address, nil)
	db := database(t, address)
	names := relations(t, db, currentSchema(t, db))
	if len(names) < 20 {
		t.Errorf("found only %d names", len(names))
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "vault_") {
			t.Errorf("%s does not begin with vault_", name)
		}
	}
}

func TestTakenNamesAreRejected(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string]string{
		"vault_jobs":       `CREATE TABLE vault_jobs (x int)`,
		"vault_logs":       `CREATE VIEW vault_logs AS SELECT 1`,
		"vault_tokens_set": `CREATE TABLE theirs (x int); CREATE INDEX vault_tokens_set ON theirs (x)`,
		"vault_migrations": `CREATE TABLE vault_migrations (version bigint)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgtest.URL(t)
			db := database(t, address)
			must.Get(db.Exec(theirs))(t)
			before := relations(t, db, currentSchema(t, db))
			s, err := postgres.Open(t.Context(), address)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, storage.ErrNameTaken) || !strings.HasSuffix(err.Error(), " "+name) {
				t.Errorf("got %v", err)
			}
			must.Same(t, "the database has changed", before, relations(t, db, currentSchema(t, db)))
		})
	}
}

// TestMigrationsByHand runs the migrations as an operator, and opens the vault
// with a role that may not create anything.
func TestMigrationsByHand(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	db := database(t, address)
	schema, check := ownSchema(t, db), &postgres.Options{Migrate: storage.MigrateCheck}
	check.Schema = schema
	must.Fail(postgres.OpenOptions(t.Context(), address, check))(t, "before the migrations", storage.ErrOldSchema)
	for _, m := range postgres.Migrations(schema) {
		if _, err := db.Exec(m.SQL); err != nil {
			t.Fatalf("migration %d: %v", m.Version, err)
		}
	}
	role := strings.ReplaceAll(currentSchema(t, db), "vault_test", "vault_role")
	for _, statement := range []string{
		`CREATE ROLE ` + role, `GRANT USAGE ON SCHEMA "` + schema + `" TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "` + schema + `" TO ` + role,
	} {
		must.Get(db.Exec(statement))(t)
	}
	t.Cleanup(func() {
		must.Match(t, "Exec", must.Err(db.Exec(`DROP OWNED BY `+role+`; DROP ROLE `+role)), nil)
	})
	poor := with(t, address, "role", role)
	if _, err := database(t, poor).Exec(`CREATE TABLE "` + schema + `".vault_more (x int)`); err == nil {
		t.Fatal("the role may create tables, so this proves nothing")
	}
	exercise(t, openAt(t, poor, check))
}
