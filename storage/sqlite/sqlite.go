// Package sqlite keeps a vault in a SQLite database: one file, or memory.
//
//	store, err := sqlite.Open(ctx, "vault.db")
//
// Writes of all callers share one connection and, when they come at the same
// time, one transaction; reads have connections of their own and, but for a
// database in memory, never wait for a write. What Write has acknowledged is on
// the disk. Several processes may have the same file open.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

var _ storage.Storage = (*Store)(nil)

// reader hides the field that the reads are promoted from.
type reader = sqlstore.Store

// Store is a [storage.Storage] in a SQLite database.
type Store struct {
	*reader
	readers  *sql.DB
	writes   *queue
	identity identity
	room     room
	closing  sync.Once
	closed   error // what closing returned
}

// Open opens the database at the path, creating it, readable by its owner
// alone, if there is none. The path ":memory:" stands for a new database in
// memory, which is gone after Close.
//
// Open brings the schema up to date, or fails with [storage.ErrNewerSchema]. All
// tables and indexes begin with vault_, so that the application may have its own
// in the same file; if it has one under a name that the vault needs, Open fails
// with [storage.ErrNameTaken].
func Open(ctx context.Context, path string) (*Store, error) { return OpenOptions(ctx, path, nil) }

// Options change how a database is used.
type Options struct {
	// Migrate says what opening does about migrations that the database lacks.
	// The default runs them.
	Migrate storage.MigrateMode

	// WriteWait is how long a call waits while another process, or a transaction
	// of the application, holds the write lock of the database, before it fails
	// with [storage.ErrUnavailable]. 30 seconds when zero.
	WriteWait time.Duration
}

const defaultWriteWait = 30 * time.Second

// OpenOptions opens the database as Open does. opts may be nil.
func OpenOptions(ctx context.Context, path string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.WriteWait <= 0 {
		o.WriteWait = defaultWriteWait
	}
	s, err := openStore(ctx, path, &o)
	if err == nil && o.Migrate == storage.MigrateOnly {
		return s, s.Close()
	}
	return s, err
}

func openStore(ctx context.Context, path string, o *Options) (*Store, error) {
	opening := "opening " + strconv.Quote(path)
	file, err := locate(path)
	if err != nil {
		return nil, describe(opening, err)
	}
	w, err := openWriter(ctx, file, o)
	if err != nil {
		return nil, describe(opening, err)
	}
	is, err := readIdentity(w)
	if err != nil {
		return nil, errors.Join(describe(opening, err), w.close())
	}
	readers, err := openReaders(ctx, file, o)
	if err != nil {
		return nil, errors.Join(describe(opening, err), w.close())
	}
	reads, err := sqlstore.New(ctx, readers, dialect)
	if err != nil {
		return nil, errors.Join(describe(opening, err), readers.Close(), w.close())
	}
	return &Store{reader: reads, readers: readers.DB, writes: newQueue(w), identity: is}, nil
}

// Close implements [storage.Storage].
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.writes.stop()
		s.reader.Close()
		s.closed = errors.Join(s.readers.Close(), s.writes.writer.close())
	})
	return s.closed
}

// Write implements [storage.Writer].
func (s *Store) Write(ctx context.Context, c *storage.Change) error {
	err := s.writes.do(ctx, call{change: c, rows: rowsOf(c)})
	s.room.note(err)
	return err
}

// room is when a change last found no room on the disk.
type room struct{ lacking atomic.Int64 } // Unix time in nanoseconds; 0 when the last one found some

// believeFull is for how long a disk counts as full after a change found it so.
// What Ping writes is small, and may fit where changes do not.
const believeFull = 10 * time.Second

func (r *room) note(err error) {
	switch code := codeOf(err); {
	case code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR:
		r.lacking.Store(time.Now().UnixNano())
	case err == nil && r.lacking.Load() != 0:
		r.lacking.Store(0)
	}
}

func (r *room) isLacking() bool { return time.Since(time.Unix(0, r.lacking.Load())) < believeFull }

var errNoRoom = fmt.Errorf("%w: sqlite: the last change found no room on the disk", storage.ErrUnavailable)

// Ping implements [storage.Storage]. It writes a row as it is, without waiting for
// the disk, unless a change has just found that full.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.reader.Ping(ctx); err != nil {
		return err
	}
	if s.room.isLacking() {
		return errNoRoom
	}
	written := make(chan error, 1)
	go func() {
		written <- s.writes.do(ctx, call{lazy: true, inside: func(w *writer) error {
			_, err := w.exec(stmtTouch)
			return err
		}})
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done(): // another transaction holds the write lock
		return ctx.Err()
	}
}

func rowsOf(c *storage.Change) int {
	return len(c.InsertTokens) + len(c.UpdateTokens) + len(c.DeleteTokens) +
		len(c.InsertRecords) + len(c.UpdateRecords) + len(c.DeleteRecords) +
		len(c.InsertJobs) + len(c.UpdateJobs) + len(c.DeleteJobs) + len(c.Reseal) + len(c.Logs)
}

// Pools returns the state of the pool of connections that read.
func (s *Store) Pools() map[string]sql.DBStats {
	return map[string]sql.DBStats{"readers": s.readers.Stats()}
}
