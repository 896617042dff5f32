package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	// checkpointRows is the number of rows after which the checkpointer wakes.
	// It is low enough to leave few pages for a writer to move. It is high
	// enough that pages which change all the time are not moved in vain.
	checkpointRows = 700
	// checkpointPages is the same limit, in pages, for transactions that only
	// log reads. An entry touches about two pages and a transaction two more.
	// With many tenants it is half as many again, which must stay below
	// autoCheckpoint.
	checkpointPages = 5_000
	// autoCheckpoint is the number of pages in the log at which a writer moves
	// them itself. SQLite then syncs the database, which is the longest wait of
	// a commit and grows with this number. At 4,000 the wait is a sixth
	// shorter, but callers create a tenth fewer tokens.
	autoCheckpoint = 8_000
	// idleAfter is the time without a write after which the log is emptied.
	// Otherwise the log keeps its largest size.
	idleAfter = 2 * time.Second
	// truncateTimeout is how long emptying the log waits for readers. All other
	// writes wait with it.
	truncateTimeout = 250 * time.Millisecond
	// ampleSpace is twice the bytes of a log of autoCheckpoint pages: enough for the
	// log, and for the database to take in its pages.
	ampleSpace = 2 * autoCheckpoint * 4096
	// spacePause is how long the writer relies on the space that it has seen.
	spacePause = 5 * time.Millisecond
)

// checkpointer moves pages from the write-ahead log to the database while the
// writer continues. It cannot empty the log. The writer does that at the next
// commit after all pages have been moved, and moves the rest itself when the
// log has grown long (wal_autocheckpoint). When writes stop, the checkpointer
// empties the log and truncates its file.
//
// Compared with a writer that moves every 4,000 pages itself, 32 callers
// created 1, 10 and 18 % more tokens in three quiet runs. The longest wait was
// the same, 28 to 58 ms. A writer that moves every 1,000 pages halves that
// wait, but creates a fifth fewer tokens. In one such run there were 11 % more
// reads with the checkpointer at 8 callers, and 13 % fewer at 32.
type checkpointer struct {
	db   *sqlx.DB
	conn *sql.Conn

	moving sync.Mutex // held during a checkpoint
	filled float64    // how close the next wake-up is, from 0 to 1; used only by the writer
	due    chan struct{}
	ended  chan struct{}

	commits atomic.Int64
	asleep  atomic.Bool   // nothing has been written since the log was emptied
	awake   chan struct{} // signals the end of asleep
}

// startCheckpointer returns nil for a database in memory, which has no log.
func startCheckpointer(ctx context.Context, f file, idleAfter time.Duration) (*checkpointer, error) {
	if f.memory {
		return nil, nil
	}
	settings := f.writerSettings()
	db, err := f.open(settings, 1)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, db, settings)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	c := newCheckpointer(db, conn)
	go c.work(idleAfter)
	return c, nil
}

func newCheckpointer(db *sqlx.DB, conn *sql.Conn) *checkpointer {
	c := &checkpointer{db: db, conn: conn, due: make(chan struct{}, 1), ended: make(chan struct{}), awake: make(chan struct{}, 1)}
	c.asleep.Store(true)
	return c
}

// wrote records how many rows a transaction has written, and whether they are
// log entries of reads. It reports whether it woke the checkpointer. It never
// blocks.
func (c *checkpointer) wrote(rows int, reads bool) (woke bool) {
	if c == nil {
		return false
	}
	c.commits.Add(1)
	if c.asleep.Load() && c.asleep.CompareAndSwap(true, false) {
		c.awake <- struct{}{} // never blocks, because the value is received before asleep is set again
	}
	if reads {
		c.filled += float64(2*rows+2) / checkpointPages
	} else {
		c.filled += float64(rows) / checkpointRows
	}
	if c.filled < 1 {
		return false
	}
	c.filled = 0
	select {
	case c.due <- struct{}{}:
	default: // a checkpoint is running and another will follow
	}
	return true
}

// limitLog moves the pages of a long log. SQLite does so at a commit only while
// the checkpointer does not run, so a slow checkpointer would let the log grow
// without a limit.
func (w *writer) limitLog() {
	var busy, pages, moved int
	err := w.conn.QueryRowContext(background, `PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &pages, &moved)
	if err == nil && pages >= autoCheckpoint && moved < pages {
		w.checkpoints.move("PASSIVE")
	}
}

func (c *checkpointer) work(idleAfter time.Duration) {
	defer close(c.ended)
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	idle.Stop()
	seen := int64(0)
	for {
		select {
		case _, open := <-c.due:
			if !open {
				return
			}
			c.move("PASSIVE")
		case <-c.awake:
			idle.Reset(idleAfter)
		case <-idle.C:
			if n := c.commits.Load(); n != seen {
				seen = n
				idle.Reset(idleAfter)
				continue
			}
			c.move("PASSIVE") // first, because emptying the log blocks writers
			c.move("TRUNCATE")
			c.asleep.Store(true)
		}
	}
}

// move moves pages. It ignores errors, because the pages stay in the log, and
// the writer gets the same error when it has to move them.
func (c *checkpointer) move(mode string) {
	c.moving.Lock()
	defer c.moving.Unlock()
	_, _ = c.conn.ExecContext(background, `PRAGMA wal_checkpoint(`+mode+`)`)
}

// stop waits for a running checkpoint and closes the connection.
func (c *checkpointer) stop() error {
	if c == nil {
		return nil
	}
	close(c.due)
	<-c.ended
	_ = c.conn.Close()
	return c.db.Close()
}

// truncate moves all pages of the write-ahead log to the database and empties
// the log. It is not an error if a reader prevents that.
func (w *writer) truncate() error {
	if w.file.memory {
		return nil
	}
	if w.checkpoints != nil {
		w.checkpoints.moving.Lock()
		defer w.checkpoints.moving.Unlock()
	}
	if err := w.setBusyTimeout(truncateTimeout); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(background, `PRAGMA wal_checkpoint(TRUNCATE)`)
	if isBusy(err) {
		err = nil
	}
	if err != nil {
		err = describe("emptying the write-ahead log", err)
	}
	return errors.Join(err, w.setBusyTimeout(0))
}

// makeRoom empties the write-ahead log after a transaction while the disk has
// less than ampleSpace left. SQLite cannot move pages to a database that has no
// room to grow, so a log that has filled the disk would stay there for ever.
// Pages that a reader still needs stay in the log until a later transaction.
//
// It looks after a transaction that failed, and otherwise once per spacePause.
// Looking after each transaction took 1 to 2 % of the CPU time of a call at 1
// caller. While space is short, each look also syncs the database.
func (w *writer) makeRoom(failed error) {
	if w.checkpoints == nil {
		return
	}
	now := time.Now()
	if failed == nil && now.Sub(w.looked) < spacePause {
		return
	}
	w.looked = now
	free, err := freeSpace(filepath.Dir(w.file.path))
	if err != nil || free >= ampleSpace {
		return
	}
	w.checkpoints.move("TRUNCATE")
}

func (w *writer) setBusyTimeout(d time.Duration) error {
	_, err := w.conn.ExecContext(background, fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
	return err
}
