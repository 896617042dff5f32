package vault_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
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
	was     []string  // the trees at the time of remember
	saved   []*logRow // all rows at that time
}

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
		address := pgtest.Alone(t)
		a.open = func() vault.Storage {
			store, err := postgres.Open(context.WithoutCancel(t.Context()), address)
			if err != nil {
				t.Fatal(err)
			}
			return store
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
	db, err := sql.Open(driver, address)
	if err != nil {
		a.Fatal(err)
	}
	a.db = db
	a.Cleanup(func() { _ = db.Close() })
	for range 2 {
		a.owners = append(a.owners, a.v.Tenant(tenantOf(a, a.v).TenantID()))
	}
}

// node closes the vault and opens it again, with an alarm callback.
func (a *attacked) node(alarm func(vault.Alarm)) {
	a.Helper()
	if err := a.reopen(alarm); err != nil {
		a.Fatal(err)
	}
}

// reopen is node for a database on which a vault may refuse to open.
func (a *attacked) reopen(alarm func(vault.Alarm)) error {
	a.Helper()
	if a.v != nil {
		_ = a.v.Close()
	}
	v, err := vault.Open(context.WithoutCancel(a.Context()), a.open(), a.key, &vault.Config{
		Now: a.clock.Now, SweepEvery: -1, WorkEvery: -1, LogRetention: a.retain, Observer: &a.heard,
		Evidence: &vault.EvidenceConfig{Every: -1, OnAlarm: alarm, Anchors: a.anchors},
	})
	if err != nil {
		return err
	}
	unpaced(v)
	a.v = v
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

// live performs random operations in two tenants, with checkpoints in between.
func (a *attacked) live(steps int) {
	a.Helper()
	ctx, random := a.Context(), rand.New(rand.NewPCG(7, 7)) // the same work each time
	var ids []string
	for i := range steps {
		c := a.owners[random.IntN(2)]
		var err error
		switch id := fmt.Sprint("token-", i); random.IntN(5) {
		case 0, 1:
			_, err = c.From("192.0.2.7").CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"})
			ids = append(ids, id)
		case 2:
			_, _ = c.GetToken(ctx, append(ids, "none")[random.IntN(len(ids)+1)])
		case 3:
			_, err = c.AsUser("jane").CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: visa})
		default:
			_, err = a.v.Checkpoint(ctx)
		}
		if err != nil {
			a.Fatal(err)
		}
	}
	a.mustVerify()
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

// logRow is a row of one of these tables.
type logRow struct {
	table  string
	names  []string
	values []any
}

func (r *logRow) with(i int, value any) *logRow {
	values := slices.Clone(r.values)
	values[i] = value
	return &logRow{r.table, r.names, values}
}

func (r *logRow) isKey(i int) bool { return slices.Contains(keysOf(r.table), r.names[i]) }

// keysOf returns the columns of a table's key.
func keysOf(table string) []string {
	if table == "vault_records" {
		return []string{"tenant_id", "kind", "id"}
	}
	return logKeys[table]
}

// entry returns the id of the entry; zero for a row of another table.
func (r *logRow) entry() uuid.UUID {
	if r.table != "vault_logs" {
		return uuid.UUID{}
	}
	id, _ := uuid.FromBytes(r.values[slices.Index(r.names, "id")].([]byte))
	return id
}

// logRows returns all rows of a table, in the order of their keys.
func (a *attacked) logRows(table string) []*logRow {
	a.Helper()
	return a.rows(table, "ORDER BY "+strings.Join(logKeys[table], ", "))
}

// rows returns the rows of a table that a condition selects.
func (a *attacked) rows(table, condition string, args ...any) (all []*logRow) {
	a.Helper()
	rows, err := a.db.QueryContext(a.Context(), a.bind("SELECT * FROM "+table+" "+condition), args...)
	if err != nil {
		a.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		a.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			a.Fatal(err)
		}
		all = append(all, &logRow{table, names, values})
	}
	if err := rows.Err(); err != nil {
		a.Fatal(err)
	}
	return all
}

// replace replaces rows by others, and reports whether the database allowed it.
func (a *attacked) replace(old, now []*logRow) bool {
	a.Helper()
	tx, err := a.db.BeginTx(context.WithoutCancel(a.Context()), nil)
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	prepared := map[string]*sql.Stmt{}
	run := func(text string, args []any) (sql.Result, error) {
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
		result, err := run("DELETE FROM "+r.table+" WHERE "+strings.Join(where, " AND "), args)
		if err != nil {
			a.Fatal(err)
		}
		if n, _ := result.RowsAffected(); n != 1 {
			a.Fatalf("%d rows of %s are deleted", n, r.table)
		}
	}
	for _, r := range now {
		places := strings.TrimSuffix(strings.Repeat("?, ", len(r.names)), ", ")
		if last := len(r.names) - 1; !a.pg && r.names[last] == "body" {
			places = places[:len(places)-1] + "coalesce(?, x'')" // the driver reads an empty value as NULL
		}
		if _, err := run("INSERT INTO "+r.table+" ("+strings.Join(r.names, ", ")+") VALUES ("+places+")", r.values); err != nil {
			return false
		}
	}
	return tx.Commit() == nil
}

// change is a manipulation of rows.
type change struct {
	what     string
	old, now []*logRow
	entries  []uuid.UUID // that findings must name
}

// otherValues returns the values that a column may be changed to: every byte of it
// flipped, other numbers, and NULL.
func otherValues(value any) (all []any) {
	switch v := value.(type) {
	case int64:
		all = append(all, v+1, v^1<<20)
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
	case nil:
		return []any{"x", []byte("0123456789abcdef"), int64(1)}
	}
	return append(all, nil)
}

// changes returns all manipulations to try on a table.
func (a *attacked) changes(table string) (all []change) {
	rows := a.logRows(table)
	for n, r := range rows {
		one, entries := []*logRow{r}, []uuid.UUID{r.entry()}
		for i, name := range r.names {
			for _, value := range otherValues(r.values[i]) {
				all = append(all, change{table + "." + name, one, []*logRow{r.with(i, value)}, entries})
			}
		}
		all = append(all, change{table + ": delete", one, nil, entries})
		double := r.double()
		all = append(all, change{table + ": duplicate", nil, []*logRow{double}, []uuid.UUID{double.entry()}})
		if n > 0 {
			all = append(all, swapRows(rows[n-1], r))
		}
	}
	return all
}

// double returns the same row under another key.
func (r *logRow) double() *logRow {
	keys := keysOf(r.table)
	last := slices.Index(r.names, keys[len(keys)-1])
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

// swapRows exchanges the contents of two rows.
func swapRows(a, b *logRow) change {
	x, y := &logRow{a.table, a.names, slices.Clone(a.values)}, &logRow{b.table, b.names, slices.Clone(b.values)}
	for i := range x.names {
		if !x.isKey(i) {
			x.values[i], y.values[i] = y.values[i], x.values[i]
		}
	}
	return change{a.table + ": swap", []*logRow{a, b}, []*logRow{x, y}, []uuid.UUID{a.entry(), b.entry()}}
}

// try makes a change, checks that it is detected, and reverts it. It reports
// whether the database allowed the change.
func (a *attacked) try(c *change) bool {
	a.Helper()
	if !a.replace(c.old, c.now) {
		return false
	}
	report, err := a.v.VerifyLogs(a.Context(), nil)
	switch {
	case err != nil:
	case report.OK():
		a.Errorf("%s is not found: %v becomes %v", c.what, texts(c.old), texts(c.now))
	default:
		for _, id := range c.entries {
			named := slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool { return f.EntryID == id })
			if id != (uuid.UUID{}) && !named {
				a.Errorf("%s is found, but entry %s is not named: %+v", c.what, id, report.Findings)
			}
		}
	}
	if !a.replace(c.now, c.old) {
		a.Fatalf("%s cannot be taken back", c.what)
	}
	s, err := a.v.EvidenceStatus()
	if err != nil || s.Suspended != "" || !slices.Equal(a.state(), a.was) {
		a.restore()
	}
	return true
}

// state returns a digest of the trees, because a vault that verifies a tampered log
// may sign what it finds.
func (a *attacked) state() (all []string) {
	a.Helper()
	for _, r := range a.logRows("vault_log_trees") {
		all = append(all, fmt.Sprintf("%x", r.values))
	}
	return all
}

// remember saves all tables of the log for restore.
func (a *attacked) remember() {
	a.Helper()
	a.was, a.saved = a.state(), nil
	for table := range logKeys {
		a.saved = append(a.saved, a.logRows(table)...)
	}
}

// restore restores the tables, and opens a vault that has not seen other contents.
func (a *attacked) restore() {
	a.Helper()
	_ = a.v.Close()
	for table := range logKeys {
		a.exec("DELETE FROM " + table)
	}
	if !a.replace(nil, a.saved) {
		a.Fatal("the tables cannot be restored")
	}
	a.node(nil)
}

func texts(rows []*logRow) (all []string) {
	for _, r := range rows {
		all = append(all, fmt.Sprintf("%q", r.values))
	}
	return all
}

// TestEveryByte changes the tables of the log in every small way: each byte is
// flipped, each column set to NULL, and each row deleted, duplicated, and swapped
// with the next.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.live(long.Rounds(25, 40))
		a.remember()
		step := long.Rounds(101, 1)
		if a.pg {
			step = long.Rounds(401, 11) // each change takes longer
		}
		tried := 0
		for table := range logKeys {
			all := a.changes(table)
			for i := range all {
				small := strings.Contains(all[i].what, ":")
				if i%step != 0 && !(small && i%(1+step/25) == 0) {
					continue
				}
				if a.try(&all[i]) {
					tried++
				}
			}
			a.mustVerify()
		}
		if tried < 20 {
			a.Errorf("only %d changes were tried", tried)
		}
		a.Logf("%d changes were tried", tried)
	})
}

// TestEveryNode does the same to the roots of complete blocks, which a longer log has.
func TestEveryNode(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		many := make([]string, 300)
		if _, err := a.owners[0].Tokenize(a.Context(), many); err != nil {
			a.Fatal(err)
		}
		a.mustVerify()
		a.remember()
		all := a.changes("vault_log_nodes")
		for i := range all {
			if i%long.Rounds(9, 1) == 0 || strings.Contains(all[i].what, ":") {
				a.try(&all[i])
			}
		}
	})
}

// verdicts verifies the log and returns the verdicts.
func (a *attacked) verdicts(since ...[]byte) (all []evidence.Verdict) {
	a.Helper()
	report, err := a.v.VerifyLogs(a.Context(), &vault.VerifyOptions{Since: since})
	if err != nil {
		a.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Verdict.Tampering() {
			all = append(all, f.Verdict)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkpoint creates a token and returns a note that covers it.
func (a *attacked) checkpoint(id string) []byte {
	a.Helper()
	create(a, a.owners[0].Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"})
	a.mustVerify()
	msg, err := a.v.Checkpoint(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	return msg
}

// Each kind of tampering has its own verdict.
func TestVerdictsOfTampering(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.live(15)
		a.remember()
		rows := a.logRows("vault_logs")
		for name, c := range map[string]struct {
			change change
			want   evidence.Verdict
		}{
			"altered": {change{old: rows[:1], now: []*logRow{rows[0].with(slices.Index(rows[0].names, "message"), "x")}}, evidence.Altered},
			"deleted": {change{old: rows[:1]}, evidence.Missing},
			"forged":  {change{now: []*logRow{rows[0].double()}}, evidence.Forged},
			"moved":   {reordered(rows), evidence.Reordered},
		} {
			if !a.replace(c.change.old, c.change.now) {
				a.Fatalf("%s: the database does not let it happen", name)
			}
			if got := a.verdicts(); !slices.Equal(got, []evidence.Verdict{c.want}) {
				a.Errorf("%s: %v, want %v", name, got, c.want)
			}
			a.restore()
		}

		for i := range 2 { // a restored vault may append an event, and must still be older
			a.checkpoint(fmt.Sprint("newer-", i))
		}
		newest := a.checkpoint("newest") // kept outside the database
		a.restore()
		if got := a.verdicts(newest); !slices.Contains(got, evidence.Truncated) {
			a.Errorf("an older copy: %v", got)
		}
		for i := range 5 {
			a.checkpoint(fmt.Sprint("other-", i))
		}
		if got := a.verdicts(newest); !slices.Equal(got, []evidence.Verdict{evidence.Forked}) {
			a.Errorf("an older copy that went on: %v", got)
		}
	})
}

// reordered swaps the positions of two entries of a tenant in the log.
func reordered(rows []*logRow) change {
	seq := slices.IndexFunc(rows[0].names, func(name string) bool { return name == "seq" || name == "xid" })
	for i, r := range rows[1:] {
		if before := rows[i]; slices.Equal(before.values[0].([]byte), r.values[0].([]byte)) && before.values[seq] != r.values[seq] {
			return change{old: []*logRow{before, r}, now: []*logRow{before.with(seq, r.values[seq]), r.with(seq, before.values[seq])}}
		}
	}
	return change{}
}

// An acknowledged entry that never reaches the tree raises an alarm within 30
// seconds, whether a trigger drops it or an attacker deletes it at once.
func TestMissingAcknowledgedEntriesRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*attacked){
		"a trigger":  (*attacked).dropInserts,
		"a deletion": func(*attacked) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				alarms := make(chan vault.Alarm, 100)
				a.node(func(alarm vault.Alarm) { alarms <- alarm })
				a.mustVerify()
				drop(a)
				create(a, a.owners[0].Client, vault.TokenParams{ID: "lost", Type: vault.TypeGeneric, Data: "x"})
				a.exec("DELETE FROM vault_logs WHERE entity_id = 'lost'")
				a.clock.Advance(30 * time.Second)
				eventually(a, "there is an alarm", func() bool {
					if _, err := a.v.Checkpoint(a.Context()); err != nil {
						a.Fatal(err)
					}
					return len(alarms) > 0
				})
				if alarm := <-alarms; alarm.Kind != vault.AlarmMissing || alarm.TenantID != a.owners[0].TenantID() || alarm.EntryID == (uuid.UUID{}) {
					a.Errorf("the alarm is %+v", alarm)
				}
			})
		})
	}
}

// dropInserts makes the database drop entries about a token.
func (a *attacked) dropInserts() {
	a.Helper()
	if !a.pg {
		a.exec("CREATE TRIGGER hide BEFORE INSERT ON vault_logs WHEN NEW.entity_id = 'lost' BEGIN SELECT RAISE(IGNORE); END")
		return
	}
	a.exec("CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.entity_id = 'lost' THEN RETURN NULL; END IF; RETURN NEW; END $$")
	a.exec("CREATE TRIGGER hide BEFORE INSERT ON vault_logs FOR EACH ROW EXECUTE FUNCTION hide()")
}

// breakTenant replaces the body of a tenant's record of a kind.
func (a *attacked) breakTenant(id uuid.UUID, kind string) {
	a.Helper()
	done, err := a.db.ExecContext(a.Context(), a.bind(`UPDATE vault_records SET body = ? WHERE tenant_id = ? AND kind = ?`), []byte("altered"), id[:], kind)
	if err != nil {
		a.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		a.Fatalf("%d rows of kind %s were altered (%v)", n, kind, err)
	}
}

// A tenant whose keys or document do not open hides neither the other tenants nor
// the evidence about them, and can be deleted.
func TestUnreadableTenantsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		ctx, good := a.Context(), tenantOf(a, a.v).TenantID()
		for _, o := range []*vault.Owner{a.owners[0], a.owners[1], a.v.Tenant(good)} {
			create(a, o.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		}
		a.mustVerify()
		var want, got, all []vault.Tenant
		for _, id := range []uuid.UUID{good, a.owners[1].TenantID(), a.owners[0].TenantID()} {
			is, err := a.v.Tenant(id).GetTenant(ctx)
			if err != nil {
				a.Fatal(err)
			}
			if id != good {
				is = &vault.Tenant{ID: id, CreatedAt: is.CreatedAt, Unreadable: true}
			}
			is.CreatedAs = is.Name
			want = append(want, *is)
		}
		a.breakTenant(want[1].ID, "tenant")
		a.breakTenant(want[2].ID, "ring")
		a.node(nil)
		page, err := a.v.Tenants(ctx, vault.PageParams{})
		if err != nil || page.Pagination.TotalItems != len(want) {
			a.Fatalf("tenants: %+v, %v", page, err)
		}
		got = page.Data
		for is, err := range a.v.AllTenants(ctx) {
			if err != nil {
				a.Fatal(err)
			}
			all = append(all, *is)
		}
		for how, list := range map[string][]vault.Tenant{"page": got, "all": all} {
			if diff := cmp.Diff(want, list); diff != "" {
				a.Errorf("%s (-want +got):\n%s", how, diff)
			}
		}
		create(a, a.v.Tenant(good).Client, aText("later", "x"))
		before := a.evidence()
		eventually(a, "a note covers the entries of the readable tenant", func() bool {
			if _, err := a.v.Checkpoint(ctx); err != nil {
				a.Fatalf("evidence of the others: %v", err)
			}
			return a.evidence() > before
		})
		report, err := a.v.VerifyLogs(ctx, nil)
		if err != nil {
			a.Fatal(err)
		}
		found := map[uuid.UUID][]evidence.Verdict{}
		for _, f := range report.Findings {
			found[f.Tenant] = append(found[f.Tenant], f.Verdict)
		}
		altered := []evidence.Verdict{evidence.Altered}
		if diff := cmp.Diff(map[uuid.UUID][]evidence.Verdict{want[1].ID: altered, want[2].ID: altered}, found); diff != "" {
			a.Errorf("findings (-want +got):\n%s", diff)
		}
		a.clock.Advance(2 * time.Hour)
		same(a, "swept", sweep(a, a.v), vault.Swept{Tokens: 1, Unopened: 2})
		for i := range want[1:] {
			if err := a.v.DeleteTenant(ctx, want[1+i].ID); err != nil {
				a.Errorf("delete an unreadable tenant: %v", err)
			}
		}
		if page, err := a.v.Tenants(ctx, vault.PageParams{}); err != nil || len(page.Data) != 1 || page.Data[0].Unreadable {
			a.Errorf("after the deletion: %+v, %v", page, err)
		}
	})
}

// A tenant whose keys were deleted by SQL is reported. It does not hide findings
// about other tenants, as an error would.
func TestMissingKeyRingIsReported(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		a.mustVerify()
		bad := a.owners[0].TenantID()
		if _, err := a.db.ExecContext(a.Context(), a.bind(`DELETE FROM vault_records WHERE tenant_id = ? AND kind = 'ring'`), bad[:]); err != nil {
			a.Fatal(err)
		}
		a.node(nil)
		report, err := a.v.VerifyLogs(a.Context(), nil)
		if err != nil {
			a.Fatal(err)
		}
		if diff := cmp.Diff([]evidence.Finding{{Tenant: bad, Index: -1, Verdict: evidence.Altered}}, report.Findings); diff != "" {
			a.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}

// evidence returns the size of the vault's tree.
func (a *attacked) evidence() int64 {
	a.Helper()
	s, err := a.v.EvidenceStatus()
	if err != nil {
		a.Fatal(err)
	}
	return s.Size
}
