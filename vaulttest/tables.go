package vaulttest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// DB searches a database when the code has returned: a *sql.DB, or a pool or
// connection of pgx. It searches all tables of SQLite, or of all schemas in the
// search_path of PostgreSQL, including the tables of the vault.
func (l *leaks) DB(db any) {
	l.t.Helper()
	query := queryOf(db)
	if query == nil {
		l.t.Errorf("vaulttest: Canary.DB takes a *sql.DB or a pool of pgx, not a %T", db)
		return
	}
	l.afterwards(func() {
		n, err := l.tables(context.Background(), query)
		if err != nil {
			l.t.Errorf("vaulttest: searching a database: %v", err)
		}
		if n == 0 {
			l.nothing("a database: its tables have no rows")
			return
		}
		l.searched++
	})
}

// NoDatabase declares that the program under test has no database, so that
// NoLeaks passes without searching one.
func (l *leaks) NoDatabase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.declined = true
}

// rows are the rows of a query. The rows of pgx implement it.
type rows interface {
	Next() bool
	RawValues() [][]byte
	Err() error
	Close()
}

// query runs a query without parameters.
type query func(ctx context.Context, text string) (rows, error)

// queryOf returns how to query a database, or nil. The Query method of pgx is
// called by reflection, because this module does not require pgx.
func queryOf(db any) query {
	if db, ok := db.(*sql.DB); ok && db != nil {
		return func(ctx context.Context, text string) (rows, error) { return queryDB(ctx, db, text) }
	}
	method := reflect.ValueOf(db)
	if !method.IsValid() {
		return nil
	}
	method = method.MethodByName("Query")
	if !method.IsValid() || method.Type().NumOut() != 2 || !method.Type().Out(0).Implements(reflect.TypeFor[rows]()) {
		return nil
	}
	return func(ctx context.Context, text string) (rows, error) {
		out := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(text)})
		if err, _ := out[1].Interface().(error); err != nil {
			return nil, err
		}
		return out[0].Interface().(rows), nil
	}
}

// sqlRows adapts the rows of database/sql.
type sqlRows struct {
	*sql.Rows
	values [][]byte
	dst    []any
	err    error
}

func queryDB(ctx context.Context, db *sql.DB, text string) (rows, error) {
	found, err := db.QueryContext(ctx, text) //nolint:rowserrcheck // the caller calls Err
	if err != nil {
		return nil, err
	}
	return &sqlRows{Rows: found}, nil
}

func (r *sqlRows) Next() bool {
	if r.err != nil || !r.Rows.Next() {
		return false
	}
	if r.dst == nil {
		var columns []string
		if columns, r.err = r.Columns(); r.err != nil {
			return false
		}
		r.values, r.dst = make([][]byte, len(columns)), make([]any, len(columns))
		for i := range r.dst {
			r.dst[i] = (*sql.RawBytes)(&r.values[i])
		}
	}
	r.err = r.Scan(r.dst...)
	return r.err == nil
}

func (r *sqlRows) RawValues() [][]byte { return r.values }
func (r *sqlRows) Err() error          { return errors.Join(r.err, r.Rows.Err()) }
func (r *sqlRows) Close()              { _ = r.Rows.Close() } // Err reports errors

// The columns of all tables: the name of the table, as SQL, the name of the
// column, and the expression to select. On PostgreSQL values are read as text,
// because pgx would otherwise read numbers in their binary format.
const (
	sqliteColumns = `SELECT t.name, '"' || replace(t.name, '"', '""') || '"', c.name, '"' || replace(c.name, '"', '""') || '"'
		FROM sqlite_schema t, pragma_table_xinfo(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND c.hidden <> 1
		ORDER BY t.name, c.cid`
	postgresColumns = `SELECT t.oid::regclass::text, format('%I.%I', n.nspname, t.relname), c.attname::text,
			CASE c.atttypid WHEN 'bytea'::regtype THEN format('%I', c.attname) ELSE format('%I::text', c.attname) END
		FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace JOIN pg_attribute c ON c.attrelid = t.oid
		WHERE t.relkind IN ('r', 'm', 'f') AND n.nspname = ANY (current_schemas(false)) AND c.attnum > 0 AND NOT c.attisdropped
		ORDER BY n.nspname, t.relname, c.attnum`
)

// table is a table to search.
type table struct {
	name, sql            string
	columns, expressions []string
}

// tables searches all tables and returns the number of their rows.
func (l *leaks) tables(ctx context.Context, q query) (int, error) {
	all, err := readTables(ctx, q, sqliteColumns)
	if err != nil {
		all, err = readTables(ctx, q, postgresColumns)
	}
	count := 0
	for i := range all {
		n, failed := l.table(ctx, q, &all[i])
		count += n
		err = errors.Join(err, failed)
	}
	return count, err
}

// readTables reads the tables and columns of a database.
func readTables(ctx context.Context, q query, text string) (all []table, err error) {
	err = each(ctx, q, text, func(values [][]byte) {
		if sql := string(values[1]); len(all) == 0 || all[len(all)-1].sql != sql {
			all = append(all, table{name: string(values[0]), sql: sql})
		}
		t := &all[len(all)-1]
		t.columns, t.expressions = append(t.columns, string(values[2])), append(t.expressions, string(values[3]))
	})
	return all, err
}

// table searches a table and returns the number of its rows.
func (l *leaks) table(ctx context.Context, q query, t *table) (n int, err error) {
	err = each(ctx, q, "SELECT "+strings.Join(t.expressions, ", ")+" FROM "+t.sql, func(values [][]byte) {
		n++
		for i, value := range values {
			l.search(fmt.Sprintf("the column %s of the table %s", t.columns[i], t.name), value)
		}
	})
	return n, err
}

// each calls f with each row of a query.
func each(ctx context.Context, q query, text string, f func(values [][]byte)) error {
	found, err := q(ctx, text)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		f(found.RawValues())
	}
	return found.Err()
}
