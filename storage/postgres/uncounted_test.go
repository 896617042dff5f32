package postgres

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestOneCallerMovesAMark counts entries of two tenants while the mark of one of
// them is being moved.
func TestOneCallerMovesAMark(t *testing.T) {
	t.Parallel()
	var u uncountedLogs
	a, b := storage.ID{1}, storage.ID{2}
	add := func(when string, tenant storage.ID, entries int, want bool) {
		t.Helper()
		must.Same(t, when+": move the mark", want, u.add(tenant, entries))
	}
	add("few entries", a, 1, false)
	add("enough entries", a, countLogsAfter, true)
	add("during the move", a, countLogsAfter, false)
	add("another tenant", b, countLogsAfter, true)
	u.moved(a)
	add("after the move, with the entries that came during it", a, 1, true)
}
