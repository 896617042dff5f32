package cli_test

import (
	"database/sql"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// TestPostgres runs the commands that differ on PostgreSQL, in a temporary
// schema.
func TestPostgres(t *testing.T) {
	t.Parallel()
	w := &toolVault{t: t, dir: t.TempDir(), env: map[string]string{
		"TOKENVAULT_DB": pgtest.URL(t), "TOKENVAULT_MASTER_KEY": vault.NewKey().Text(), "TOKENVAULT_TENANT": "Acme", "TOKENVAULT_SCHEMA": pgtest.Schema(t), "USER": "jane",
	}}
	w.says(0, `"state":"pending"`, "migrate", "status", "--json")
	w.says(1, "tokenvault migrate up", "token", "list")
	w.says(1, "the database has no vault", "doctor", "--egress-url", "")
	w.says(0, "ran ", "migrate", "up")
	w.says(0, `"state":"applied"`, "migrate", "status", "--json")
	w.says(0, "ran 0 migrations", "migrate", "up")
	w.says(0, "CREATE", "migrate", "sql")
	must.Same(t, "pending", "", w.must("migrate", "sql", "--pending"))
	w.says(0, "Acme", "tenant", "create", "Acme")
	w.says(0, "Imported 2 rows: 2 created", "import", w.path("rows.csv", "id,data\na-1,x\na-2,y\n"), "--type", "token")
	w.says(0, "a-2", "token", "list")
	w.says(0, `{"tokens":2,`, "stats", "--json")
	w.says(0, "PostgreSQL ", "doctor", "--egress-url", "")
	w.says(0, "fsync is ", "doctor", "--egress-url", "")
	w.says(2, "pg_dump", "backup", "x.db")
	w.says(2, "--yes", "distribute")
	w.says(1, "citus", "distribute", "--yes")
	w.env["TOKENVAULT_DB"] = "postgres://127.0.0.1:1/nothing?sslmode=disable"
	w.says(1, "cannot be reached", "doctor", "--egress-url", "")
	w.env["TOKENVAULT_DB"] = "vault.db"
	w.says(2, "postgres:// URL", "distribute", "--yes")
}

// TestPrintedMigrationsRun runs the output of migrate sql, as an
// administrator would if the vault may not change the schema.
func TestPrintedMigrationsRun(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := &toolVault{t: t, dir: t.TempDir(), env: map[string]string{"TOKENVAULT_DB": url}}
	db := must.Get(sql.Open("postgres", url))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), w.must("migrate", "sql")))(t)
	must.Lack(t, "migrate status", w.must("migrate", "status"), "pending")
	must.Contain(t, "migrate up", w.must("migrate", "up"), "ran 0 migrations")
}
