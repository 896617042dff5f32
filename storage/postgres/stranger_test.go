package postgres_test

import (
	"database/sql"
	"net/url"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// TestFunctionsOfStrangers opens databases in whose search path another role may
// create functions, as everybody may in the schema public of PostgreSQL 14. None of
// them may run, because it would run with the rights of the vault's role.
func TestFunctionsOfStrangers(t *testing.T) {
	t.Parallel()
	chapters := []string{"Model", "Queue", "Prune", "Trees"}
	for name, o := range map[string]*postgres.Options{"direct": nil, "pooled": {TransactionPooler: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evil := pgtest.URL(t)
			db := must.Get(sql.Open("postgres", evil))(t)
			defer db.Close()
			must.Get(db.ExecContext(t.Context(), traps))(t)
			var n int
			must.Do(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace").Scan(&n))
			b := backend(func(tb testing.TB) string { return inPath(tb, postgres.Vaults.URL(tb), pgtest.SchemaOf(tb, evil)) }, o)
			b.Chapters = chapters
			storagetest.Run(t, b)
			if t.Log(n, "traps"); n < 500 {
				t.Errorf("there are %d traps", n)
			}
		})
	}
}

// TestSettingsOfOthers opens databases with unusual settings of the role or of the
// database. They change neither what calls return nor its order.
func TestSettingsOfOthers(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"texts": {
			"standard_conforming_strings": "off", "bytea_output": "escape", "DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "TimeZone": "Asia/Kathmandu",
			"transform_null_equals": "on", "array_nulls": "off", "quote_all_identifiers": "on", "extra_float_digits": "-15", "row_security": "off",
		},
		"plans":    {"enable_hashjoin": "off", "enable_material": "off", "default_transaction_isolation": "serializable"},
		"costs":    {"cpu_operator_cost": "100", "session_replication_role": "replica"},
		"no costs": {"cpu_tuple_cost": "0", "default_transaction_isolation": "repeatable read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := backend(func(tb testing.TB) string {
				address := postgres.Vaults.URL(tb)
				for setting, value := range settings {
					address = with(tb, address, setting, value)
				}
				return address
			}, nil)
			b.Chapters = []string{"Model"}
			storagetest.Run(t, b)
		})
	}
}

// inPath adds a schema to the search path of an address.
func inPath(tb testing.TB, address, schema string) string {
	tb.Helper()
	u := must.Get(url.Parse(address))(tb)
	q := u.Query()
	q.Set("search_path", q.Get("search_path")+","+schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// traps creates the functions and operators of PostgreSQL that take values of any type
// again, for the types that the vault uses. PostgreSQL prefers them, although pg_catalog comes first in every search path.
const traps = `DO $do$
DECLARE
	anything oid[] := ARRAY['anyarray', 'anyelement', 'anynonarray', '"any"']::regtype[]::oid[];
	kinds text[] := '{bytea,text,bigint,integer,boolean,name,bytea[],text[],bigint[],integer[],boolean[],tid}';
	f record;
	k text;
	args text[];
BEGIN
	FOR f IN SELECT p.proname AS name, p.proargtypes::oid[] AS types, o.oprname AS operator
		FROM pg_proc p LEFT JOIN pg_operator o ON o.oprcode = p.oid AND o.oprleft <> 0
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.pronargs BETWEEN 1 AND 3 AND p.provariadic = 0
			AND p.proargtypes::oid[] && anything
			AND NOT p.proargtypes::oid[] && '{internal,anyenum,anyrange,anymultirange}'::regtype[]::oid[]
	LOOP
		FOREACH k IN ARRAY kinds LOOP
			SELECT pg_catalog.array_agg(CASE WHEN t = 'anyarray'::regtype AND k NOT LIKE '%[]' THEN k || '[]'
				WHEN t = ANY (anything) THEN k ELSE t::regtype::text END ORDER BY i)
				INTO args FROM pg_catalog.unnest(f.types) WITH ORDINALITY u(t, i);
			BEGIN
				EXECUTE format('CREATE FUNCTION %I(%s) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION ''a trap''; END $$',
					f.name, pg_catalog.array_to_string(args, ', '));
				IF f.operator IS NOT NULL THEN
					EXECUTE format('CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %I)', f.operator, args[1], args[2], f.name);
				END IF;
			EXCEPTION WHEN duplicate_function THEN NULL;
			END;
		END LOOP;
	END LOOP;
END $do$`
