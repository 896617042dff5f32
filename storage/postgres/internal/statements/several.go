package statements

import (
	"database/sql/driver"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// AsSteps composes a change as several statements, each for one table or for rows
// that exist.
type AsSteps struct{}

// TenantIs is a comparison that no index can serve, as [AsOne.TenantIs] is. The
// coordinator finds the shard by it. For an array with one element, ALL means the
// same as ANY.
func (AsSteps) TenantIs(column, parameter string) string {
	return column + " = ALL (ARRAY[" + parameter + "::bytea])"
}

// Guard refuses a change that has a key twice, because separate statements would not
// see each other's conflict.
func (AsSteps) Guard(c *storage.Change) error {
	if Twice(c) != nil {
		return link.ErrGuard
	}
	return nil
}

// Create implements Composer.
func (AsSteps) Create(s *Session, changes []*storage.Change) []Step {
	return s.gather(changes, true).several()
}

// write makes the part a separate statement.
func (AsSteps) write(s *Statement, _ string, want int, body func(*Statement) string) {
	if len(s.parts) > 0 {
		s.after = append(s.after, s.step(want, body))
		return
	}
	s.steps = append(s.steps, s.step(want, body))
}

func (AsSteps) selects(s *Statement, list []string) (parts []part, proper string, row func([]driver.Value) error) {
	return s.parts, s.foundText(list), s.found.row
}

// insertLogs sets the transaction number, because the coordinator cannot forward the
// default of its column together with the rows.
func (AsSteps) insertLogs(s *Statement, logs []storage.Log) {
	rows := wire.RowsOf(wire.LogColumns, logs, sqlstore.PutLog)
	s.write("logged", anyRows, func(s *Statement) string {
		text := s.Insert("vault_logs", rows)
		s.Args = append(s.Args, nil)
		s.numbered = true
		text = strings.Replace(text, ") VALUES (", ", xid) VALUES (", 1)
		return strings.TrimSuffix(text, ")") + ", $" + strconv.Itoa(len(s.Args)) + "::bigint)"
	})
}

func (AsSteps) insertSets(s *Statement, sets []storage.ContainerSet, shard int64) {
	s.insertNewSets(sets, shard)
}

func (AsSteps) moveCounts(s *Statement, moved []string, created Counts, shard int64) {
	s.results = append(s.results, sumCounts("d.set_id, d.type, sum(d.n)::bigint, NULL::bytea", moved))
	s.later(func() Step { return s.countFound(created, shard) })
}

func (AsSteps) replaceKeys(s *Statement, before string, after []wire.Lookup) {
	s.rekey("SELECT hash, kind, NULL::bigint, id FROM "+before, after)
}
