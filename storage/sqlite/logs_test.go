package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// entries returns the total of the log counters and the number of log entries.
func entries(t *testing.T, s *Store) (counted, stored int) {
	t.Helper()
	return number(t, s, `SELECT COALESCE(sum(n), 0) FROM vault_log_counts`), number(t, s, `SELECT count(*) FROM vault_logs`)
}

func logs(n int) []storage.Log {
	all := make([]storage.Log, n)
	for i := range all {
		all[i] = logEntry()
	}
	return all
}

// All entries of a transaction are inserted, however many there are. If the id
// of one entry is taken, only its change is rejected.
func TestTakenLogIDRejectsOnlyItsChange(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		for taken := -1; taken < n; taken += 2 {
			t.Run(fmt.Sprintf("%d, %d taken", n, taken), func(t *testing.T) {
				t.Parallel()
				s := open(t, newPath(t))
				there := logEntry()
				write(t, s, &storage.Change{Tenant: tenant, Logs: []storage.Log{there}})
				var g group
				for _, l := range logs(n) {
					g.calls = append(g.calls, &call{change: &storage.Change{Tenant: tenant, Logs: []storage.Log{l}}, rows: 1})
				}
				want := 1 + n
				if taken >= 0 {
					g.calls[taken].change.Logs[0].ID = there.ID
					want--
				}
				s.writes.writer.run(&g)
				for i, c := range g.calls {
					if refused := errors.Is(c.err, storage.ErrExists); refused != (i == taken) || c.err != nil && !refused {
						t.Errorf("change %d: %v", i, c.err)
					}
				}
				if counted, stored := entries(t, s); counted != want || stored != want {
					t.Errorf("counted %d and stored %d entries, want %d", counted, stored, want)
				}
			})
		}
	}
}

// The error of a change names the entry whose id is taken, and nothing of the
// change is stored.
func TestErrorNamesTheTakenLogEntry(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{0, 5, 8, 10} {
		s := open(t, newPath(t))
		there := logEntry()
		write(t, s, &storage.Change{Tenant: tenant, Logs: []storage.Log{there}})
		c := insert(token("a"))
		c.Logs = logs(11)
		c.Logs[taken].ID = there.ID
		err := s.Write(t.Context(), c)
		if !errors.Is(err, storage.ErrExists) || !strings.Contains(err.Error(), fmt.Sprintf("a log entry (row %d)", taken)) {
			t.Errorf("entry %d: %v", taken, err)
		}
		counted, stored := entries(t, s)
		_, tokens := total(t, s)
		must.Same(t, "entries counted and stored, and tokens", []int{1, 1, 0}, []int{counted, stored, tokens})
	}
}

// A call in a transaction sees the entries of the calls before it.
func TestLaterCallsSeeEarlierLogEntries(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	seen := 0
	count := func(w *writer) error {
		return w.on.Query(background, `SELECT count(*) FROM vault_logs`, func(row direct.Row) error {
			seen = int(row[0].(int64))
			return nil
		})
	}
	g := group{calls: []*call{{change: &storage.Change{Tenant: tenant, Logs: logs(3)}, rows: 3}, {inside: count, rows: 1}}}
	s.writes.writer.run(&g)
	if seen != 3 || g.calls[1].err != nil {
		t.Errorf("it sees %d entries, want 3 (%v)", seen, g.calls[1].err)
	}
}

// A failed call leaves no entries for the next call to insert, even if it has
// applied a change.
func TestFailedCallLeavesNoLogEntries(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	fail := func(w *writer) error {
		return errors.Join(w.applyChange(&storage.Change{Tenant: tenant, Logs: logs(3)}), errors.New("broken"))
	}
	g := group{calls: []*call{{inside: fail, rows: 1}, {change: &storage.Change{Tenant: tenant, Logs: logs(1)}, rows: 1}}}
	s.writes.writer.run(&g)
	counted, stored := entries(t, s)
	if g.calls[0].err == nil || g.calls[1].err != nil || counted != 1 || stored != 1 {
		t.Errorf("%v and %v; counted %d and stored %d entries, want 1", g.calls[0].err, g.calls[1].err, counted, stored)
	}
}

// A transaction has a higher number than entries that another connection wrote
// since the last transaction, and than all earlier ones.
func TestNumbersOfLogEntriesRise(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	other := must.Get(s.OpenDB())(t)
	t.Cleanup(func() { _ = other.Close() })
	last := 0
	for round := range 6 {
		if round%2 == 1 { // another process whose clock is ahead
			must.Get(other.Exec(`UPDATE vault_logs SET seq = seq + 3600000000`))(t)
			last = number(t, s, `SELECT max(seq) FROM vault_logs`)
		}
		l := logEntry()
		write(t, s, &storage.Change{Tenant: tenant, Logs: []storage.Log{l}})
		n := number(t, s, fmt.Sprintf(`SELECT seq FROM vault_logs WHERE id = x'%x'`, l.ID[:]))
		if n <= last {
			t.Errorf("round %d: the number is %d, want more than %d", round, n, last)
		}
		last = n
	}
}
