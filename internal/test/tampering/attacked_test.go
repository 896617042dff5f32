//go:build !race

package tampering

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// attacked is a vault whose log is changed by SQL.
type attacked struct {
	*testing.T
	open    func() vault.Storage
	key     vault.AEAD
	clock   *vaulttest.Clock
	db      *sql.DB
	pg      bool
	v       *vault.Vault
	owners  []*vault.Owner
	anchors []vault.Anchor
	retain  time.Duration // Config.LogRetention
	heard   alarms
	config  func(*vault.Config) // may be nil
	gate    *keygate.Gate       // of the database; may be nil
	keys    map[string][]string // the columns of the primary key of each table, once they are known
}

// schemas lends schemas with the tables of a vault.
var schemas = pgtest.Schemas{Keep: "vault_migrations", On: pgtest.Own, Fill: func(tb testing.TB, address string) {
	must.Get(postgres.OpenOptions(tb.Context(), address, &postgres.Options{Migrate: storage.MigrateOnly}))(tb)
}}

// attack runs a test on both databases.
func attack(t *testing.T, test func(*attacked)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		a := &attacked{T: t}
		path := filepath.Join(t.TempDir(), "vault.db")
		a.open = func() vault.Storage { return onDisk(t, path) }
		a.start("sqlite", path+"?_pragma=busy_timeout(10000)")
		test(a)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		a := &attacked{T: t, pg: true}
		address := schemas.URL(t)
		a.open = func() vault.Storage {
			return must.Get(postgres.Open(context.WithoutCancel(t.Context()), address))(t)
		}
		a.start("postgres", address)
		test(a)
	})
}

func (a *attacked) start(driver, address string) {
	a.Helper()
	a.key, a.clock = vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	a.node(nil)
	a.Cleanup(func() { _ = a.v.Close() })
	a.db = must.Get(sql.Open(driver, address))(a)
	a.Cleanup(func() { _ = a.db.Close() })
	for range 2 {
		a.owners = append(a.owners, a.v.Tenant(tenantOf(a, a.v).TenantID()))
	}
}

// node closes the vault and opens it again, with an alarm callback.
func (a *attacked) node(alarm func(vault.Alarm)) {
	a.Helper()
	must.Do(a, a.reopen(alarm))
}

// reopen is node for a database on which a vault may refuse to open.
func (a *attacked) reopen(alarm func(vault.Alarm)) error {
	a.Helper()
	if a.v != nil {
		_ = a.v.Close()
	}
	cfg := vault.Config{
		Now: a.clock.Now, SweepEvery: -1, WorkEvery: -1, LogRetention: a.retain, Observer: &a.heard,
		Evidence: &vault.EvidenceConfig{Every: -1, OnAlarm: alarm, Anchors: a.anchors},
	}
	if a.config != nil {
		a.config(&cfg)
	}
	v, err := vault.Open(context.WithoutCancel(a.Context()), a.open(), a.key, &cfg)
	if err != nil {
		return err
	}
	if cfg.Evidence != nil {
		unpaced(v)
	}
	if a.v = v; a.gate != nil {
		a.gate.Use(core.CallerOf(v.Tenant(uuid.UUID{}).Client))
	}
	for i, o := range a.owners {
		a.owners[i] = v.Tenant(o.TenantID())
	}
	return nil
}

// bind numbers the placeholders of a statement for PostgreSQL.
func (a *attacked) bind(text string) string {
	for n := 1; a.pg && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
	}
	return text
}

func (a *attacked) exec(text string) {
	a.Helper()
	if _, err := a.db.ExecContext(a.Context(), text); err != nil {
		a.Fatalf("%s: %v", text, err)
	}
}

// mustVerify signs everything and fails the test if verification finds a
// difference.
func (a *attacked) mustVerify() {
	a.Helper()
	if report := settled(a, a.v); len(report.Findings) > 0 {
		a.Fatalf("nobody has changed anything: %+v", report.Findings)
	}
}

// logKeys are the tables of the log with the columns of their keys.
var logKeys = map[string][]string{
	"vault_logs": {"tenant_id", "id"}, "vault_log_leaves": {"tenant_id", "first"}, "vault_log_trees": {"tenant_id"},
	"vault_log_nodes": {"tenant_id", "level", "n"}, "vault_log_events": {"tenant_id", "n"}, "vault_log_checkpoints": {"tenant_id", "size"},
}

// logRow is a row of a table. Its keys are the columns of the table's primary key in
// this database.
type logRow struct {
	table  string
	keys   []string
	names  []string
	values []any
}

func (r *logRow) with(i int, value any) *logRow {
	values := slices.Clone(r.values)
	values[i] = value
	return &logRow{r.table, r.keys, r.names, values}
}

func (r *logRow) isKey(i int) bool { return slices.Contains(r.keys, r.names[i]) }

// keysOf returns the columns that identify a row of a table.
func (a *attacked) keysOf(table string) []string {
	a.Helper()
	if keys, ok := logKeys[table]; ok {
		return keys
	}
	if a.keys == nil {
		a.tables()
	}
	return a.keys[table]
}

// tables returns the tables of the schema.
func (a *attacked) tables() (all []string) {
	a.Helper()
	query := `SELECT m.name, group_concat(c.name, ',') FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name LIKE 'vault_%' AND c.pk > 0 GROUP BY m.name ORDER BY m.name`
	if a.pg {
		query = `SELECT c.relname, string_agg(t.attname, ',' ORDER BY t.attnum) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
			JOIN pg_attribute t ON t.attrelid = c.oid AND t.attnum = ANY(i.indkey)
			WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace AND c.relname LIKE 'vault_%' GROUP BY c.relname ORDER BY c.relname`
	}
	rows := must.Get(a.db.QueryContext(a.Context(), query))(a)
	defer rows.Close()
	a.keys = map[string][]string{}
	for rows.Next() {
		var name, keys string
		must.Do(a, rows.Scan(&name, &keys))
		all = append(all, name)
		a.keys[name] = strings.Split(keys, ",")
	}
	must.Do(a, rows.Err())
	return all
}

// entry returns the id of the entry; zero for a row of another table.
func (r *logRow) entry() uuid.UUID {
	if r.table != "vault_logs" {
		return uuid.UUID{}
	}
	id, _ := uuid.FromBytes(r.values[slices.Index(r.names, "id")].([]byte))
	return id
}

// rows returns the rows of a table that a condition selects.
func (a *attacked) rows(table, condition string, args ...any) (all []*logRow) {
	a.Helper()
	keys := a.keysOf(table)
	rows := must.Get(a.db.QueryContext(a.Context(), a.bind("SELECT * FROM "+table+" "+condition), args...))(a)
	defer rows.Close()
	names := must.Get(rows.Columns())(a)
	types := must.Get(rows.ColumnTypes())(a)
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		must.Do(a, rows.Scan(into...))
		for i, value := range values {
			if b, ok := value.([]byte); ok && a.pg && types[i].DatabaseTypeName() != "BYTEA" {
				values[i] = string(b)
			}
		}
		all = append(all, &logRow{table, keys, names, values})
	}
	must.Do(a, rows.Err())
	return all
}

// blobs returns the columns of the rows' tables in SQLite that have bytes, and never
// NULL.
func (a *attacked) blobs(of []*logRow) map[string][]string {
	all := map[string][]string{}
	for _, r := range of {
		if _, ok := all[r.table]; ok || a.pg {
			continue
		}
		var names string
		query := `SELECT coalesce(group_concat(name, ','), '') FROM pragma_table_info(?) WHERE type = 'BLOB' AND "notnull"`
		must.Do(a, a.db.QueryRowContext(a.Context(), query, r.table).Scan(&names))
		all[r.table] = strings.Split(names, ",")
	}
	return all
}

// replace replaces rows by others, and reports whether the database allowed it.
func (a *attacked) replace(old, now []*logRow) bool {
	a.Helper()
	blobs := a.blobs(now)
	tx := must.Get(a.db.BeginTx(context.WithoutCancel(a.Context()), nil))(a)
	defer func() { _ = tx.Rollback() }()
	prepared := map[string]*sql.Stmt{}
	run := func(text string, args []any) (_ sql.Result, err error) {
		if prepared[text] == nil {
			if prepared[text], err = tx.PrepareContext(a.Context(), a.bind(text)); err != nil { //nolint:sqlclosecheck // the transaction closes it
				return nil, err
			}
		}
		return prepared[text].ExecContext(a.Context(), args...)
	}
	for _, r := range old {
		where, args := []string{}, []any{}
		for i, name := range r.names {
			if r.isKey(i) {
				where, args = append(where, name+" = ?"), append(args, r.values[i])
			}
		}
		result := must.Get(run("DELETE FROM "+r.table+" WHERE "+strings.Join(where, " AND "), args))(a)
		if n, _ := result.RowsAffected(); n != 1 {
			a.Fatalf("%d rows of %s are deleted", n, r.table)
		}
	}
	for _, r := range now {
		places := strings.TrimSuffix(strings.Repeat("?, ", len(r.names)), ", ")
		if !a.pg { // the driver reads an empty value as NULL
			all := strings.Split(places, ", ")
			for i, name := range r.names {
				if slices.Contains(blobs[r.table], name) {
					all[i] = "coalesce(?, x'')"
				}
			}
			places = strings.Join(all, ", ")
		}
		if _, err := run("INSERT INTO "+r.table+" ("+strings.Join(r.names, ", ")+") VALUES ("+places+")", r.values); err != nil {
			return false
		}
	}
	return tx.Commit() == nil
}

// otherValues returns the values that a column may be changed to: every byte of it
// flipped, the lowest and the highest, other numbers, and NULL.
func otherValues(value any) (all []any) {
	switch v := value.(type) {
	case int64:
		for _, n := range []int64{v + 1, v ^ 1<<20, 0, -1, math.MinInt64, math.MaxInt64} {
			if n != v {
				all = append(all, n)
			}
		}
	case string:
		for i := range len(v) {
			b := []byte(v)
			b[i] ^= 1
			all = append(all, string(b))
		}
	case []byte:
		for i := range v {
			b := slices.Clone(v)
			b[i] ^= 1
			all = append(all, b)
		}
		for _, b := range []byte{0, 0xff} {
			if last := bytes.Repeat([]byte{b}, len(v)); !bytes.Equal(last, v) {
				all = append(all, last)
			}
		}
	case nil:
		return []any{"x", []byte("0123456789abcdef"), int64(1)}
	}
	return append(all, nil)
}

// double returns the same row under another key.
func (r *logRow) double() *logRow {
	last := slices.Index(r.names, r.keys[len(r.keys)-1])
	switch v := r.values[last].(type) {
	case int64:
		return r.with(last, v+1_000_000)
	case []byte:
		key := slices.Clone(v)
		key[len(key)-1] ^= 0x80
		return r.with(last, key)
	}
	return r
}

// settled signs a checkpoint over everything that is committed, and verifies the log
// in place. On PostgreSQL a transaction of another test may hold entries back, so
// that neither the tree nor the verification sees them yet.
func settled(t testing.TB, v *vault.Vault) *evidence.Report {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		must.Get(v.Checkpoint(t.Context()))(t)
		status := must.Get(v.EvidenceStatus())(t)
		report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
		if status.Pending == 0 && !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool { return f.Verdict == evidence.Unsequenced }) {
			return report
		}
		<-tick.C
	}
}

// mustVerifyExpired is mustVerify for a log with expired entries.
func (a *attacked) mustVerifyExpired() {
	a.Helper()
	if report := settled(a, a.v); !report.OK() {
		a.Fatalf("nobody has changed anything: %+v", report.Findings)
	}
}

// kept is what an auditor has from before the tampering.
type kept struct {
	key           string
	vault, tenant []byte // signed notes
}

// keep returns what an auditor of a tenant has now.
func (a *attacked) keep(o *vault.Owner) kept {
	a.Helper()
	note := must.Get(a.v.Checkpoint(a.Context()))(a)
	key := must.Get(a.v.EvidenceKey())(a)
	rows := a.rows("vault_logs", "WHERE tenant_id = ? ORDER BY id", binary(o.TenantID()))
	proof := must.Get(o.LogProof(a.Context(), rows[len(rows)-1].entry()))(a)
	_, tenant, ok := bytes.Cut(proof, []byte("\n\n"))
	if !ok {
		a.Fatalf("a proof without a note: %s", proof)
	}
	return kept{key, note, tenant}
}

func binary(id uuid.UUID) []byte { return id[:] }

// inPlace reports what the vault itself has found, or an empty text.
func inPlace(t testing.TB, v *vault.Vault) string {
	t.Helper()
	report, err := v.VerifyLogs(t.Context(), nil)
	if err != nil {
		return err.Error()
	}
	s, err := v.EvidenceStatus()
	if err != nil {
		return err.Error()
	}
	if !report.OK() {
		return fmt.Sprint(report.Findings)
	}
	return s.Suspended
}

// bundle returns the exported evidence of a tenant, or nil if the export fails.
func bundle(t testing.TB, o *vault.Owner) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := o.ExportEvidence(t.Context(), &out); err != nil {
		return nil
	}
	return out.Bytes()
}

// offline reports whether a bundle verifies.
func offline(bundle []byte, key string, since []byte) bool {
	report, err := evidence.Verify(bytes.NewReader(bundle), key, since)
	return bundle != nil && err == nil && report.OK()
}

// change runs a statement with the tenant as its last argument.
func (a *attacked) change(o *vault.Owner, text string, args ...any) {
	a.Helper()
	if _, err := a.db.ExecContext(a.Context(), a.bind(text), append(args, binary(o.TenantID()))...); err != nil {
		a.Fatalf("%s: %v", text, err)
	}
}

// idAt returns an id as the vault gives it to an entry.
func idAt(at time.Time) uuid.UUID {
	id, ms := uuid.New(), at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	return id
}

// set returns the row with other values.
func (r *logRow) set(values map[string]any) *logRow {
	for name, value := range values {
		r = r.with(slices.Index(r.names, name), value)
	}
	return r
}

// put inserts rows, and waits until no transaction of another test hides entries
// from the vault.
func (a *attacked) put(rows ...*logRow) {
	a.Helper()
	if !a.replace(nil, rows) {
		a.Fatal("the rows cannot be inserted")
	}
	if !a.pg {
		return
	}
	eventually(a, "all entries are visible", func() (visible bool) {
		row := a.db.QueryRowContext(a.Context(), `SELECT max(xid) < txid_snapshot_xmin(txid_current_snapshot()) FROM vault_logs`)
		must.Do(a, row.Scan(&visible))
		return visible
	})
}

// putBack saves the rows of a tenant, and returns a function that brings them
// back, in the place of the present ones.
func (a *attacked) putBack(o *vault.Owner, tables ...string) (restore func()) {
	a.Helper()
	var saved []*logRow
	for _, table := range tables {
		saved = append(saved, a.rows(table, "WHERE tenant_id = ?", binary(o.TenantID()))...)
	}
	return func() {
		a.Helper()
		for _, table := range tables {
			a.change(o, "DELETE FROM "+table+" WHERE tenant_id = ?")
		}
		a.put(saved...)
	}
}

// drops makes a trigger that drops writes to the rows of a table that a condition on
// the old or new row selects. It returns a function that removes the trigger.
func (a *attacked) drops(event, table, condition string) (restore func()) {
	a.Helper()
	row := "OLD."
	if event == "INSERT" {
		row = "NEW."
	}
	when := ""
	if condition != "" {
		when = " WHEN (" + row + condition + ")"
	}
	name := "drops_" + strings.ToLower(event) + "_" + table
	if !a.pg {
		a.exec("CREATE TRIGGER " + name + " BEFORE " + event + " ON " + table + when + " BEGIN SELECT RAISE(IGNORE); END")
		return func() { a.exec("DROP TRIGGER " + name) }
	}
	a.exec("CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
	a.exec("CREATE TRIGGER " + name + " BEFORE " + event + " ON " + table + " FOR EACH ROW" + when + " EXECUTE FUNCTION " + name + "()")
	return func() { a.exec("DROP FUNCTION " + name + " CASCADE") }
}

// refuses makes a trigger that lets the inserts into a table fail that a condition on the
// new row selects. It returns a function that removes the trigger.
func (a *attacked) refuses(table, condition string) (restore func()) {
	a.Helper()
	when := " WHEN (NEW." + condition + ") "
	if !a.pg {
		a.exec("CREATE TRIGGER refuses BEFORE INSERT ON " + table + when + "BEGIN SELECT RAISE(ABORT, 'refused'); END")
		return func() { a.exec("DROP TRIGGER refuses") }
	}
	a.exec("CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END'")
	a.exec("CREATE TRIGGER refuses BEFORE INSERT ON " + table + " FOR EACH ROW" + when + "EXECUTE FUNCTION refuses()")
	return func() { a.exec("DROP FUNCTION refuses CASCADE") }
}

// literal returns bytes as they are written in SQL.
func (a *attacked) literal(b []byte) string {
	if a.pg {
		return fmt.Sprintf("'\\x%x'::bytea", b)
	}
	return fmt.Sprintf("X'%x'", b)
}

// evidence returns the size of the vault's tree.
func (a *attacked) evidence() int64 {
	a.Helper()
	return must.Get(a.v.EvidenceStatus())(a).Size
}
