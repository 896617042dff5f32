package statements

import (
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Memory keeps the memory of rows for the next statements of a connection.
type Memory struct{ kept map[keptRows]*wire.Rows }

// roomForRows is the number of rows to allocate for.
const roomForRows = 25

// keptRows identifies rows whose memory is kept. A statement has at most one
// of each.
type keptRows struct {
	first *sqlstore.Column
	many  bool
}

// Rows returns empty rows that are sent as arrays, in the memory of the last rows
// with these columns.
func (m *Memory) Rows(cs wire.Columns) *wire.Rows { return m.keep(cs, true) }

// Row is like rows, for a single row that is sent as scalars.
func (m *Memory) Row(cs wire.Columns) *wire.Rows { return m.keep(cs, false) }

func (m *Memory) keep(cs wire.Columns, many bool) *wire.Rows {
	key := keptRows{&cs[0], many}
	r := m.kept[key]
	switch {
	case r != nil:
		r.Reset()
		return r
	case many:
		r = wire.NewRows(cs, roomForRows)
	default:
		r = wire.NewRow(cs)
	}
	if m.kept == nil {
		m.kept = map[keptRows]*wire.Rows{}
	}
	m.kept[key] = r
	return r
}
