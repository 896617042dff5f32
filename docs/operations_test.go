package docs_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// command returns the only block of operations.md that begins with a text.
func command(t *testing.T, begin string) string {
	t.Helper()
	var found []string
	for _, b := range blocksOf(t, "operations.md") {
		if strings.HasPrefix(b.text, begin) {
			found = append(found, b.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("operations.md has %d blocks that begin with %q", len(found), begin)
	}
	return found[0]
}

// statements splits a block of SQL.
func statements(block string) []string {
	return strings.Split(strings.TrimSuffix(strings.TrimSpace(block), ";"), ";\n")
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
}

func openDB(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open(driver, address))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// filled opens a vault on a store and puts a token into it.
func filled(t *testing.T, store vault.Storage, key vault.AEAD) (*vault.Vault, uuid.UUID) {
	t.Helper()
	v := must.Get(vault.Open(t.Context(), store, key, nil))(t)
	t.Cleanup(func() { v.Close() })
	acme := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	must.Get(v.Tenant(acme.ID).CreateToken(t.Context(), vault.TokenParams{ID: "kept", Type: vault.TypeGeneric, Data: "secret"}))(t)
	return v, acme.ID
}

// wantToken opens a store and reads the token of filled.
func wantToken(t *testing.T, store vault.Storage, err error, key vault.AEAD, tenant uuid.UUID) {
	t.Helper()
	must.Do(t, err)
	v := must.Get(vault.Open(t.Context(), store, key, nil))(t)
	defer v.Close()
	out := must.Get(v.Tenant(tenant).Detokenize(t.Context(), "{{ kept }}"))(t)
	must.Same(t, "the token", `"secret"`, string(out))
}

// cluster starts a PostgreSQL for this test alone, because roles and databases
// belong to a whole server. If it cannot start, pgtest skips or fails the test.
func cluster(t *testing.T) string {
	t.Helper()
	c, err := pgtest.Start()
	if err != nil {
		pgtest.URL(t) // skips or fails, unless a server runs elsewhere
		t.Skipf("this test cannot start its own PostgreSQL server: %v", err)
	}
	t.Cleanup(func() {
		must.Match(t, "Stop", c.Stop(), nil)
	})
	return c.URL
}

// as returns the address of a database in a cluster, for a role.
func as(t *testing.T, address, role, database string) string {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	q := u.Query()
	q.Set("user", role)
	u.Path, u.RawQuery = "/"+database, q.Encode()
	return u.String()
}

// TestPostgresOperations sets up a database with the commands of the document,
// backs it up, restores it, and runs the other statements.
func TestPostgresOperations(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	admin := openDB(t, "postgres", server)
	for _, s := range statements(command(t, "CREATE ROLE")) {
		execute(t, admin, s)
	}
	execute(t, admin, "CREATE DATABASE copy OWNER vault")
	address, copied := as(t, server, "vault", "vault"), as(t, server, "vault", "copy")
	key := vault.NewKey()
	store := must.Get(postgres.Open(t.Context(), address))(t)
	v, tenant := filled(t, store, key)

	dumpAndRestore(t, address, copied)
	restored, err := postgres.Open(t.Context(), copied)
	wantToken(t, restored, err, key, tenant)

	db := openDB(t, "postgres", address)
	var late, dead int
	if err := db.QueryRowContext(t.Context(), command(t, "SELECT count(*) FILTER")).Scan(&late, &dead); err != nil || late+dead != 0 {
		t.Errorf("jobs: %d late, %d given up, %v", late, dead, err)
	}
	checkActorQuery(t, db, v, tenant)
	execute(t, db, command(t, "ALTER TABLE vault_logs"))
}

// checkActorQuery reads a token as an application and looks up the entry.
func checkActorQuery(t *testing.T, db *sql.DB, v *vault.Vault, tenant uuid.UUID) {
	t.Helper()
	app := must.Get(v.Tenant(tenant).CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Leaked", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"},
	}))(t)
	c := must.Get(v.Authenticate(t.Context(), app.Key))(t)
	must.Get(c.GetToken(t.Context(), "kept"))(t)
	query := strings.NewReplacer("01980000-0000-7000-8000-000000000001", tenant.String(),
		"01980000-0000-7000-8000-000000000002", app.ID.String()).Replace(command(t, "SELECT to_timestamp"))
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var at time.Time
		var operation, entityType, entityID string
		must.Do(t, rows.Scan(&at, &operation, &entityType, &entityID))
		if age := time.Since(at); age.Abs() > time.Hour {
			t.Errorf("the entry is %v old", age)
		}
		got = append(got, operation+" "+entityType+" "+entityID)
	}
	if diff := cmp.Diff([]string{"read token kept"}, got); diff != "" || rows.Err() != nil {
		t.Errorf("entries of the application (-want +got), %v:\n%s", rows.Err(), diff)
	}
}

func dumpAndRestore(t *testing.T, from, to string) {
	t.Helper()
	must.Get(exec.LookPath("pg_dump"))(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", command(t, "pg_dump")+command(t, "pg_restore"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "DATABASE_URL="+from, "NEW_DATABASE_URL="+to)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestSQLiteBackup makes a backup while the vault is open and opens the copy.
func TestSQLiteBackup(t *testing.T) {
	t.Parallel()
	folder, key := t.TempDir(), vault.NewKey()
	path := filepath.Join(folder, "vault.db")
	store := must.Get(sqlite.Open(t.Context(), path))(t)
	_, tenant := filled(t, store, key)
	backup := filepath.Join(folder, "backup.db")
	execute(t, openDB(t, "sqlite", path), strings.Replace(command(t, "VACUUM INTO"), "backup.db", backup, 1))
	restored, err := sqlite.Open(t.Context(), backup)
	wantToken(t, restored, err, key, tenant)
}

// TestMasterKeyChange follows the steps of the document with two nodes, one of
// them a step behind.
func TestMasterKeyChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vault.db")
	old, next := vault.NewKey(), vault.NewKey()
	open := func() vault.Storage {
		store := must.Get(sqlite.Open(context.Background(), path))(t)
		return store
	}
	behind, tenant := filled(t, open(), old)
	for _, key := range []vault.AEAD{vault.JoinKeys(old, next), vault.JoinKeys(next, old)} {
		ahead, made := filled(t, open(), key)
		must.Match(t, "a node that is a step behind", must.Err(behind.Tenant(made).GetToken(t.Context(), "kept")), nil)
		must.Do(t, behind.Close())
		behind = ahead
	}
	must.Do(t, behind.RewrapDataKeys(t.Context()))
	wantToken(t, open(), nil, next, tenant)
	must.Fail(vault.Open(t.Context(), open(), old, nil))(t, "the old key", vault.ErrWrongKey)
}
