package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

const (
	busyTimeout = 10 * time.Second // for every connection except the writer's
	openPause   = 5 * time.Millisecond
	maxReaders  = 4   // for single rows, and as many for lists
	maxExpanded = 100 // longest list whose values each get a placeholder
)

// file is the location of a database.
type file struct {
	path   string // empty in memory
	uri    string // without settings
	memory bool
}

// memories numbers the databases in memory, so that each has a different name.
var memories atomic.Int64

// locate returns the location of the database. If the file does not exist,
// locate creates an empty file that only its owner can read. SQLite gives its
// other files the same mode.
func locate(path string) (file, error) {
	if path == ":memory:" {
		return file{uri: fmt.Sprintf("file:/vault-%d?vfs=memdb&", memories.Add(1)), memory: true}, nil
	}
	if path == "" {
		return file{}, errors.New("the path is empty; use :memory: for a database in memory")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return file{}, err
	}
	path = follow(path)
	// Do not open an existing file, not even to inspect it. Closing it would
	// drop the locks that other connections of this process hold.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		err = f.Close()
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return file{path: path, uri: uri.String() + "?"}, err
}

// maxLinks limits a chain of symbolic links.
const maxLinks = 40

// follow returns the target of a path that is a symbolic link, whether or not
// the target exists. SQLite puts the log next to the target.
func follow(path string) string {
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// A setting is a PRAGMA and the value that it must have.
type setting struct{ name, value string }

func commonSettings(wait time.Duration) []setting {
	return []setting{
		{"busy_timeout", strconv.FormatInt(wait.Milliseconds(), 10)},
		{"temp_store", "2"}, // memory, so that sorting writes nothing to a file
	}
}

// writerSettings keep the cache small, at 2 MiB. Most transactions split index
// pages, and then look at every cached page when they commit.
func (f file) writerSettings() []setting {
	s := append(commonSettings(busyTimeout), setting{"secure_delete", "1"}, setting{"cache_size", "-2048"})
	if f.memory {
		return s
	}
	return append(s, setting{"journal_mode", "wal"}, setting{"synchronous", "2"}, setting{"wal_autocheckpoint", strconv.Itoa(autoCheckpoint)})
}

// readerSettings leave memory mapping off. It makes reads faster in a file
// without writes. But SQLite maps the file again after every change, and each
// read causes one, for its log entry.
//
// A write also empties the caches of all other connections. Reader caches are 1
// MiB, because a long index scan spends more on filling a larger cache than it
// saves.
func (f file) readerSettings(o *Options) []setting {
	wait := busyTimeout
	if f.memory {
		wait = o.WriteWait // as long as a writer waits, because in memory readers wait for writers
	}
	return append(commonSettings(wait), setting{"query_only", "1"}, setting{"cache_size", "-1024"})
}

// appSettings are the settings of an application's own connections.
func (f file) appSettings(wait time.Duration) []setting {
	s := append(commonSettings(wait), setting{"secure_delete", "1"}, setting{"foreign_keys", "1"})
	if f.memory {
		return s
	}
	return append(s, setting{"synchronous", "2"})
}

// writerTimeout is how long SQLite lets the writer wait. For a file it is zero,
// because the writer waits for other transactions in its own way. In memory a
// commit waits for readers.
func (f file) writerTimeout(o *Options) time.Duration {
	if f.memory {
		return min(busyTimeout, o.WriteWait)
	}
	return 0
}

// open returns a pool that opens connections when they are needed and keeps
// them. With 0 connections the pool has no limit.
func (f file) open(settings []setting, connections int) (*sqlx.DB, error) {
	parameters := make([]string, len(settings), len(settings)+1)
	for i, s := range settings {
		parameters[i] = "_pragma=" + url.QueryEscape(s.name+"("+s.value+")")
	}
	dsn := f.uri + strings.Join(append(parameters, "_txlock=immediate"), "&")
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	if connections > 0 {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return sqlx.NewDb(db, "sqlite"), nil
}

// connect returns a connection with its settings in effect. If two processes
// switch a new database to WAL at the same time, it may be busy despite the
// timeout, or one process may delete the journal before the other does.
func connect(ctx context.Context, db *sqlx.DB, settings []setting) (*sql.Conn, error) {
	deadline := time.Now().Add(busyTimeout)
	for {
		conn, err := db.Conn(ctx)
		if err == nil {
			return conn, check(ctx, conn, settings)
		}
		if !isBusy(err) && extendedCode(err) != sqlite3.SQLITE_IOERR_DELETE_NOENT || time.Now().After(deadline) {
			return nil, err
		}
		if err := pace.Sleep(ctx, openPause); err != nil {
			return nil, err
		}
	}
}

// check verifies that the settings have taken effect. SQLite ignores unknown
// settings and does not always fail for rejected values.
func check(ctx context.Context, conn *sql.Conn, settings []setting) error {
	for _, s := range settings {
		var value string
		if err := conn.QueryRowContext(ctx, "PRAGMA "+s.name).Scan(&value); err != nil {
			return errors.Join(fmt.Errorf("PRAGMA %s: %w", s.name, err), conn.Close())
		}
		if value != s.value {
			return errors.Join(fmt.Errorf("PRAGMA %s is %s and cannot be set to %s", s.name, value, s.value), conn.Close())
		}
	}
	return nil
}

func openWriter(ctx context.Context, f file, o *Options) (*writer, error) {
	settings := f.writerSettings()
	db, err := f.open(settings, 1)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, db, settings)
	if err == nil {
		err = conn.Close() // only opens the connection, which the pool keeps
	}
	if err == nil {
		err = migrate(ctx, db, o)
	}
	if err == nil {
		conn, err = db.Conn(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w := &writer{
		db: db.DB, conn: conn, file: f, on: direct.NewConn(conn), wait: o.WriteWait,
		stmts: make([]*direct.Stmt, len(statementTexts)), counts: newCountChanges(), knownSets: map[setKey]struct{}{}, seqs: seqs{}, known: newKnown(),
	}
	if w.checkpoints, err = startCheckpointer(ctx, f, idleAfter); err == nil {
		err = w.setBusyTimeout(f.writerTimeout(o))
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func openReaders(ctx context.Context, f file, o *Options) (*sqlx.DB, error) {
	settings := f.readerSettings(o)
	db, err := f.open(settings, dialect.Conns)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, db, settings)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, conn.Close()
}

// readersOfAKind returns the number of connections for single rows, which is
// also the number for lists. More than can run at once would only split the
// cache.
func readersOfAKind() int { return min(maxReaders, runtime.NumCPU()) }

var dialect = sqlstore.Dialect{
	Prepared:        true,
	ID:              func(id storage.ID) any { return id[:] },
	In:              in,
	Columns:         unnamed,
	Uninterrupted:   true,
	Conns:           2 * readersOfAKind(),
	Lists:           readersOfAKind(),
	LogsByType:      true,
	Position:        `instr(l.ids, ?) > 0`,
	CheckTenantLast: true,
	Error:           unavailable,
}

// unnamed turns columns into expressions with names of one letter, which saves 36
// of the 121 allocations of GetToken. The driver copies the names and declared
// types of all columns for each query. An expression has no declared type, and Go
// allocates nothing for a string of one byte.
func unnamed(columns string) string {
	return "+" + strings.ReplaceAll(columns, ",", " AS c, +") + " AS c"
}

// in gives each value of a short list a placeholder. A long list could have
// more values than a statement may have placeholders, so it becomes one text.
func in(column string, values []any) (string, []any) {
	if len(values) <= maxExpanded {
		return column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", values
	}
	decode := "unhex(value)"
	texts := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case []byte:
			texts[i] = hex.EncodeToString(v)
		case string:
			decode = "CAST(unhex(value) AS TEXT)"
			texts[i] = hex.EncodeToString([]byte(v))
		}
	}
	return column + " IN (SELECT " + decode + " FROM json_each(?))", []any{`["` + strings.Join(texts, `","`) + `"]`}
}

// describe adds what failed to an error. Errors of SQLite name tables and
// columns, but never contain their content.
func describe(doing string, err error) error {
	switch codeOf(err) {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return fmt.Errorf("sqlite: %s: %w; the file and its folder must be writable", doing, err)
	}
	return fmt.Errorf("sqlite: %s: %w", doing, err)
}

// codeOf returns the class of an error of SQLite.
func codeOf(err error) int { return extendedCode(err) & 0xff }

func extendedCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return sqlite3.SQLITE_OK
}

func isBusy(err error) bool { return codeOf(err) == sqlite3.SQLITE_BUSY }
