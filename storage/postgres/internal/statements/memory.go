package statements

import "github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"

// roomForRows is the number of rows to allocate for.
const roomForRows = 25

// emptied returns empty rows, which are sent as arrays, or as scalars for a single
// row. They have the memory of the last rows, unless those are nil.
func emptied(last *wire.Rows, cs wire.Columns, single bool) *wire.Rows {
	switch {
	case last != nil:
		last.Reset()
		return last
	case single:
		return wire.NewRow(cs)
	default:
		return wire.NewRows(cs, roomForRows)
	}
}
