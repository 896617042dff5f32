package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

var _ storage.TxStorage = (*Store)(nil)

// Beside implements [storage.TxStorage]. It returns false, because a SQLite
// database has one writer.
func (s *Store) Beside() bool { return false }

// InTx implements [storage.TxStorage]. It takes the write lock, which the
// transaction keeps until it ends. The application should begin the transaction
// with _txlock=immediate, because a transaction that has already read may not
// be able to get the lock any more. Deleted data stays in the files unless the
// application's connection has PRAGMA secure_delete.
func (s *Store) InTx(ctx context.Context, tx storage.SQLTx) (storage.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := &txStore{w: &writer{tx: tx, file: s.writes.writer.file, counts: newCountChanges(), knownSets: map[setKey]struct{}{}, seqs: seqs{}, known: newKnown()}}
	if err := s.isOurs(t.w); err != nil {
		return nil, err
	}
	if _, err := t.w.exec(stmtLock); err != nil {
		return nil, txError(describe("taking the write lock", err))
	}
	t.reader = s.reader.Within(tx, &t.mu, dialect)
	return t, nil
}

// OpenDB opens a connection pool to the same database for an application. The
// application may keep its own tables there, under names that do not start with
// vault_, and begin transactions for [storage.TxStorage].
//
// Transactions begin with the write lock, and wait for it as long as the vault
// does. This is the only way to connect to a database in memory. The caller
// closes the pool.
func (s *Store) OpenDB() (*sql.DB, error) {
	f := s.writes.writer.file
	db, err := f.open(f.appSettings(s.writes.writer.wait), 0)
	if err != nil {
		return nil, describe("opening a pool for the application", err)
	}
	return db.DB, nil
}

// isOurs checks that a transaction is on this database. It compares the id of
// the database and, because a copy has the same id, also the file.
func (s *Store) isOurs(w *writer) error {
	theirs, err := readIdentity(w)
	switch {
	case codeOf(err) == sqlite3.SQLITE_ERROR: // it has no such table
		return storage.ErrOtherDatabase
	case err != nil:
		return txError(describe("looking at the transaction", err))
	case !bytes.Equal(theirs.id, s.identity.id) || !sameFile(theirs.file, s.identity.file):
		return storage.ErrOtherDatabase
	}
	return nil
}

// identity distinguishes a database from all others.
type identity struct {
	id   []byte
	file string // empty in memory
}

func readIdentity(w *writer) (identity, error) {
	var is identity
	err := w.query(stmtIdentity, func(row direct.Row) error {
		id, _ := row[0].([]byte)
		is.id = bytes.Clone(id)
		is.file, _ = row[1].(string)
		return nil
	})
	return is, err
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// txStore is a database inside a transaction of the application.
type txStore struct {
	*reader
	mu sync.Mutex // held while the connection is in use
	w  *writer
}

// Write implements [storage.Tx]. Unlike the writer, it remembers nothing after
// a change, because a rollback would make it wrong.
func (t *txStore) Write(ctx context.Context, c *storage.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.w.exec(stmtSavepoint); err != nil {
		return txError(describe("writing", err))
	}
	err := t.w.applyHeld(c)
	clear(t.w.knownSets)
	clear(t.w.seqs)
	t.w.known.forget()
	t.w.sets = t.w.sets[:0]
	t.w.counts.all = t.w.counts.all[:0]
	if err != nil {
		if _, undo := t.w.exec(stmtRollbackTo); undo != nil {
			return txError(err)
		}
	}
	if _, release := t.w.exec(stmtRelease); err == nil && release != nil {
		err = describe("writing", release)
	}
	return txError(err)
}

// applyHeld applies a change and writes its counts, if the record that it holds
// has not changed. The lock of the transaction keeps the record unchanged.
func (w *writer) applyHeld(c *storage.Change) error {
	if err := w.hold(c); err != nil {
		return err
	}
	if err := w.applyChange(c); err != nil {
		return err
	}
	return w.writeCounts()
}

// txError returns the error for a failure in a transaction of the application.
func txError(err error) error {
	if codeOf(err) == sqlite3.SQLITE_READONLY {
		return storage.ErrReadOnly
	}
	return unavailable(err)
}

// unavailable marks transient errors: another transaction has the lock, or the
// file cannot be read or written for now.
func unavailable(err error) error {
	switch codeOf(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		if codeOf(err) == sqlite3.SQLITE_BUSY && !errors.Is(err, storage.ErrUnavailable) {
			return fmt.Errorf("%w: another transaction holds the write lock (if it is one of this program, use a client of InTx in it): %w", storage.ErrUnavailable, err)
		}
		if !errors.Is(err, storage.ErrUnavailable) {
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
	}
	return err
}
