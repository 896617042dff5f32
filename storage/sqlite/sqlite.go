// Package sqlite stores a vault in a SQLite database: one file, or memory.
//
//	store, err := sqlite.Open(ctx, "vault.db")
//
// All writes share one connection, and concurrent writes share a transaction.
// Reads have separate connections and never wait for a write, except in a
// database in memory. When Write returns, its change is on disk. Several
// processes may have the same file open.
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

// reader is an alias, so that the embedded field of Store is not exported.
type reader = sqlstore.Store

// Store is a [storage.Storage] in a SQLite database.
type Store struct {
	*reader
	readers  *sql.DB
	writes   *queue
	identity identity
	room     room
	closing  sync.Once
	closed   error // the result of closing
}

// Open opens the database at the path. If the file does not exist, Open creates
// it, readable only by its owner. The path ":memory:" means a new database in
// memory, which is lost after Close.
//
// Open migrates the schema, and fails with [storage.ErrNewerSchema] if it is
// too new for this version. All names of tables and indexes start with vault_,
// so that the application may keep its own tables in the same file. Open fails
// with [storage.ErrNameTaken] if one of them has a name that the vault needs.
func Open(ctx context.Context, path string) (*Store, error) { return OpenOptions(ctx, path, nil) }

// Options configure the use of a database.
type Options struct {
	// Migrate selects what opening does about missing migrations. The default
	// runs them.
	Migrate storage.MigrateMode

	// WriteWait is how long a call waits while another process or a transaction
	// of the application holds the write lock. Then it fails with
	// [storage.ErrUnavailable]. Zero means 30 seconds.
	WriteWait time.Duration

	// added are migrations after the program's own. Tests invent one.
	added []storage.Migration
}

const defaultWriteWait = 30 * time.Second

// OpenOptions is like Open, with options. opts may be nil.
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
	s.room.record(err)
	return err
}

// room records when a change last found the disk full.
type room struct{ lacking atomic.Int64 } // Unix time in nanoseconds; 0 if the last change found space

// believeFull is how long a disk counts as full after a change found it full.
// Ping writes little, which may fit where changes do not.
const believeFull = 10 * time.Second

func (r *room) record(err error) {
	switch code := codeOf(err); {
	case code == sqlite3.SQLITE_FULL || code == sqlite3.SQLITE_IOERR:
		r.lacking.Store(time.Now().UnixNano())
	case err == nil && r.lacking.Load() != 0:
		r.lacking.Store(0)
	}
}

var errNoRoom = fmt.Errorf("%w: sqlite: the last change found no room on the disk", storage.ErrUnavailable)

// Ping implements [storage.Storage]. It writes a row unchanged, without waiting
// for the disk. If a change has just found the disk full, it fails without
// writing.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.reader.Ping(ctx); err != nil {
		return err
	}
	if time.Since(time.Unix(0, s.room.lacking.Load())) < believeFull {
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

// Pools returns the statistics of the connection pool of reads.
func (s *Store) Pools() map[string]sql.DBStats {
	return map[string]sql.DBStats{"readers": s.readers.Stats()}
}
