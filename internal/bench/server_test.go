package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// BenchmarkServer measures PostgreSQL's CPU time per call, which other load on
// the machine hardly affects. It needs Linux, and the server on the same
// machine.
func BenchmarkServer(b *testing.B) {
	ctx := context.Background()
	s := newServed(b)
	u := newUser(b, onPostgres.openStore(b, s.dsn))
	ids := createGeneric(b, u.Client, 1000)
	next := 0
	for name, call := range map[string]func() error{
		"GetToken": func() error {
			next++
			_, err := u.GetToken(ctx, ids[next%len(ids)])
			return err
		},
		"CreateToken": func() error { return createCard(ctx, u.Client) },
	} {
		b.Run(name, func(b *testing.B) {
			report(b, figure{what: "CPU time of the server for " + name, metric: "ms", backend: onPostgres.name, callers: "1",
				value: s.millis(b, call), unit: "ms"})
		})
	}
}

// served is a new schema on PostgreSQL. Its address names the connections of the
// vault.
type served struct{ dsn string }

func newServed(b *testing.B) *served {
	b.Helper()
	return &served{dsn: onPostgres.create(b) + "&application_name=vault_served"}
}

// nanosecondsInAll returns the CPU time so far of all connections, and 0 for nil.
func (s *served) nanosecondsInAll(b *testing.B) (sum int64) {
	b.Helper()
	if s == nil {
		return 0
	}
	for _, n := range s.nanoseconds(b) {
		sum += n
	}
	return sum
}

// millis returns the server's CPU time per call in milliseconds: the median
// over several rounds.
func (s *served) millis(b *testing.B, call func() error) float64 {
	b.Helper()
	const rounds, calls = 7, 200
	var times []float64
	for range rounds {
		before := s.nanoseconds(b)
		for range calls {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
		var sum int64
		for pid, after := range s.nanoseconds(b) {
			if was, ok := before[pid]; ok {
				sum += after - was
			}
		}
		times = append(times, float64(sum)/calls/1e6)
	}
	return median(times)
}

// nanoseconds returns the CPU time so far of each connection, by process id.
func (s *served) nanoseconds(b *testing.B) map[int]int64 {
	b.Helper()
	db := openPostgres(b, s.dsn, false)
	defer func() { _ = db.Close() }()
	rows := must.Get(db.Query("SELECT pid FROM pg_stat_activity WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()"))(b)
	defer rows.Close()
	times := map[int]int64{}
	for rows.Next() {
		var pid int
		must.Do(b, rows.Scan(&pid))
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/schedstat")
		if err != nil {
			b.Skipf("the server is not on this machine, or this is not Linux: %v", err)
		}
		var n int64
		must.Get(fmt.Sscan(string(text), &n))(b)
		times[pid] = n
	}
	must.Do(b, rows.Err())
	return times
}
