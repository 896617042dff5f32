//go:build !race

package bench

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// walCalls is how many calls share the records that do not depend on their number.
const walCalls = 1000

// walQuery returns the bytes of WAL between two places by table or index, or by the
// kind of record if it is about neither. Values out of line count with their table.
const walQuery = `
	SELECT coalesce(o.relname, c.relname, r.resource_manager || ' ' || r.record_type), sum(r.record_length)
	FROM pg_get_wal_records_info($1::pg_lsn, $2::pg_lsn) r
	LEFT JOIN pg_class c ON pg_relation_filenode(c.oid) = substring(r.block_ref FROM 'rel [0-9]+/[0-9]+/([0-9]+)')::oid
	LEFT JOIN pg_index i ON i.indexrelid = c.oid
	LEFT JOIN pg_class o ON o.reltoastrelid IN (c.oid, i.indrelid) AND o.reltoastrelid <> 0
	GROUP BY 1 HAVING sum(r.record_length) >= $3 ORDER BY 2 DESC`

// BenchmarkWAL measures the bytes of WAL that a create and a read write to each table
// and index of PostgreSQL, sequencing and signing included. It needs the extension
// pg_walinspect of PostgreSQL 15 and later. The server writes no page images, which
// depend on the time between two checkpoints.
func BenchmarkWAL(b *testing.B) {
	for _, evidence := range []*vault.EvidenceConfig{nil, {Every: -1}} {
		server := must.Get(pgtest.Start("full_page_writes = off", "autovacuum = off"))(b)
		b.Cleanup(func() { _ = server.Stop() })
		db := must.Get(sql.Open("postgres", server.URL))(b)
		b.Cleanup(func() { _ = db.Close() })
		must.Get(db.ExecContext(b.Context(), "CREATE EXTENSION pg_walinspect"))(b)
		u := newUserWith(b, onPostgres.openStore(b, server.URL), &vault.Config{Evidence: evidence})
		ids := createGeneric(b, u.Client, walCalls)
		sequence := func() {
			if evidence != nil {
				must.Get(u.vault.Checkpoint(b.Context()))(b)
			}
		}
		sequence()
		for _, call := range []struct {
			name string
			do   func(i int) error
		}{
			{"create", func(int) error { return createCard(b.Context(), u.Client) }},
			{"read", func(i int) error { _, err := u.GetToken(b.Context(), ids[i]); return err }},
		} {
			b.Run(fmt.Sprintf("%s/evidence=%t", call.name, evidence != nil), func(b *testing.B) {
				for b.Loop() {
					reportWAL(b, db, func() {
						for i := range walCalls {
							must.Do(b, call.do(i))
						}
						sequence()
					})
				}
			})
		}
	}
}

// reportWAL reports the bytes of WAL per call that do writes.
func reportWAL(b *testing.B, db *sql.DB, do func()) {
	b.Helper()
	now := func() (place string) {
		must.Get(db.ExecContext(b.Context(), "SELECT pg_logical_emit_message(true, 'bench', '')"))(b) // syncs what reads have written
		must.Do(b, db.QueryRowContext(b.Context(), "SELECT pg_current_wal_flush_lsn()").Scan(&place))
		return place
	}
	from := now()
	do()
	rows := must.Get(db.QueryContext(b.Context(), walQuery, from, now(), walCalls))(b)
	defer rows.Close()
	total, table := 0.0, strings.Builder{}
	for rows.Next() {
		var what string
		var bytes float64
		must.Do(b, rows.Scan(&what, &bytes))
		total += bytes / walCalls
		fmt.Fprintf(&table, "%s %.0f, ", what, bytes/walCalls) // a benchmark logs few lines
	}
	must.Do(b, rows.Err())
	b.Log(strings.TrimSuffix(table.String(), ", "))
	b.ReportMetric(total, "WAL-B/call")
}
