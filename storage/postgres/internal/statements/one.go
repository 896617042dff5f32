package statements

import (
	"bytes"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// AsOne composes a change as one statement with common table expressions.
type AsOne struct{}

// TenantIs is a comparison that no index can serve, so that the planner cannot
// prefer an index on the tenant.
func (AsOne) TenantIs(column, parameter string) string {
	return column + " || ''::bytea = " + parameter
}

// Guard implements Composer.
func (AsOne) Guard(*storage.Change) error { return nil }

// Create implements Composer.
func (AsOne) Create(s *Session, changes []*storage.Change) []Step {
	text, args := s.gather(changes, false).one(s.parameters())
	return s.one(text, args, nil)
}

func (AsOne) write(s *Statement, name string, want int, body func(*Statement) string) {
	text := body(s)
	if want != anyRows {
		text += " RETURNING 1"
	}
	s.with(name, text)
	if want != anyRows {
		s.expect(name, want)
	}
}

// selects makes the last part the main statement, unless there is something to
// select.
func (AsOne) selects(s *Statement, list []string) (parts []part, proper string, row func([]driver.Value) error) {
	if len(list) > 0 {
		return s.parts, "SELECT " + strings.Join(list, ", "), nil
	}
	last := len(s.parts) - 1
	return s.parts[:last], s.parts[last].body, nil
}

func (AsOne) insertLogs(s *Statement, logs []storage.Log) {
	rows := wire.RowsOf(wire.LogColumns, logs, sqlstore.PutLog)
	if s.AnyDriver || !ofOneCall(logs) {
		s.write("logged", anyRows, func(s *Statement) string { return s.Insert("vault_logs", rows) })
		return
	}
	s.with("logged", "INSERT INTO vault_logs (tenant_id, "+wire.LogColumns.Names("")+") VALUES ($1::bytea, "+
		wire.LogColumns.Unnested(len(s.Args), callColumns...)+")")
	s.Args = rows.Parameters(s.Args, wire.LogColumns, callColumns)
}

// insertSets gives a transaction of the application, which has a negative shard, its
// own rows, so that no other writer waits for them.
func (AsOne) insertSets(s *Statement, sets []storage.ContainerSet, shard int64) {
	if shard >= 0 {
		s.insertNewSets(sets, shard)
		return
	}
	from := s.rows(wire.RowsOf(wire.SetColumns, sets, wire.PutSet))
	s.with("sets", "INSERT INTO vault_container_sets (tenant_id, "+wire.SetColumns.Names("")+", shard) SELECT $1::bytea, u.*, "+
		s.number(shard)+" FROM "+from+" WHERE NOT EXISTS"+
		" (SELECT FROM vault_container_sets k WHERE k.tenant_id = $1 AND k.set_id = u.set_id)")
}

func (AsOne) moveCounts(s *Statement, moved []string, created Counts, shard int64) {
	if len(created) > 0 {
		moved = append(moved, "SELECT u.set_id, u.type, u.n FROM "+s.rows(created.rows(shard)))
	}
	s.with("counted", "INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) "+
		sumCounts("$1::bytea, d.set_id, d.type, "+s.number(shard)+", sum(d.n)", moved)+" ORDER BY d.set_id, d.type"+addToCounts)
}

func (AsOne) replaceKeys(s *Statement, before string, lookups []wire.Lookup) {
	kept, after := "", ""
	if len(lookups) > 0 {
		s.with("keys_after", "SELECT u.hash, u.kind, u.id FROM "+s.rows(wire.RowsOf(wire.LookupColumns, lookups, wire.PutLookup)))
		s.with("rekeyed", insertLookups+"(SELECT * FROM keys_after EXCEPT SELECT * FROM "+before+") u ORDER BY u.hash RETURNING 1")
		kept = " EXCEPT SELECT * FROM keys_after"
		after = " AND (SELECT count(*) FROM rekeyed) >= 0" // check a key before another record gives it up
	}
	s.with("un"+before, "DELETE FROM vault_lookups l WHERE l.hash = ANY (ARRAY("+
		"SELECT o.hash FROM (SELECT * FROM "+before+kept+") o))"+after)
}

// insertNewSets adds sets that do not exist yet.
func (s *Statement) insertNewSets(sets []storage.ContainerSet, shard int64) {
	slices.SortFunc(sets, func(a, b storage.ContainerSet) int { return bytes.Compare(a.Set[:], b.Set[:]) })
	rows := wire.RowsOf(wire.ShardedSetColumns, sets, func(r sqlstore.Put, set *storage.ContainerSet) {
		wire.PutSet(r, set)
		r.Int(min(shard, 0), sqlstore.NotNull)
	})
	s.write("sets", anyRows, func(s *Statement) string {
		return s.Insert("vault_container_sets", rows) + " ON CONFLICT DO NOTHING"
	})
}

const insertLookups = "INSERT INTO vault_lookups (hash, tenant_id, kind, id) SELECT u.hash, $1::bytea, u.kind, u.id FROM "
