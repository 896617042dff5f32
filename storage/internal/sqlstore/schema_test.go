package sqlstore_test

import (
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

var update = flag.Bool("update", false, "write the golden schema")

// TestSchema compares the tables, columns and indexes that the migrations of each
// backend create with the golden schema. A migration that databases have run must
// not change; a later one adds to the schema.
func TestSchema(t *testing.T) {
	t.Parallel()
	const golden = "testdata/schema.txt"
	path, address := filepath.Join(t.TempDir(), "vault.db"), pgtest.URL(t)
	text := "# SQLite\n" + described(t, "sqlite", path, sqlite.Migrations(), `
		SELECT t.name || '.' || c.name || ' ' || lower(c.type) || CASE WHEN c."notnull" OR c.pk > 0 THEN ' not null' ELSE '' END
			|| coalesce(' default ' || c.dflt_value, '') || CASE WHEN c.pk > 0 THEN ' key ' || c.pk ELSE '' END
		FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name LIKE 'vault%'
		UNION ALL SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`)
	text += "\n# PostgreSQL\n" + described(t, "postgres", address, postgres.Migrations(""), `
		SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
			|| coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
			|| coalesce(' key ' || array_position(k.conkey, a.attnum), '') || CASE WHEN a.attstorage <> t.typstorage THEN ' storage ' || a.attstorage::text ELSE '' END
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 JOIN pg_type t ON t.oid = a.atttypid
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
		UNION ALL SELECT replace(pg_get_indexdef(i.indexrelid), current_schema() || '.', '') || coalesce(' with ' || array_to_string(c.reloptions, ','), '')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisprimary
		UNION ALL SELECT c.relname || ' with ' || array_to_string(c.reloptions, ',') FROM pg_class c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.reloptions IS NOT NULL`)
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	must.Same(t, "the schema; go test -run TestSchema -update writes it", string(must.Get(os.ReadFile(golden))(t)), text)
}

// described runs migrations, and returns the lines of a query for the schema.
func described(t *testing.T, driver, address string, all []storage.Migration, query string) string {
	t.Helper()
	db := must.Get(sql.Open(driver, address))(t)
	defer db.Close()
	for _, m := range all {
		must.Get(db.ExecContext(t.Context(), m.SQL))(t)
	}
	rows := must.Get(db.QueryContext(t.Context(), query))(t)
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		must.Do(t, rows.Scan(&line))
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	must.Do(t, rows.Err())
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
