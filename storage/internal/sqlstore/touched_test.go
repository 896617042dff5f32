package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// The tokens of TestRowsTouched, by their number. One is created each
// millisecond. The first of 10 has the hash tenth, and so on. The second of 10
// has alsoTenth, and all except the first of 10 have the hash most. One of 1,000
// was modified, in the minute before sometime. Of 1,000 log entries one is a
// deletion, and another is about an application.
var (
	tenth, alsoTenth, hundredth, thousandth, most = storage.Hash{0xa1}, storage.Hash{0xa2}, storage.Hash{0xa3}, storage.Hash{0xa4}, storage.Hash{0xa5}

	loadedFrom = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	sometime   = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
)

// loading has the statements that create $n tokens with a log entry each, for
// SQLite. $series yields their numbers as i, and $blob(...) converts
// hexadecimal digits to bytes. One in 5,000 has expired.
var loading = []string{
	`INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev, expires_at, modified_at)
		SELECT $tenant, $ord, 'token ' || i, CASE WHEN i % 4 = 0 THEN 'card' ELSE 'token' END, $set, '/set/', $blob($hex(i)), $set,
		$blob(''), 1, $blob('00'), ($from + i) * 1000, 1, CASE WHEN i % 5000 = 77 THEN 1 END,
		CASE WHEN i % 1000 = 0 THEN $modified + i END FROM $series`,
	// Tenants on both sides, whose tokens no list may reach.
	`INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev)
		SELECT $blob(h.hash), t.ord, t.id, t.type, t.set_id, t.containers, t.fingerprint, t.expression, t.hashes, 1, t.body, t.created_at, 1
		FROM (SELECT * FROM vault_tokens LIMIT 15000) t, (SELECT '00$ffff' AS hash UNION ALL SELECT 'ff$ffff') h`,
	`INSERT INTO vault_token_hashes (tenant_id, hash, ord) SELECT $tenant, $blob(h.hash), $ord FROM $series, (SELECT 10 AS every, 0 AS first, '$tenth' AS hash
		UNION ALL SELECT 10, 1, '$alsoTenth' UNION ALL SELECT 100, 0, '$hundredth' UNION ALL SELECT 1000, 0, '$thousandth') h WHERE i % h.every = h.first`,
	`INSERT INTO vault_token_hashes (tenant_id, hash, ord) SELECT $tenant, $blob('$most'), $ord FROM $series WHERE i % 10 <> 0`,
	`INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) SELECT tenant_id, set_id, type, 0, count(*) FROM vault_tokens GROUP BY tenant_id, set_id, type`,
	`INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message$seqColumn)
		SELECT $tenant, $ord, ($from + i) * 1000, 'user', CASE WHEN i % 4 = 0 THEN 'card' WHEN i % 1000 = 5 THEN 'application' ELSE 'token' END,
		'token ' || i, CASE WHEN i % 1000 = 3 THEN 'delete' ELSE 'create' END, ''$seqValue FROM $series`,
	`INSERT INTO vault_log_counts (tenant_id, entity_type, day, n$ranges) SELECT tenant_id, entity_type, created_at / 86400000000, count(*)$minmax
		FROM vault_logs GROUP BY tenant_id, entity_type, created_at / 86400000000`,
}

// loader adapts the statements of loading to a database.
func loader(n int, pairs ...string) *strings.Replacer {
	hash := func(h storage.Hash) string { return fmt.Sprintf("%x", h[:]) }
	return strings.NewReplacer(slices.Concat(pairs, []string{
		"$ffff", strings.Repeat("f", 30), "$from", strconv.FormatInt(loadedFrom.UnixMilli(), 10), "$n", strconv.Itoa(n),
		"$modified", strconv.FormatInt(sometime.Add(-time.Minute).UnixMicro(), 10),
		"$tenth", hash(tenth), "$alsoTenth", hash(alsoTenth), "$hundredth", hash(hundredth), "$thousandth", hash(thousandth), "$most", hash(most),
	})...)
}

// loaded are the tables that loading fills.
var loaded = []string{"vault_tokens", "vault_token_hashes", "vault_token_counts", "vault_logs", "vault_log_counts"}

func setOf(i int) (set storage.Hash) {
	set[0], set[15] = 0x5e, byte(i)
	return set
}

// recorder records the queries of its connections.
type recorder struct {
	sqldriver.Connector
	mu      sync.Mutex
	queries []recorded
}

type recorded struct {
	text     string
	args     []sqldriver.NamedValue
	prepared bool
}

func (r *recorder) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	return &recordedConn{Conn: conn, to: r}, err
}

func (r *recorder) record(q recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, q)
}

func (r *recorder) take() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	queries := r.queries
	r.queries = nil
	return queries
}

type recordedConn struct {
	sqldriver.Conn
	to *recorder
}

func (c *recordedConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.to.record(recorded{text: query, args: slices.Clone(args)})
	return c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *recordedConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *recordedConn) PrepareContext(ctx context.Context, query string) (sqldriver.Stmt, error) {
	stmt, err := c.Conn.(sqldriver.ConnPrepareContext).PrepareContext(ctx, query)
	return &recordedStmt{Stmt: stmt, text: query, to: c.to}, err
}

type recordedStmt struct {
	sqldriver.Stmt
	text string
	to   *recorder
}

func (s *recordedStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s.to.record(recorded{text: s.text, args: slices.Clone(args), prepared: true})
	return s.Stmt.(sqldriver.StmtQueryContext).QueryContext(ctx, args)
}

func (s *recordedStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return s.Stmt.(sqldriver.StmtExecContext).ExecContext(ctx, args)
}

func (c *recordedConn) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	return c.Conn.(sqldriver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *recordedConn) CheckNamedValue(v *sqldriver.NamedValue) error {
	if checker, ok := c.Conn.(sqldriver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return sqldriver.ErrSkip
}

// shelf is a database with many tokens, and a way to measure the cost of a
// query.
type shelf struct {
	store *Store
	to    *recorder
	// work returns how many rows a query touches, or a multiple of that.
	work func(t *testing.T, q recorded) int
	// each is the work allowed for each row that must be touched.
	each int
	// knowing has the statistics that the database plans with, one after the
	// other.
	knowing []knowing
}

// knowing is a state of the statistics of a database.
type knowing struct {
	name string
	set  func()
}

func newShelf(t *testing.T, connector sqldriver.Connector, name, migrations string, d Dialect, load func(*sqlx.DB)) *shelf {
	t.Helper()
	s := &shelf{to: &recorder{Connector: connector}}
	db := sqlx.NewDb(sql.OpenDB(s.to), name)
	t.Cleanup(func() { _ = db.Close() })
	all := must.Get(ReadMigrations(os.DirFS(migrations)))(t)
	for _, m := range all {
		db.MustExec(m.SQL)
	}
	load(db)
	s.store = must.Get(New(t.Context(), db, d))(t)
	t.Cleanup(s.store.Close)
	return s
}

type sqliteConnector string

func (c sqliteConnector) Connect(context.Context) (sqldriver.Conn, error) {
	return c.Driver().Open(string(c))
}

func (sqliteConnector) Driver() sqldriver.Driver { return &sqlite.Driver{} }

func sqliteShelf(t *testing.T, tokens int) *shelf {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	to := loader(tokens, "$tenant", "x'01000000000000000000000000000000'", "$blob", "unhex", "$hex(i)", "printf('%064x', i)",
		"$ord", fmt.Sprintf("unhex(printf('%%012x70008%%015x', %d + i, i))", loadedFrom.UnixMilli()),
		"$set", "unhex(printf('5e%030x', i % 10))", "$series", "(WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < $n) SELECT i FROM s)",
		"$seqColumn", ", seq", "$seqValue", ", i", "$ranges", ", first_id, last_id", "$minmax", ", min(id), max(id)")
	d := Dialect{Prepared: true, Conns: 1, LogsByType: true, CheckTenantLast: true, ID: func(id storage.ID) any { return id[:] },
		In: func(column string, values []any) (string, []any) {
			return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", values
		}}
	s := newShelf(t, sqliteConnector("file:"+path+"?_pragma=synchronous(off)&_pragma=journal_mode(wal)"), "sqlite", "../../sqlite/migrations", d, func(db *sqlx.DB) {
		for _, statement := range loading {
			// Replace twice, because series and ord contain placeholders.
			db.MustExec(to.Replace(to.Replace(statement)))
		}
	})
	s.knowing = []knowing{{"as usual", func() {}}}
	s.each, s.work = 70, func(t *testing.T, q recorded) int { t.Helper(); return sqliteSteps(t, path, q) }
	return s
}

// sqliteSteps returns how many steps SQLite's virtual machine takes for a
// query.
func sqliteSteps(t *testing.T, path string, q recorded) int {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	ok := func(code int32) {
		t.Helper()
		if code != sqlite3.SQLITE_OK {
			t.Fatalf("code %d in %s", code, q.text)
		}
	}
	out := libc.Xmalloc(tls, 16)
	defer libc.Xfree(tls, out)
	pointer := func() uintptr { return uintptr(binary.NativeEndian.Uint64(libc.GoBytes(out, 8))) }
	text := func(s string) uintptr {
		p := must.Get(libc.CString(s))(t)
		return p
	}
	ok(sqlite3.Xsqlite3_open_v2(tls, text(path), out, sqlite3.SQLITE_OPEN_READWRITE, 0))
	db := pointer()
	defer func() { ok(sqlite3.Xsqlite3_close(tls, db)) }()
	ok(sqlite3.Xsqlite3_prepare_v2(tls, db, text(q.text), -1, out, 0))
	stmt := pointer()
	for _, arg := range q.args {
		at := int32(arg.Ordinal)
		switch v := arg.Value.(type) {
		case []byte:
			ok(sqlite3.Xsqlite3_bind_blob(tls, stmt, at, text(string(v)), int32(len(v)), 0))
		case string:
			ok(sqlite3.Xsqlite3_bind_text(tls, stmt, at, text(v), int32(len(v)), 0))
		case int64:
			ok(sqlite3.Xsqlite3_bind_int64(tls, stmt, at, v))
		default:
			t.Fatalf("an argument of type %T", v)
		}
	}
	for sqlite3.Xsqlite3_step(tls, stmt) == sqlite3.SQLITE_ROW {
	}
	steps := sqlite3.Xsqlite3_stmt_status(tls, stmt, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 0)
	ok(sqlite3.Xsqlite3_finalize(tls, stmt))
	return int(steps)
}

func postgresShelf(t *testing.T, tokens int) *shelf {
	t.Helper()
	connector, err := pq.NewConnector(pgtest.URL(t) + "&enable_seqscan=off&enable_bitmapscan=off") // as the backend does
	must.Do(t, err)
	to := loader(tokens, "$tenant", `'\x01000000000000000000000000000000'::bytea`, "$blob('')", `'\x'::bytea`, "$blob('00')", `'\x00'::bytea`,
		"$blob('$most')", `decode('$most', 'hex')`, "$blob(h.hash)", "decode(h.hash, 'hex')", "$blob($hex(i))", "decode(lpad(to_hex(i), 64, '0'), 'hex')",
		"$ord", fmt.Sprintf("decode(lpad(to_hex(%d + i), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'), 'hex')", loadedFrom.UnixMilli()),
		"$set", "decode('5e' || lpad(to_hex(i % 10), 30, '0'), 'hex')", "$series", "generate_series(0::bigint, $n - 1) AS s(i)", "$seqColumn", "", "$seqValue", "", "$ranges", "", "$minmax", "")
	d := Dialect{Prepared: true, PreparedLists: true, Lateral: true, Conns: 2, ID: func(id storage.ID) any { return id[:] }, In: postgresIn}
	s := newShelf(t, connector, "postgres", "../../postgres/migrations", d, func(db *sqlx.DB) {
		for _, table := range loaded {
			db.MustExec("ALTER TABLE " + table + " SET (autovacuum_enabled = false)")
		}
		for _, statement := range loading {
			db.MustExec(to.Replace(to.Replace(statement)))
		}
	})
	db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	all := strings.Join(loaded, ", ")
	move := func(from, to string) {
		for _, table := range loaded {
			db.MustExec(fmt.Sprintf(`UPDATE %s SET tenant_id = '\x%s' WHERE tenant_id = '\x%s'`, table, to, from))
		}
	}
	s.knowing = []knowing{
		{"never analyzed", func() {}},
		{"not vacuumed", func() { db.MustExec("ANALYZE " + all) }}, // so that reading only an index seems expensive
		{"analyzed", func() { db.MustExec("VACUUM ANALYZE " + all) }},
		{"analyzed before the tenant came", func() {
			tenant := fmt.Sprintf("%x", someTenant[:])
			move(tenant, "02")
			db.MustExec("ANALYZE " + all)
			move("02", tenant)
		}},
	}
	s.each, s.work = 8, func(t *testing.T, q recorded) int { t.Helper(); return postgresRows(t, db, q) }
	return s
}

func postgresIn(column string, values []any) (string, []any) {
	if _, ok := values[0].(string); ok {
		all, _ := pq.Array(values).Value()
		return column + " = ANY(?::text[])", []any{all}
	}
	var all pq.ByteaArray
	for _, v := range values {
		all = append(all, v.([]byte))
	}
	value, _ := all.Value()
	return column + " = ANY(?::bytea[])", []any{value}
}

type planNode struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []planNode
}

// postgresRows returns how many rows all scans of a query return or skip. For a
// prepared query it also uses the plan for unknown values.
func postgresRows(t *testing.T, db *sqlx.DB, q recorded) int {
	t.Helper()
	text, args := explained(t, db, q)
	rows := scannedRows(t, text)
	if q.prepared {
		rows = max(rows, scannedRows(t, explainGeneric(t, db, q.text, args)))
	}
	return rows
}

// explained runs a query and returns its plan and its arguments.
func explained(t *testing.T, db *sqlx.DB, q recorded) (text string, args []any) {
	t.Helper()
	args = make([]any, len(q.args))
	for i, arg := range q.args {
		args[i] = arg.Value
	}
	if err := db.Get(&text, explain+q.text, args...); err != nil {
		t.Fatalf("%v in %s", err, q.text)
	}
	return text, args
}

const explain = `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) `

// explainGeneric runs a query with the plan for any values.
func explainGeneric(t *testing.T, db *sqlx.DB, query string, args []any) (text string) {
	t.Helper()
	conn := must.Get(db.Connx(t.Context()))(t)
	defer func() { _ = conn.Close() }()
	literals := make([]string, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case []byte:
			literals[i] = fmt.Sprintf(`'\x%x'`, v)
		case string:
			literals[i] = pq.QuoteLiteral(v)
		default:
			literals[i] = fmt.Sprint(v)
		}
	}
	for _, statement := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE touched AS " + query} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v in %s", err, query)
		}
	}
	defer func() { _, _ = conn.ExecContext(t.Context(), "DEALLOCATE touched; RESET plan_cache_mode") }()
	if err := conn.GetContext(t.Context(), &text, explain+"EXECUTE touched ("+strings.Join(literals, ", ")+")"); err != nil {
		t.Fatalf("%v in %s", err, query)
	}
	return text
}

func scannedRows(t *testing.T, explained string) int {
	t.Helper()
	return int(sumScans(t, explained, func(n *planNode) float64 { return (n.Rows + n.Removed) * n.Loops }))
}

// sumScans adds up a number of each scan in a plan.
func sumScans(t *testing.T, explained string, of func(*planNode) float64) float64 {
	t.Helper()
	var plans []struct{ Plan planNode }
	must.Do(t, json.Unmarshal([]byte(explained), &plans))
	var sum func(n *planNode) float64
	sum = func(n *planNode) (total float64) {
		if strings.Contains(n.Type, "Scan") {
			total = of(n)
		}
		for i := range n.Plans {
			total += sum(&n.Plans[i])
		}
		return total
	}
	return sum(&plans[0].Plan)
}
