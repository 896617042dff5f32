//go:build !race

package bench

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// served is a new schema on PostgreSQL. Its address names the connections of the
// vault.
type served struct{ dsn string }

func newServed(b *testing.B) *served {
	b.Helper()
	return &served{dsn: onPostgres.create(b) + "&application_name=vault_served"}
}

// nanoseconds returns the CPU time so far of all connections, and 0 for nil.
func (s *served) nanoseconds(b *testing.B) (sum int64) {
	b.Helper()
	if s == nil {
		return 0
	}
	db := openPostgres(b, s.dsn, false)
	defer func() { _ = db.Close() }()
	rows := must.Get(db.Query("SELECT pid FROM pg_stat_activity WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()"))(b)
	defer rows.Close()
	for rows.Next() {
		var pid int
		must.Do(b, rows.Scan(&pid))
		sum += scheduled(b, "/proc/"+strconv.Itoa(pid)+"/schedstat")
	}
	must.Do(b, rows.Err())
	return sum
}

// scheduled returns the CPU time of a thread so far.
func scheduled(b *testing.B, file string) (nanoseconds int64) {
	b.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		b.Skipf("the server is not on this machine, or this is not Linux: %v", err)
	}
	must.Get(fmt.Sscan(string(text), &nanoseconds))(b)
	return nanoseconds
}
