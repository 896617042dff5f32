package sqlite

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func size(t *testing.T, path string) int64 {
	t.Helper()
	info := must.Get(os.Stat(path))(t)
	return info.Size()
}

// Pages reach the database during writes, long before the writer would move
// them itself, but not before there are enough.
func TestPagesAreMovedInTheBackground(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	entries := make([]storage.Log, checkpointRows-1)
	for i := range entries {
		entries[i] = logEntry()
	}
	write(t, s, &storage.Change{Tenant: newID(), Logs: entries})
	before := size(t, path)

	write(t, s, insert(token("last")))
	s.writes.stop()
	c := s.writes.writer.checkpoints
	must.Do(t, c.stop())
	if after := size(t, path); after <= before {
		t.Errorf("the database has %d bytes before a checkpoint and %d after it", before, after)
	}
	s.writes.writer.checkpoints = nil // already stopped
}

// Log entries of reads wake the checkpointer later than rows of tokens do, but
// before the log is so long that a commit has to move its pages.
func TestReadsWakeTheCheckpointerByPages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rows  int
		reads bool
		want  int // transactions until it wakes
	}{
		{1, false, checkpointRows},
		{30, false, checkpointRows / 30},
		{1, true, checkpointPages / 4},
		{49, true, checkpointPages / 100},
	} {
		c := newCheckpointer(nil, nil)
		n := 0
		for len(c.due) == 0 {
			c.wrote(test.rows, test.reads)
			n++
		}
		if n < test.want || n > test.want+1 {
			t.Errorf("%d rows at a time, reads %v: woken after %d transactions, want %d", test.rows, test.reads, n, test.want)
		}
	}
}

// The log stays small, however much is written. While a checkpoint runs, SQLite
// leaves the pages in the log.
func TestLogSizeIsBounded(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{false, true} {
		path := newPath(t)
		s := open(t, path)
		if w := s.writes.writer; runs {
			must.Get(w.conn.ExecContext(t.Context(), `PRAGMA wal_autocheckpoint = 0`))(t)
			started := w.checkpoints
			defer func() { w.checkpoints = started }()
			w.checkpoints = newCheckpointer(started.db, started.conn)
		}
		const frame, limit = 4096 + 24, autoCheckpoint + 4_000
		for range 40 {
			tokens := make([]storage.Token, 500)
			for i := range tokens {
				tokens[i] = token(fmt.Sprintf("%x", newID()))
				tokens[i].Body = make([]byte, 8000)
			}
			write(t, s, insert(tokens...))
		}
		if got := size(t, path+"-wal"); got > limit*frame {
			t.Errorf("a checkpoint runs: %v: the log has %d bytes, more than %d", runs, got, limit*frame)
		}
	}
}

// The log of an idle database is emptied, each time after it has been written.
func TestIdleDatabaseEmptiesItsLog(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	c := s.writes.writer.checkpoints
	if err := c.stop(); err != nil { // it would wait too long
		t.Fatal(err)
	}
	quick := must.Get(startCheckpointer(t.Context(), s.writes.writer.file, time.Millisecond))(t)
	s.writes.writer.checkpoints = quick
	for i := range 3 {
		write(t, s, insert(token(fmt.Sprint("token ", i))))
		for size(t, path+"-wal") > 0 {
			runtime.Gosched()
		}
	}
	if _, tokens := total(t, s); tokens != 3 {
		t.Errorf("%d tokens are left, want 3", tokens)
	}
}
