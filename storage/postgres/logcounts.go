package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// Every statement that enters something in the log adds it to vault_log_counts,
// under the shard of its connection. That is less than 20 µs of the server's time
// for a statement, however many callers share it.
const addToLogCounts = " ON CONFLICT (tenant_id, entity_type, day, shard) DO UPDATE SET n = vault_log_counts.n + EXCLUDED.n"

// insertLogCounts begins what adds to the counts; the values follow.
const insertLogCounts = "INSERT INTO vault_log_counts (tenant_id, entity_type, day, shard, n) "

// dayOf is an expression for the day of a time, as [sqlstore.LogDay] has it.
func dayOf(micros string) string {
	return "(" + micros + " / 86400000000 - CASE WHEN " + micros + " % 86400000000 < 0 THEN 1 ELSE 0 END)"
}

// logTally is numbers of log entries.
type logTally []logCount

type logCount struct {
	tenant storage.ID
	kind   string // the type of the entities
	day    int64
	n      int64
}

// add counts an entry.
func (t *logTally) add(tenant storage.ID, l *storage.Log) {
	t.sum(logCount{tenant, l.EntityType, sqlstore.LogDay(l.CreatedAt), 1})
}

// sum adds a number. The types and days of a change, or a batch, are few.
func (t *logTally) sum(more logCount) {
	for i := range *t {
		if c := &(*t)[i]; c.day == more.day && c.kind == more.kind && c.tenant == more.tenant {
			c.n += more.n
			return
		}
	}
	*t = append(*t, more)
}

// rows returns the numbers with their tenants, in the order in which every
// statement takes them, so that no two wait for each other.
func (t logTally) rows() *rows {
	slices.SortFunc(t, func(a, b logCount) int {
		return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), strings.Compare(a.kind, b.kind), cmp.Compare(a.day, b.day))
	})
	r := newRows(groupLogCountColumns, len(t))
	for i := range t {
		r.bytes(t[i].tenant[:])
		t[i].put(r)
	}
	return r
}

func (c *logCount) put(r *rows) {
	r.text(c.kind)
	r.int(c.day)
	r.int(c.n)
}

func tallyLogs(tenant storage.ID, logs []storage.Log) (sums logTally) {
	for i := range logs {
		sums.add(tenant, &logs[i])
	}
	return sums
}

// countLogs adds the entries of a change to the counts.
func (s *statement) countLogs(tenant storage.ID, logs []storage.Log, shard int64) {
	sums := tallyLogs(tenant, logs)
	from := s.rows(rowsOf(logCountColumns, sums, func(r *rows, c *logCount) { c.put(r) }))
	s.with("counted_logs", insertLogCounts+"SELECT $1::bytea, u.entity_type, u.day, "+s.number(shard)+", u.n FROM "+from+
		" ORDER BY u.entity_type, u.day"+addToLogCounts)
}
