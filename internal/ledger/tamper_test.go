package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// small fills a rig with a short log that contains every kind of entry and
// event.
func small(r *rig) (*Ledger, uuid.UUID) {
	r.Helper()
	tenant := r.id()
	old := r.logs(tenant, 2)
	old[1].Mac = storage.Hash{}
	r.put(nil, tenant, old)
	r.advance(time.Hour)
	l := r.open()
	r.settle(l, tenant, 2)
	r.write(l, tenant, 3)
	r.write(l, tenant, 2)
	r.settle(l, tenant, 7)
	must.Do(r, l.RecordErasure(r.Context(), tenant, r.id(), "asked for", 1))
	r.checkpoint(l)
	if report := r.verify(l); len(report.Findings) > 0 {
		r.Fatal(report.Findings)
	}
	return l, tenant
}

// column is a value that an attacker could change.
type column struct {
	table, name string
	names       []string
	row         []any
	value       any
}

// columns returns every value in the log's tables.
func (r *rig) columns(db *sql.DB) (all []column) {
	r.Helper()
	for _, table := range []string{"vault_logs", "vault_log_leaves", "vault_log_trees", "vault_log_nodes", "vault_log_events", "vault_log_checkpoints"} {
		all = append(all, r.columnsOf(db, table)...)
	}
	return all
}

func (r *rig) columnsOf(db *sql.DB, table string) (all []column) {
	r.Helper()
	rows := must.Get(db.QueryContext(r.Context(), "SELECT * FROM "+table))(r)
	defer rows.Close()
	names := must.Get(rows.Columns())(r)
	for rows.Next() {
		values := make([]any, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		must.Do(r, rows.Scan(into...))
		for i, name := range names {
			all = append(all, column{table, name, names, values, values[i]})
		}
	}
	must.Do(r, rows.Err())
	return all
}

// changed returns other values for a column.
func (c *column) changed() (all []any) {
	switch v := c.value.(type) {
	case int64:
		all = append(all, v+1, v^1<<20)
	case string:
		for i := range v {
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

// TestEveryByte changes bytes in all columns of the log's tables, and sets
// every column to NULL.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	everyByte(newRig(t), long.Rounds(23, 1))
}

// everyByte makes every change whose number is a multiple of stride.
func everyByte(r *rig, stride int) {
	small(r)
	db := r.db()
	defer db.Close()
	tried, n := 0, 0
	for _, c := range r.columns(db) {
		for _, value := range c.changed() {
			if n++; n%stride == 0 && r.tamper(db, &c, value) {
				tried++
				r.mustFind(&c, value)
				r.undo(db, &c, value)
			}
		}
	}
	if tried < 40 {
		r.Errorf("only %d changes were tried", tried)
	}
}

var keys = map[string][]string{
	"vault_logs": {"tenant_id", "id"}, "vault_log_leaves": {"tenant_id", "first"}, "vault_log_trees": {"tenant_id"},
	"vault_log_nodes": {"tenant_id", "level", "n"}, "vault_log_events": {"tenant_id", "n"}, "vault_log_checkpoints": {"tenant_id", "size"},
}

// where returns a condition for a column's row after the column has changed to
// now.
func (c *column) where(now any) (string, []any) {
	text, args := "1 = 1", []any{}
	for _, key := range keys[c.table] {
		value := c.row[slices.Index(c.names, key)]
		if key == c.name {
			value = now
		}
		text, args = text+" AND "+key+" = ?", append(args, value)
	}
	return text, args
}

// tamper changes a column and reports whether the database allowed it.
func (r *rig) tamper(db *sql.DB, c *column, value any) bool {
	where, args := c.where(c.value)
	_, err := db.Exec(r.sql(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", c.table, c.name, where)), append([]any{value}, args...)...)
	return err == nil
}

func (r *rig) undo(db *sql.DB, c *column, value any) {
	r.Helper()
	where, args := c.where(value)
	result := must.Get(db.Exec(r.sql(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", c.table, c.name, where)), append([]any{c.value}, args...)...))(r)
	if n, _ := result.RowsAffected(); n != 1 {
		r.Fatalf("%s.%s cannot be restored", c.table, c.name)
	}
}

// mustFind verifies with a newly started node.
func (r *rig) mustFind(c *column, value any) {
	r.Helper()
	l, err := Open(r.Context(), r.config(frozen{r.store}))
	if err != nil {
		return // the node refuses this database
	}
	defer func() { _ = l.Close(context.Background()) }()
	report, err := l.Verify(r.Context(), VerifyOptions{})
	if err == nil && report.OK() && l.Status().Suspended == "" {
		r.Errorf("%s.%s: a change to %v from %v was not found", c.table, c.name, value, c.value)
	}
}

// A bundle does not show the MAC of an invented entry, although the entry is put
// into the place of an old one.
func TestBundleIsNoOracle(t *testing.T) {
	t.Parallel()
	for _, kind := range []evidence.Kind{evidence.KindOld, evidence.KindUnsigned} {
		r := newRig(t)
		l, tenant := r.open(), r.id()
		e := EntryOf(&r.write(l, tenant, 1)[0])
		r.checkpoint(l)
		e.ID = r.id()
		mac, salt := macOf(tenant, e.AppendMacFields(nil)), macOf(tenant, e.AppendMacFields([]byte(saltLabel)))
		r.exec("UPDATE vault_logs SET id = ?, mac = NULL WHERE tenant_id = ?", e.ID[:], tenant[:])
		r.exec("UPDATE vault_log_leaves SET kind = ?, ids = ? WHERE tenant_id = ?", int(kind), e.ID[:], tenant[:])
		bundle := r.bundle(l, tenant)
		for _, secret := range [][]byte{mac[:], salt[:]} {
			if bytes.Contains(bundle, []byte(base64.StdEncoding.EncodeToString(secret))) {
				t.Errorf("as an entry of the kind %s, an invented entry gets a mac: %s", kind, bundle)
			}
		}
		if !bytes.Contains(bundle, []byte(e.ID.String())) {
			t.Errorf("the bundle does not have the invented entry: %s", bundle)
		}
	}
}
