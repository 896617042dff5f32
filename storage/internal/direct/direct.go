// Package direct runs statements on the driver itself.
//
// A pool of [database/sql] looks for a connection and for the statement on it,
// and converts every argument, each time. To do without it wins 16 to 22 % of
// reads that log nothing, and 8 % of those that do, at 8 and 32 callers on both
// databases (BenchmarkGet).
package direct

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// Conn is a connection of one's own. It is used by one goroutine at a time, and
// the arguments of its statements must be what drivers know, nil, int64, bool,
// string and []byte, or an int. Neither arguments nor rows are kept.
type Conn struct {
	conn *sql.Conn
	args []driver.NamedValue // of the statement that runs
	row  Row                 // of the rows that it returns
}

// Row is a row as the driver has it: nil, int64, bool, string and []byte. The
// bytes may be the driver's own, and change when the next row is read.
type Row = []driver.Value

// Stmt is a prepared statement of a Conn.
type Stmt struct {
	conn *Conn
	stmt driver.Stmt
}

// NewConn returns a Conn on a connection, which stays the caller's to close,
// after the statements.
func NewConn(conn *sql.Conn) *Conn { return &Conn{conn: conn} }

var errDriver = errors.New("storage: the driver lacks an interface that the vault needs")

// Prepare prepares a statement.
func (c *Conn) Prepare(ctx context.Context, text string) (*Stmt, error) {
	s := &Stmt{conn: c}
	err := c.conn.Raw(func(on any) (err error) {
		preparer, ok := on.(driver.ConnPrepareContext)
		if !ok {
			return errDriver
		}
		s.stmt, err = preparer.PrepareContext(ctx, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Lost reports whether the connection is of no use any more.
func (c *Conn) Lost() bool {
	return c.conn.Raw(func(on any) error {
		if v, ok := on.(driver.Validator); ok && !v.IsValid() {
			return driver.ErrBadConn
		}
		return nil
	}) != nil
}

// Discard closes the connection instead of giving it back to its pool. Close
// the statements first: a database in this process may need it.
func (c *Conn) Discard() {
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Close releases the statement.
func (s *Stmt) Close() error {
	return s.conn.conn.Raw(func(any) error { return s.stmt.Close() })
}

// Exec runs a statement that is not prepared and whose rows do not matter.
func (c *Conn) Exec(ctx context.Context, text string, args ...any) (driver.Result, error) {
	var result driver.Result
	err := c.conn.Raw(func(on any) (err error) {
		execer, ok := on.(driver.ExecerContext)
		if !ok {
			return errDriver
		}
		defer c.forget()
		result, err = execer.ExecContext(ctx, text, c.named(args))
		return err
	})
	return result, err
}

// Query runs a statement that is not prepared, and calls row as [Stmt.Query]
// does.
func (c *Conn) Query(ctx context.Context, text string, row func(Row) error, args ...any) error {
	return c.conn.Raw(func(on any) error {
		queryer, ok := on.(driver.QueryerContext)
		if !ok {
			return errDriver
		}
		return c.each(row, func() (driver.Rows, error) { return queryer.QueryContext(ctx, text, c.named(args)) })
	})
}

// Exec runs a statement whose rows do not matter.
func (s *Stmt) Exec(ctx context.Context, args ...any) (driver.Result, error) {
	execer, ok := s.stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errDriver
	}
	var result driver.Result
	err := s.conn.conn.Raw(func(any) (err error) {
		defer s.conn.forget()
		result, err = execer.ExecContext(ctx, s.conn.named(args))
		return err
	})
	return result, err
}

// Query runs a statement and calls row with each of its rows, which are only
// good until row returns. An error that row returns ends it.
func (s *Stmt) Query(ctx context.Context, row func(Row) error, args ...any) error {
	queryer, ok := s.stmt.(driver.StmtQueryContext)
	if !ok {
		return errDriver
	}
	return s.conn.conn.Raw(func(any) error {
		return s.conn.each(row, func() (driver.Rows, error) { return queryer.QueryContext(ctx, s.conn.named(args)) })
	})
}

// each calls row with the rows of a query.
func (c *Conn) each(row func(Row) error, query func() (driver.Rows, error)) (err error) {
	defer c.forget()
	rows, err := query()
	if err != nil {
		return err
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	if width := len(rows.Columns()); cap(c.row) < width {
		c.row = make(Row, width)
	} else {
		c.row = c.row[:width]
	}
	for {
		switch err := rows.Next(c.row); {
		case err == io.EOF: //nolint:errorlint // as drivers say it; one that is wrapped is a failure
			return nil
		case err != nil:
			return err
		}
		if err := row(c.row); err != nil {
			return err
		}
	}
}

// Queryer is a pool, or a transaction of the application.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// QueryRow runs a statement without arguments and scans its only row.
func QueryRow(ctx context.Context, on Queryer, text string, places ...any) error {
	rows, err := on.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(places...); err != nil {
		return err
	}
	return rows.Close()
}

// QueryTx runs a statement in a transaction of the application, through
// [database/sql], and calls row as [Stmt.Query] does.
func QueryTx(ctx context.Context, tx Queryer, text string, row func(Row) error, args ...any) error {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, places := make(Row, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = (*any)(&values[i])
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// named returns arguments as drivers want them.
func (c *Conn) named(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args
}

// forget lets go of the values of the statement that has run.
func (c *Conn) forget() {
	clear(c.args)
	clear(c.row)
}
