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

// conn is a view of a transaction for [database/sql]. It is also the driver, and
// connects to itself.
type conn struct{ transaction }

func (c conn) Connect(context.Context) (driver.Conn, error) { return c, nil }

func (c conn) Driver() driver.Driver { return c }

func (c conn) Open(string) (driver.Conn, error) { return c, nil }

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

// readers are the types that arrive in the binary format, with their columns. All
// other types arrive as text.
var readers = map[uint32]func(types *pgtype.Map, oid uint32, format int16) func(src []byte) (driver.Value, error){
	pgtype.BoolOID: reader[bool], pgtype.ByteaOID: reader[[]byte],
	pgtype.Int2OID: reader[int64], pgtype.Int4OID: reader[int64], pgtype.Int8OID: reader[int64],
	pgtype.Float4OID: reader[float64], pgtype.Float8OID: reader[float64],
	pgtype.DateOID: reader[time.Time], pgtype.TimestampOID: reader[time.Time], pgtype.TimestamptzOID: reader[time.Time],
}

// binary selects the binary format for the types of readers.
var binary = func() pgx.QueryResultFormatsByOID {
	all := pgx.QueryResultFormatsByOID{}
	for oid := range readers {
		all[oid] = pgx.BinaryFormatCode
	}
	return all
}()

// column returns a function that converts a column of a type to a [driver.Value].
func column(types *pgtype.Map, oid uint32, format int16) func(src []byte) (driver.Value, error) {
	if read := readers[oid]; read != nil {
		return read(types, oid, format)
	}
	return func(src []byte) (driver.Value, error) { return string(src), nil }
}

func reader[T any](types *pgtype.Map, oid uint32, format int16) func(src []byte) (driver.Value, error) {
	plan := types.PlanScan(oid, format, new(T))
	return func(src []byte) (driver.Value, error) {
		var value T
		err := plan.Scan(src, &value)
		return value, err
	}
}
