package cli_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// TestPostgres runs the commands that differ on PostgreSQL, in a temporary
// schema.
func TestPostgres(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), env: map[string]string{
		"TOKENVAULT_DB": pgtest.URL(t), "TOKENVAULT_MASTER_KEY": vault.NewKey().Text(), "TOKENVAULT_TENANT": "Acme", "TOKENVAULT_SCHEMA": pgtest.Schema(t), "USER": "jane",
	}}
	check := func(wantCode int, says string, args ...string) {
		t.Helper()
		if out, code := w.run(strings.NewReader(""), args...); code != wantCode || !strings.Contains(out, says) {
			t.Errorf("tokenvault %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), code, wantCode, says, out)
		}
	}
	check(0, `"state":"pending"`, "migrate", "status", "--json")
	check(1, "tokenvault migrate up", "token", "list")
	check(1, "the database has no vault", "doctor", "--egress-url", "")
	check(0, "ran ", "migrate", "up")
	check(0, `"state":"applied"`, "migrate", "status", "--json")
	check(0, "ran 0 migrations", "migrate", "up")
	check(0, "CREATE", "migrate", "sql")
	if out, code := w.run(nil, "migrate", "sql", "--pending"); code != 0 || out != "" {
		t.Errorf("nothing is pending: exit %d\n%s", code, out)
	}
	check(0, "Acme", "tenant", "create", "Acme")
	check(0, "Imported 2 rows: 2 created", "import", w.path("rows.csv", "id,data\na-1,x\na-2,y\n"), "--type", "token")
	check(0, "a-2", "token", "list")
	check(0, `{"tokens":2,`, "stats", "--json")
	check(0, "PostgreSQL ", "doctor", "--egress-url", "")
	check(0, "fsync is ", "doctor", "--egress-url", "")
	check(2, "pg_dump", "backup", "x.db")
	check(2, "--yes", "distribute")
	check(1, "citus", "distribute", "--yes")
	w.env["TOKENVAULT_DB"] = "postgres://127.0.0.1:1/nothing?sslmode=disable"
	check(1, "cannot be reached", "doctor", "--egress-url", "")
	w.env["TOKENVAULT_DB"] = "vault.db"
	check(2, "postgres:// URL", "distribute", "--yes")
}

// TestPrintedMigrationsRun runs the output of migrate sql, as an
// administrator would if the vault may not change the schema.
func TestPrintedMigrationsRun(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	w := &world{t: t, dir: t.TempDir(), env: map[string]string{"TOKENVAULT_DB": url}}
	db := must.Get(sql.Open("postgres", url))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), w.must("migrate", "sql")))(t)
	if out := w.must("migrate", "status"); strings.Contains(out, "pending") {
		t.Error(out)
	}
	if out := w.must("migrate", "up"); !strings.Contains(out, "ran 0 migrations") {
		t.Error(out)
	}
}
