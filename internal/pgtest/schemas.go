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
)

// Schemas lends schemas to tests, one test at a time. To fill a schema with
// tables takes a hundred times as long as to delete the few rows of a test, so a
// schema that comes back is emptied and lent again. A schema whose tables,
// indexes, triggers or functions a test has changed is dropped.
type Schemas struct {
	// Fill makes the tables in an empty schema.
	Fill func(tb testing.TB, address string)
	// Keep names the table whose rows are part of what Fill made.
	Keep string

	mu    sync.Mutex
	db    *sql.DB
	shape string // of a schema after Fill
	free  []*schema
}

// schema is one that Schemas lends.
type schema struct{ name, address string }

// URL returns the address of a schema with the tables that Fill made and no rows
// in them, as the function [URL] does. The end of the test returns it.
func (s *Schemas) URL(t testing.TB) string {
	t.Helper()
	one := s.take()
	if one == nil {
		one = s.fill(t)
	}
	t.Cleanup(func() {
		if err := s.giveBack(one, t.Failed()); err != nil {
			t.Errorf("pgtest: emptying a schema: %v", err)
		}
	})
	return one.address
}

// take returns a schema that is free, or nil.
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

// fill makes another schema.
func (s *Schemas) fill(t testing.TB) *schema {
	t.Helper()
	server := Server(t)
	one := &schema{name: "vault_test_" + randomName()}
	var err error
	if one.address, err = withParameter(server, "search_path", one.name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := s.connect(server); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if _, err := s.db.ExecContext(t.Context(), "CREATE SCHEMA "+one.name); err != nil {
		t.Fatalf("pgtest: creating a schema: %v", err)
	}
	s.Fill(t, one.address)
	shape, _, err := s.look(t.Context(), one)
	if err != nil {
		t.Fatalf("pgtest: looking at a schema: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shape = shape
	return one
}

// connect opens the connections to the server that all schemas share.
func (s *Schemas) connect(server string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		s.db, err = sql.Open("postgres", server)
	}
	return err
}

// giveBack empties a schema, or drops it if it is no longer what it was.
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

// Drop drops all schemas, when no test uses one of them any more.
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

// largeSchema is from how many bytes on a table is truncated. Its rows would take
// longer to delete, and their dead versions longer to read past.
const largeSchema = 256 << 10

// shapeText describes all that is in a schema except its rows, and tells whether a
// table of it is large.
const shapeText = `SELECT
	(SELECT md5(string_agg(concat_ws(' ', relname, relkind, relnatts, relhastriggers, relhasrules), ',' ORDER BY relname))
		FROM pg_class WHERE relnamespace = $1::regnamespace)
	|| (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)
	|| (SELECT count(*) FROM %s.%s),
	EXISTS (SELECT FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) + COALESCE(pg_relation_size(t.oid), 0) > $2)`

// emptySchemaText removes all rows, except those of one table.
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

// look describes a schema, and tells whether a table of it is large.
func (s *Schemas) look(ctx context.Context, one *schema) (shape string, large bool, err error) {
	row := s.db.QueryRowContext(ctx, fmt.Sprintf(shapeText, one.name, s.Keep), one.name, largeSchema)
	err = row.Scan(&shape, &large)
	return shape, large, err
}

// SchemaOf returns the schema that an address of URL leads to.
func SchemaOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("pgtest: the address is not a URL")
	}
	name, _, _ := strings.Cut(u.Query().Get("search_path"), ",")
	return name
}
