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
	// checkpointRows is after how many rows the checkpointer is woken: often
	// enough that few pages are left for a writer to move, and seldom enough that
	// those which change all the time are not moved in vain.
	checkpointRows = 700
	// checkpointPages is the same for transactions of nothing but log entries of
	// reads, in pages, of which an entry touches about two and a transaction two
	// more. If they are of many tenants it is half as many again, which must not
	// come to autoCheckpoint.
	checkpointPages = 5_000
	// autoCheckpoint is how many pages in the log make a writer move them itself.
	// SQLite then syncs the database, which is the longest wait of a commit, and
	// grows with it: at 4,000 it is a sixth shorter, and a tenth fewer tokens are
	// created.
	autoCheckpoint = 8_000
	// idleAfter is after what time without a write the log is emptied, which
	// otherwise keeps the size that it once had.
	idleAfter = 2 * time.Second
	// truncateTimeout is for how long emptying the log, and all other writes
	// with it, waits for readers.
	truncateTimeout = 250 * time.Millisecond
	// ampleSpace is twice the bytes of a log of autoCheckpoint pages: enough for the
	// log, and for the database to take in its pages.
	ampleSpace = 2 * autoCheckpoint * 4096
)

// checkpointer moves pages from the write-ahead log to the database while the
// writer goes on. It cannot empty the log: that is left to the writer, which
// does it at the next commit that finds everything moved, and moves what is
// left itself when the log has grown long (wal_autocheckpoint). When nothing is
// written any more, the checkpointer empties the log and cuts its file off.
//
// Over a writer that moves every 4,000 pages itself, 32 callers create 1, 10 and
// 18 % more tokens in three quiet runs, and wait as long at worst: 28 to 58 ms. A
// writer that moves every 1,000 pages halves that wait, for a fifth fewer tokens.
// Reads were 11 % more with it at 8 callers, and 13 % fewer at 32, in one such run
// (BenchmarkPauses).
type checkpointer struct {
	db   *sqlx.DB
	conn *sql.Conn

	moving sync.Mutex // held for the length of a checkpoint
	filled float64    // how near the next wake is, from 0 to 1; the writer's
	due    chan struct{}
	ended  chan struct{}

	commits atomic.Int64
	asleep  atomic.Bool   // nothing has been written since the log was emptied
	awake   chan struct{} // tells that this is over
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

// wrote tells how many rows a transaction has written, and whether those are
// log entries of reads. It never waits.
func (c *checkpointer) wrote(rows int, reads bool) {
	if c == nil {
		return
	}
	c.commits.Add(1)
	if c.asleep.Load() && c.asleep.CompareAndSwap(true, false) {
		c.awake <- struct{}{} // there is room: it is taken before it sleeps again
	}
	if reads {
		c.filled += float64(2*rows+2) / checkpointPages
	} else {
		c.filled += float64(rows) / checkpointRows
	}
	if c.filled < 1 {
		return
	}
	c.filled = 0
	select {
	case c.due <- struct{}{}:
	default: // one is under way and another will follow
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
			c.move("PASSIVE") // first, since to empty the log keeps writers out
			c.move("TRUNCATE")
			c.asleep.Store(true)
		}
	}
}

// move moves pages. An error needs no report: they stay in the log, and the
// writer gets the same error when it has to move them.
func (c *checkpointer) move(mode string) {
	c.moving.Lock()
	defer c.moving.Unlock()
	_, _ = c.conn.ExecContext(background, `PRAGMA wal_checkpoint(`+mode+`)`)
}

// stop waits for a checkpoint under way and closes the connection.
func (c *checkpointer) stop() error {
	if c == nil {
		return nil
	}
	close(c.due)
	<-c.ended
	_ = c.conn.Close()
	return c.db.Close()
}

// truncate moves what is in the write-ahead log to the database and empties the
// log. That it could not, because of a reader, is no error.
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

// makeRoom empties the write-ahead log after a transaction while the disk has less
// than ampleSpace left. SQLite cannot move pages into a database that has no room
// to grow, so a log that has filled the disk would stay there for ever. Pages that
// a reader still needs stay in the log until a later transaction.
//
// The check takes about a microsecond for each transaction. While space is short,
// each transaction syncs the database too.
func (w *writer) makeRoom() {
	if w.checkpoints == nil {
		return
	}
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
