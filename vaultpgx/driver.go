package vaultpgx

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

var errDriver = errors.New("vaultpgx: a transaction of pgx runs queries and nothing else")

// connector makes connections that are views of a transaction.
type connector struct{ transaction }

func (c connector) Connect(context.Context) (driver.Conn, error) { return conn(c), nil }

func (c connector) Driver() driver.Driver { return c }

func (c connector) Open(string) (driver.Conn, error) { return conn(c), nil }

// conn is a view of a transaction for [database/sql].
type conn struct{ transaction }

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errDriver }
func (conn) Begin() (driver.Tx, error)           { return nil, errDriver }
func (conn) Close() error                        { return nil }

// CheckNamedValue leaves the conversion of arguments to pgx.
func (conn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c conn) QueryContext(ctx context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	args := make([]any, 1, 1+len(named))
	args[0] = binary
	for _, n := range named {
		args = append(args, n.Value)
	}
	all, err := c.tx.Query(ctx, query, args...)
	if err != nil {
		return nil, c.explain(err)
	}
	r := &rows{rows: all, ahead: all.Next()} // also fetches the names of the columns
	if err := all.Err(); err != nil {
		all.Close()
		return nil, c.explain(err)
	}
	r.describe()
	return r, nil
}

// rows adapts rows of pgx to [database/sql].
type rows struct {
	rows    pgx.Rows
	ahead   bool // a row was fetched but not read yet
	names   []string
	columns []func(src []byte) (driver.Value, error)
}

func (r *rows) Columns() []string { return r.names }

func (r *rows) Close() error {
	r.rows.Close()
	return r.rows.Err()
}

func (r *rows) Next(dest []driver.Value) (err error) {
	if !r.ahead && !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	r.ahead = false
	for i, src := range r.rows.RawValues() {
		if dest[i] = nil; src == nil {
			continue
		}
		if dest[i], err = r.columns[i](src); err != nil {
			return fmt.Errorf("vaultpgx: column %s cannot be read", r.names[i]) // an error of pgx would show the value
		}
	}
	return nil
}

// describe sets how to read each column.
func (r *rows) describe() {
	types := pgtype.NewMap()
	if c := r.rows.Conn(); c != nil {
		types = c.TypeMap()
	}
	for _, f := range r.rows.FieldDescriptions() {
		r.names = append(r.names, f.Name)
		r.columns = append(r.columns, column(types, f.DataTypeOID, f.Format))
	}
}

// binary selects the binary format for the types that column supports. All other
// types arrive as text.
var binary = pgx.QueryResultFormatsByOID{
	pgtype.BoolOID:        pgx.BinaryFormatCode,
	pgtype.ByteaOID:       pgx.BinaryFormatCode,
	pgtype.Int2OID:        pgx.BinaryFormatCode,
	pgtype.Int4OID:        pgx.BinaryFormatCode,
	pgtype.Int8OID:        pgx.BinaryFormatCode,
	pgtype.Float4OID:      pgx.BinaryFormatCode,
	pgtype.Float8OID:      pgx.BinaryFormatCode,
	pgtype.DateOID:        pgx.BinaryFormatCode,
	pgtype.TimestampOID:   pgx.BinaryFormatCode,
	pgtype.TimestamptzOID: pgx.BinaryFormatCode,
}

// column returns a function that converts a column of a type to a [driver.Value].
func column(types *pgtype.Map, oid uint32, format int16) func(src []byte) (driver.Value, error) {
	switch oid {
	case pgtype.BoolOID:
		return reader[bool](types, oid, format)
	case pgtype.ByteaOID:
		return reader[[]byte](types, oid, format)
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return reader[int64](types, oid, format)
	case pgtype.Float4OID, pgtype.Float8OID:
		return reader[float64](types, oid, format)
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID:
		return reader[time.Time](types, oid, format)
	default:
		return func(src []byte) (driver.Value, error) { return string(src), nil }
	}
}

func reader[T any](types *pgtype.Map, oid uint32, format int16) func(src []byte) (driver.Value, error) {
	plan := types.PlanScan(oid, format, new(T))
	return func(src []byte) (driver.Value, error) {
		var value T
		err := plan.Scan(src, &value)
		return value, err
	}
}
