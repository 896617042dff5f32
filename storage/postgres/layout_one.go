package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// oneServer is the layout of tables on one server. A change is one statement with
// common table expressions.
type oneServer struct{ statements.AsOne }

func (oneServer) logDelay() time.Duration                  { return 0 }
func (oneServer) settings(time.Duration) map[string]string { return nil }

func (oneServer) migrated(context.Context, *sql.DB, schemaName, storage.MigrateMode) error {
	return nil
}

func (oneServer) adapt(*sqlstore.Dialect) {}

func (oneServer) recount() (texts []string, counted bool) {
	return []string{forgetCounts, forgetMark}, true
}

func (oneServer) begin(s *writer) error {
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
func (oneServer) setLockTimeout(s *writer, d time.Duration) {
	if s.prepare && s.conn != nil && s.control(setLockTimeout("", d)) != nil {
		s.reset()
	}
}

// ping writes a claim of the zero tenant.
func (oneServer) ping(random []byte) (text string, args []any) {
	var none storage.ID
	return pingText, []any{none[:], random[:32], random}
}

func (oneServer) placed(context.Context, citus.Queryer, schemaName) (*citus.Shards, error) {
	return nil, nil
}

func (oneServer) relaxes() bool               { return true }
func (oneServer) lane(storage.ID) storage.ID  { return storage.ID{} }
func (oneServer) guard(*storage.Change) error { return nil }
func (oneServer) inSteps() bool               { return false }
func (oneServer) fence() string               { return "" }

func (oneServer) read(ctx context.Context, s *writer, batch []*pending) error {
	defer cutAfter(batch[0].reading.ctx, s.cut)()
	asked := s.asked(batch)
	return s.readings(ctx, readingTexts[wire.BoolByte(asked.Many())][wire.BoolByte(s.unsynced)], asked.Values(nil), batch)
}

// asked returns the parameters for a batch of readings.
func (s *writer) asked(batch []*pending) *wire.Rows {
	all := s.memory.Row(readingColumns)
	if len(batch) > 1 {
		all = s.memory.Rows(readingColumns)
	}
	for i, p := range batch {
		all.Int(int64(i))
		putReading(all, &p.reading.Reading)
	}
	return all
}

// readings runs a statement that reads the tokens of a batch.
func (s *writer) readings(ctx context.Context, text string, args []any, batch []*pending) error {
	return s.Query(ctx, text, args, true, func(row []driver.Value) error {
		i, ok := row[0].(int64)
		if !ok || i < 0 || i >= int64(len(batch)) {
			return errors.New("postgres: the server returned a row that no read asked for")
		}
		r := batch[i].reading
		r.found, r.token.Tenant = true, r.Tenant
		return sqlstore.ScanToken(row[1:], &r.token)
	})
}

func (oneServer) logReads(s *writer, batch []*pending) error {
	logs := s.memory.Rows(statements.GroupLogColumns)
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
	"WITH logged AS (" + statements.GroupLogColumns.Insert("vault_logs", 0, nil) + ") SELECT " + statements.Unsynced,
	statements.GroupLogColumns.Insert("vault_logs", 0, nil),
}
