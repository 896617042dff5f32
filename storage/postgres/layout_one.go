package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// oneServer is the layout of tables on one server. A change is one statement with
// common table expressions.
type oneServer struct{}

func (oneServer) settle() time.Duration                    { return 0 }
func (oneServer) settings(time.Duration) map[string]string { return nil }

func (oneServer) migrated(context.Context, *sql.DB, schemaName, storage.MigrateMode) error {
	return nil
}

func (oneServer) adapt(*sqlstore.Dialect) {}

func (oneServer) recount() (texts []string, counted bool) {
	return []string{forgetCounts, countAgain}, true
}

func (oneServer) begin(s *slot) error {
	if s.prepare {
		return s.control("BEGIN")
	}
	return s.control("BEGIN; " + setLockTimeout("LOCAL ", lockTimeout))
}

func (oneServer) joins() string             { return "" }
func (oneServer) committed(err error) error { return err }
func (oneServer) explain(err error) error   { return err }

// setLockTimeout changes a setting of the session. If this fails, the connection is
// lost.
func (oneServer) setLockTimeout(s *slot, d time.Duration) {
	if s.prepare && s.conn != nil && s.control(setLockTimeout("", d)) != nil {
		s.reset()
	}
}

// ping writes a claim of the zero tenant.
func (oneServer) ping(random []byte) (text string, args []any) {
	var none storage.ID
	return pingText, []any{none[:], random[:32], random}
}

func (oneServer) placed(context.Context, rowsQueryer, schemaName) (*shards, error) {
	return nil, nil
}

func (oneServer) relaxes() bool               { return true }
func (oneServer) lane(storage.ID) storage.ID  { return storage.ID{} }
func (oneServer) guard(*storage.Change) error { return nil }
func (oneServer) inSteps() bool               { return false }
func (oneServer) fence() string               { return "" }

func (oneServer) read(ctx context.Context, s *slot, batch []*pending) error {
	defer cutAfter(batch[0].reading.ctx, s.cut)()
	asked := s.asked(batch)
	return s.readings(ctx, readingTexts[wire.BoolByte(asked.Many())][wire.BoolByte(s.unsynced)], asked.Values(nil), batch)
}

// asked returns the parameters for a batch of readings.
func (s *slot) asked(batch []*pending) *wire.Rows {
	all := s.row(readingColumns)
	if len(batch) > 1 {
		all = s.rows(readingColumns)
	}
	for i, p := range batch {
		all.Int(int64(i))
		putReading(all, &p.reading.Reading)
	}
	return all
}

// readings runs a statement that reads the tokens of a batch.
func (s *slot) readings(ctx context.Context, text string, args []any, batch []*pending) error {
	return s.query(ctx, text, args, true, func(row []driver.Value) error {
		i, ok := row[0].(int64)
		if !ok || i < 0 || i >= int64(len(batch)) {
			return errors.New("postgres: the server returned a row that no read asked for")
		}
		r := batch[i].reading
		r.found, r.token.Tenant = true, r.Tenant
		return sqlstore.ScanToken(row[1:], &r.token)
	})
}

func (oneServer) logReads(s *slot, batch []*pending) error {
	logs := s.rows(groupLogColumns)
	for _, p := range batch {
		for i := range p.change.Logs {
			logs.Bytes(p.change.Tenant[:])
			wire.PutLog(logs, &p.change.Logs[i])
		}
	}
	return s.exec(readLogTexts[wire.BoolByte(s.unsynced)], logs.Values(nil))
}

// readLogTexts are the statements of logReads, in a session that is synced or
// not.
var readLogTexts = [2]string{
	"WITH logged AS (" + groupLogColumns.Insert("vault_logs", 0, nil) + ") SELECT " + unsynced,
	groupLogColumns.Insert("vault_logs", 0, nil),
}

// tenantIs is a comparison that no index can serve, so that the planner cannot
// prefer an index on the tenant.
func (oneServer) tenantIs(column, place string) string { return column + " || ''::bytea = " + place }

func (oneServer) write(s *statement, name string, want int, body func(*statement) string) {
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
func (oneServer) selects(s *statement, list []string) (parts []part, proper string) {
	if len(list) > 0 {
		return s.parts, selectList(list)
	}
	last := len(s.parts) - 1
	return s.parts[:last], s.parts[last].body
}

func (oneServer) result(*statement) func([]driver.Value) error { return nil }

func (oneServer) insertLogs(s *statement, logs []storage.Log) {
	rows := wire.RowsOf(wire.LogColumns, logs, wire.PutLog)
	if s.anyDriver || !ofOneCall(logs) {
		s.write("logged", anyRows, func(s *statement) string { return s.insert("vault_logs", rows) })
		return
	}
	s.with("logged", "INSERT INTO vault_logs (tenant_id, "+wire.LogColumns.Names("")+") VALUES ($1::bytea, "+
		wire.LogColumns.Unnested(len(s.args), callColumns...)+")")
	s.args = rows.Parameters(s.args, wire.LogColumns, callColumns)
}

// insertSets gives a transaction of the application, which has a negative shard, its
// own rows, so that no other writer waits for them.
func (oneServer) insertSets(s *statement, sets []storage.ContainerSet, shard int64) {
	if shard >= 0 {
		s.insertNewSets(sets, shard)
		return
	}
	from := s.rows(wire.RowsOf(wire.SetColumns, sets, wire.PutSet))
	s.with("sets", "INSERT INTO vault_container_sets (tenant_id, "+wire.SetColumns.Names("")+", shard) SELECT $1::bytea, u.*, "+
		s.number(shard)+" FROM "+from+" WHERE NOT EXISTS"+
		" (SELECT FROM vault_container_sets k WHERE k.tenant_id = $1 AND k.set_id = u.set_id)")
}

// insertNewSets adds sets that do not exist yet.
func (s *statement) insertNewSets(sets []storage.ContainerSet, shard int64) {
	slices.SortFunc(sets, func(a, b storage.ContainerSet) int { return bytes.Compare(a.Set[:], b.Set[:]) })
	rows := wire.RowsOf(wire.ShardedSetColumns, sets, func(r *wire.Rows, set *storage.ContainerSet) {
		wire.PutSet(r, set)
		r.Int(min(shard, 0))
	})
	s.write("sets", anyRows, func(s *statement) string {
		return s.insert("vault_container_sets", rows) + " ON CONFLICT DO NOTHING"
	})
}

func (oneServer) moveCounts(s *statement, moved []string, created tally, shard int64) {
	if len(created) > 0 {
		moved = append(moved, "SELECT u.set_id, u.type, u.n FROM "+s.rows(created.rows(shard)))
	}
	s.with("counted", "INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) "+
		sumCounts("$1::bytea, d.set_id, d.type, "+s.number(shard)+", sum(d.n)", moved)+" ORDER BY d.set_id, d.type"+addToCounts)
}

func (oneServer) replaceKeys(s *statement, lookups []wire.Lookup) {
	kept, after := "", ""
	if len(lookups) > 0 {
		s.with("keys_after", "SELECT u.hash, u.kind, u.id FROM "+s.rows(wire.RowsOf(wire.LookupColumns, lookups, wire.PutLookup)))
		s.with("rekeyed", insertLookups+"(SELECT * FROM keys_after EXCEPT SELECT * FROM keys_before) u ORDER BY u.hash RETURNING 1")
		kept = " EXCEPT SELECT * FROM keys_after"
		after = " AND (SELECT count(*) FROM rekeyed) >= 0" // check a key before another record gives it up
	}
	s.with("unkeyed", "DELETE FROM vault_lookups l WHERE l.hash = ANY (ARRAY("+
		"SELECT o.hash FROM (SELECT * FROM keys_before"+kept+") o))"+after)
}

const insertLookups = "INSERT INTO vault_lookups (hash, tenant_id, kind, id) SELECT u.hash, $1::bytea, u.kind, u.id FROM "

func (oneServer) dropKeys(s *statement) {
	s.with("keys_gone", `DELETE FROM vault_lookups l WHERE l.hash = ANY (ARRAY(
		SELECT k.hash FROM record_going b, LATERAL (VALUES (b.key_hash), (b.alt_hash)) AS k(hash)))`)
}
