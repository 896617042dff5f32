package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Schemas lends schemas to tests, each to one test at a time. Filling a schema
// with tables takes a hundred times as long as deleting the few rows of a test.
// A returned schema is therefore emptied and lent again. It is dropped if the
// test failed, or changed its tables, indexes, triggers or functions.
type Schemas struct {
	// Fill creates the tables in an empty schema.
	Fill func(tb testing.TB, address string)
	// Keep names the table whose rows belong to what Fill created.
	Keep string
	// On returns the URL of the server; nil stands for [Server].
	On func(testing.TB) string

	mu    sync.Mutex
	db    *sql.DB
	shape string // of every schema after Fill
	free  []*schema
}

// schema is a schema that Schemas lends.
type schema struct{ name, address string }

// URL returns the address of a schema with the tables of Fill and no rows in
// them, like the function [URL]. The schema is returned when the test ends.
func (s *Schemas) URL(t testing.TB) string {
	t.Helper()
	one := s.take()
	if one == nil {
		one = s.fill(t)
	}
	t.Cleanup(func() { must.Do(t, s.giveBack(one, t.Failed())) })
	return one.address
}

// take returns a free schema, or nil.
func (s *Schemas) take() *schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return nil
	}
	one := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return one
}

// fill creates another schema and fills it.
func (s *Schemas) fill(t testing.TB) *schema {
	t.Helper()
	on, name := Server, newSchema()
	if s.On != nil {
		on = s.On
	}
	server := on(t)
	one := &schema{name: name, address: must.Get(withParameter(server, "search_path", name))(t)}
	must.Do(t, s.connect(server))
	must.Get(s.db.ExecContext(t.Context(), "CREATE SCHEMA "+one.name))(t)
	s.Fill(t, one.address)
	shape, _, err := s.look(t.Context(), one)
	must.Do(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shape = shape
	return one
}

// connect opens the database handle that all schemas share.
func (s *Schemas) connect(server string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		s.db, err = sql.Open("postgres", server)
	}
	return err
}

// giveBack empties a schema for the next test. It drops the schema if the test
// failed or changed its shape.
func (s *Schemas) giveBack(one *schema, failed bool) error {
	ctx := context.Background()
	shape, large, err := s.look(ctx, one)
	if err != nil {
		return err
	}
	s.mu.Lock()
	same := shape == s.shape
	s.mu.Unlock()
	if failed || !same {
		_, err := s.db.ExecContext(ctx, "DROP SCHEMA "+one.name+" CASCADE")
		return err
	}
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf(emptySchemaText, one.name, s.Keep, large)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, one)
	return nil
}

// Drop drops all schemas. Call it when no test uses them any more.
func (s *Schemas) Drop() error {
	if s.db == nil {
		return nil
	}
	var failed []error
	for _, one := range s.free {
		_, err := s.db.ExecContext(context.Background(), "DROP SCHEMA "+one.name+" CASCADE")
		failed = append(failed, err)
	}
	return errors.Join(errors.Join(failed...), s.db.Close())
}

// largeSchema is the size of a table, in bytes, above which tables are
// truncated: deleting many rows takes longer, and so does reading past their
// dead versions.
const largeSchema = 256 << 10

// shapeText describes everything in a schema except its rows. It also says
// whether one of the tables is large.
const shapeText = `SELECT
	(SELECT md5(string_agg(concat_ws(' ', relname, relkind, relnatts, relhasrules), ',' ORDER BY relname))
		FROM pg_class WHERE relnamespace = $1::regnamespace)
	|| (SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = $1::regnamespace)
	|| '/' || (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)
	|| '/' || (SELECT count(*) FROM %s.%s),
	EXISTS (SELECT FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) + COALESCE(pg_relation_size(t.oid), 0) > $2)`

// emptySchemaText removes the rows of all tables except one.
const emptySchemaText = `DO $$ DECLARE tables text[] := ARRAY(SELECT oid::regclass FROM pg_class
		WHERE relnamespace = '%s'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> '%s');
	one text;
BEGIN
	IF %t THEN
		EXECUTE 'TRUNCATE ' || array_to_string(tables, ', ');
		RETURN;
	END IF;
	FOREACH one IN ARRAY tables LOOP
		EXECUTE 'DELETE FROM ' || one;
	END LOOP;
END $$`

// look returns the description of a schema, and whether one of its tables is
// large.
func (s *Schemas) look(ctx context.Context, one *schema) (shape string, large bool, err error) {
	row := s.db.QueryRowContext(ctx, fmt.Sprintf(shapeText, one.name, s.Keep), one.name, largeSchema)
	err = row.Scan(&shape, &large)
	return shape, large, err
}

// SchemaOf returns the schema in an address that URL returned.
func SchemaOf(t testing.TB, address string) string {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	name, _, _ := strings.Cut(u.Query().Get("search_path"), ",")
	return name
}
