package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestRecordsOfOneKindNeedNoScan lists the records of a rare kind, over all
// tenants, among many of another kind.
func TestRecordsOfOneKindNeedNoScan(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, db := openAt(t, address, nil), database(t, address)
	c := sample(newID(), 1)
	c.InsertTokens = nil
	for range 3000 {
		c.InsertRecords = append(c.InsertRecords, storage.Record{Kind: "session", ID: newID(), Body: []byte("b"), CreatedAt: c.Now, Rev: 1})
	}
	must.Do(t, s.Write(t.Context(), c))
	must.Get(db.Exec("ANALYZE vault_records"))(t)
	rows := must.Get(db.Query(`EXPLAIN SELECT r.body FROM vault_records r WHERE length(r.id) = 16 AND length(r.tenant_id) = 16 AND r.kind = 'tombstone'
		ORDER BY r.id DESC, r.tenant_id DESC, r.kind DESC LIMIT 100`))(t)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var step string
		must.Do(t, rows.Scan(&step))
		fmt.Fprintln(&plan, step)
	}
	if err := rows.Err(); err != nil || !strings.Contains(plan.String(), "vault_records_kind") || strings.Contains(plan.String(), "Sort") {
		t.Errorf("%v, the plan is\n%s", err, plan.String())
	}
}
