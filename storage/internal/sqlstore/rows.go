package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// rowReader takes the rows of a query, and takes them again after their connection
// was lost.
type rowReader struct {
	dest    []sql.Scanner
	restart func() // forgets the rows so far; nil if they cannot be forgotten
	row     func() error

	begun bool
	ended error // by what a row has said
}

// read takes the rows of a result.
func (r *rowReader) read(rows *sql.Rows, err error) (again bool, _ error) {
	if err != nil {
		return r.again(), err
	}
	defer rows.Close()
	r.begin()
	for columns := anys(r.dest); r.ended == nil && rows.Next(); {
		_ = r.take(rows.Scan(columns...))
	}
	return r.again(), errors.Join(rows.Err(), rows.Close())
}

// readPrepared takes the rows of a query that is prepared.
func (r *rowReader) readPrepared(ctx context.Context, l *readConn, query string, args []any) (again bool, _ error) {
	r.begin()
	err := l.list(ctx, query, args, func(columns direct.Row) error { return r.take(Scan(columns, r.dest)) })
	if r.ended != nil {
		err = nil // it is not the connection's
	}
	return r.again(), err
}

// begin forgets what was taken before the connection was lost.
func (r *rowReader) begin() {
	if r.begun {
		r.begun = false
		r.restart()
	}
}

// take takes a row that was scanned.
func (r *rowReader) take(scanned error) error {
	r.begun = true
	if r.ended = scanned; scanned == nil {
		r.ended = r.row()
	}
	return r.ended
}

// again reports whether the query may be repeated. What a row has ended is over,
// even if the connection is lost behind it.
func (r *rowReader) again() bool { return r.ended == nil && (!r.begun || r.restart != nil) }
