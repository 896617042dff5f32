package cli_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// On a database of a version without prefixes, doctor and migrate say what serve
// says.
func TestFormerSchema(t *testing.T) {
	t.Parallel()
	for backend, driver := range map[string]string{"sqlite": "sqlite", "postgres": "postgres"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, local)
			path := filepath.Join(w.dir, "former.db")
			if backend == "postgres" {
				path = pgtest.URL(t)
			}
			script := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "..", "storage", "internal", "sqlstore", "testdata", "former.sql")))(t)
			db := must.Get(sql.Open(driver, path))(t)
			defer func() { _ = db.Close() }()
			must.Get(db.ExecContext(context.Background(), string(script)))(t)
			w.env["TOKENVAULT_DB"] = path
			const want = "the database has the tables of an earlier version that this program cannot read"
			for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"doctor", "--egress-url", ""}, {"migrate", "status"}, {"migrate", "sql", "--pending"}, {"migrate", "up"}} {
				if got, code := w.run(nil, args...); code != 1 || !strings.Contains(got, want) || strings.Contains(got, "migrate up") {
					t.Errorf("%s: exit %d, %s", strings.Join(args, " "), code, got)
				}
			}
		})
	}
}
