package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// rowReader reads the rows of a query, and reads them again after a lost
// connection.
type rowReader struct {
	dest    []Field
	restart func() // discards the rows read so far; nil if that is impossible
	row     func() error

	begun bool
	ended error // the error of a row
}

// read reads the rows of a result.
func (r *rowReader) read(rows *sql.Rows, err error) (again bool, _ error) {
	if err != nil {
		return r.again(), err
	}
	defer rows.Close()
	r.begin()
	columns := make([]any, len(r.dest))
	for i := range r.dest {
		columns[i] = &r.dest[i]
	}
	for r.ended == nil && rows.Next() {
		_ = r.take(rows.Scan(columns...))
	}
	return r.again(), errors.Join(rows.Err(), rows.Close())
}

// readPrepared reads the rows of a prepared query.
func (r *rowReader) readPrepared(ctx context.Context, l *readConn, query string, args []any) (again bool, _ error) {
	r.begin()
	err := l.list(ctx, query, args, func(columns direct.Row) error { return r.take(Scan(columns, r.dest)) })
	if r.ended != nil {
		err = nil // it is not an error of the connection
	}
	return r.again(), err
}

// begin discards the rows that were read before the connection was lost.
func (r *rowReader) begin() {
	if r.begun {
		r.begun = false
		r.restart()
	}
}

// take handles a scanned row.
func (r *rowReader) take(scanned error) error {
	r.begun = true
	if r.ended = scanned; scanned == nil {
		r.ended = r.row()
	}
	return r.ended
}

// again reports whether the query may be repeated. A query that a row has ended
// is over, even if the connection is lost afterwards.
func (r *rowReader) again() bool { return r.ended == nil && (!r.begun || r.restart != nil) }

// anys returns the values as arguments of a query.
func anys[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}

// readRows appends the rows of a query to found. dest scans into row. The rows may hold
// most bytes, if that is not zero; size returns the bytes of a row.
func readRows[T any](ctx context.Context, s *Store, found []T, most int, query clause, row *T, dest []Field, size func(*T) int) ([]T, error) {
	page, before := pageBytes{most: most}, len(found)
	restart := func() { found, page = found[:before], pageBytes{most: most} }
	err := s.until(ctx, query.text, query.args, dest, restart, func() error {
		found = append(found, *row)
		return page.add(size(row))
	})
	return found, err
}

// pageBytes checks the size of the rows of a page against a limit, if there is
// one.
type pageBytes struct{ most, rows, bytes int }

func (p *pageBytes) add(bytes int) error {
	p.rows++
	p.bytes += bytes
	if p.most > 0 && p.rows > 1 && p.bytes > p.most {
		return storage.ErrTooLarge
	}
	return nil
}

// within is a transaction of the application that a Store reads in. Its lock is
// held while a statement runs, because two statements cannot share a
// connection.
type within struct {
	lock sync.Locker
	tx   storage.SQLTx
}

// Within returns a Store that reads in a transaction of the application, on the
// connection of that transaction. It holds the lock during each statement. The
// dialect is for that connection; nothing is prepared on it.
func (s *Store) Within(tx storage.SQLTx, lock sync.Locker, d Dialect) *Store {
	return &Store{db: s.db, dialect: d, closed: s.closed, within: &within{lock, tx}, texts: s.texts, piece: s.piece}
}

func (w *within) one(ctx context.Context, text string, row func(direct.Row) error, args []any) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return direct.QueryTx(ctx, w.tx, text, row, args...)
}

func (w *within) list(ctx context.Context, query string, args []any, read func(*sql.Rows, error) (bool, error)) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	_, err := read(w.tx.QueryContext(ctx, query, args...)) //nolint:rowserrcheck // read does
	return err
}
