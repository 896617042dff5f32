package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// beside opens the file of a vault as an application does.
func beside(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func schemaOf(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows := must.Get(db.Query(catalogText))(t)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		must.Do(t, rows.Scan(&one))
		all = append(all, one)
	}
	must.Do(t, rows.Err())
	return all
}

// TestBesideAnApplication opens a file in which an application has tables with
// obvious names, and its own table of migrations.
func TestBesideAnApplication(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := beside(t, path)
	for _, table := range []string{"tokens", "logs", "jobs", "records", "claims", "schema_version"} {
		must.Get(db.Exec(`CREATE TABLE ` + table + ` (x INTEGER); INSERT INTO ` + table + ` VALUES (3)`))(t)
	}
	write(t, open(t, path), insert(token("a")))
	for _, line := range schemaOf(t, db) {
		kind, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, " ")
		theirs := kind == "table" && strings.HasSuffix(line, "(x INTEGER)")
		if !theirs && !strings.HasPrefix(name, "vault_") && !strings.HasPrefix(name, "sqlite_") {
			t.Errorf("the vault has created %s", name)
		}
	}
	var n, sum int
	if err := db.QueryRow(`SELECT count(*), sum(x) FROM schema_version`).Scan(&n, &sum); err != nil || n != 1 || sum != 3 {
		t.Errorf("the application's table has %d rows (%v), want its own", n, err)
	}
}

func TestTakenNamesAreRejected(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string]string{
		"vault_jobs":       `CREATE TABLE Vault_Jobs (x INTEGER)`,
		"vault_tokens_set": `CREATE TABLE theirs (x INTEGER); CREATE INDEX vault_tokens_set ON theirs (x)`,
		"vault_migrations": `CREATE TABLE vault_migrations (version INTEGER)`,
	} {
		path := newPath(t)
		db := beside(t, path)
		must.Get(db.Exec(theirs))(t)
		before := schemaOf(t, db)
		_, err := Open(t.Context(), path)
		if !errors.Is(err, storage.ErrNameTaken) || !strings.HasSuffix(err.Error(), " "+name) {
			t.Errorf("%s: got %v", name, err)
		}
		must.Same(t, name+": the database has changed", before, schemaOf(t, db))
	}
}

func TestMigrateModes(t *testing.T) {
	t.Parallel()
	with := func(path string, mode storage.MigrateMode) (*Store, error) {
		return OpenOptions(t.Context(), path, &Options{Migrate: mode})
	}
	byHand, byOnly := newPath(t), newPath(t)
	must.Fail(with(byHand, storage.MigrateCheck))(t, "an empty file", storage.ErrOldSchema)
	db := beside(t, byHand)
	for _, m := range Migrations() {
		if _, err := db.Exec(m.SQL); err != nil {
			t.Fatalf("migration %d: %v", m.Version, err)
		}
		var version, ids int
		err := db.QueryRow(`SELECT max(version), count(DISTINCT vault_id) FROM vault_migrations`).Scan(&version, &ids)
		if err != nil || version != m.Version || ids != 1 {
			t.Errorf("after migration %d: version %d, %d ids (%v)", m.Version, version, ids, err)
		}
	}
	only := must.Get(with(byOnly, storage.MigrateOnly))(t)
	must.Match(t, "a write after MigrateOnly", only.Write(context.Background(), insert(token("a"))), storage.ErrClosed)
	for _, path := range []string{byHand, byOnly} {
		s := must.Get(with(path, storage.MigrateCheck))(t)
		write(t, s, insert(token("a")))
		must.Do(t, s.Close())
	}
}
