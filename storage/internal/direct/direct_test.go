package direct_test

import (
	"bytes"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// dialect has the same statements for each of the databases.
type dialect struct {
	name                          string
	open                          func(t *testing.T) *sql.DB
	create, insert, read, numbers string
}

var dialects = []dialect{
	{
		name:    "SQLite",
		open:    func(t *testing.T) *sql.DB { return openDB(t, "sqlite", filepath.Join(t.TempDir(), "test.db")) },
		create:  `CREATE TABLE things (number INTEGER, flag INTEGER, name TEXT, body BLOB) STRICT`,
		insert:  `INSERT INTO things VALUES (?, ?, ?, ?)`,
		read:    `SELECT number, flag, name, body FROM things WHERE number >= ? ORDER BY number`,
		numbers: `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n`,
	},
	{
		name:    "PostgreSQL",
		open:    openPostgres,
		create:  `CREATE TABLE things (number bigint, flag boolean, name text, body bytea)`,
		insert:  `INSERT INTO things VALUES ($1, $2, $3, $4)`,
		read:    `SELECT number, flag::int, name, body FROM things WHERE number >= $1 ORDER BY number`,
		numbers: `SELECT generate_series(1, $1::bigint)`,
	},
}

func openDB(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open(driver, name))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// openPostgres returns a database whose driver sends bytes as they are and
// returns them without copying.
func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	config := must.Get(pq.NewConfig(pgtest.URL(t)))(t)
	config.BinaryParameters = true
	connector := must.Get(pq.NewConnectorConfig(config))(t)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// onBoth runs a test on a connection to each database, with an empty table.
func onBoth(t *testing.T, test func(t *testing.T, d dialect, conn *sql.Conn)) {
	t.Helper()
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			conn := must.Get(d.open(t).Conn(t.Context()))(t)
			t.Cleanup(func() { _ = conn.Close() })
			must.Get(conn.ExecContext(t.Context(), d.create))(t)
			test(t, d, conn)
		})
	}
}

// prepare prepares a statement and closes it at the end of the test.
func prepare(t *testing.T, c *direct.Conn, text string) *direct.Stmt {
	t.Helper()
	stmt := must.Get(c.Prepare(t.Context(), text))(t)
	t.Cleanup(func() { _ = stmt.Close() })
	return stmt
}

// After a statement has run, its arguments and results are not kept.
func TestArgumentsAndRowsAreNotKept(t *testing.T) {
	onBoth(t, func(t *testing.T, d dialect, conn *sql.Conn) {
		c := direct.NewConn(conn)
		insert, read := prepare(t, c, d.insert), prepare(t, c, d.read)
		body := bytes.Repeat([]byte("x"), 1000)
		must.Get(insert.Exec(t.Context(), 1, true, "one", body))(t)
		var kept direct.Row
		must.Do(t, read.Query(t.Context(), func(row direct.Row) error { kept = row; return nil }, 1))
		must.Same(t, "the row is still there", make(direct.Row, 4), kept)
	})
}

// An error of the caller or of a statement leaves the connection usable.
func TestErrorsLeaveTheConnectionUsable(t *testing.T) {
	onBoth(t, func(t *testing.T, d dialect, conn *sql.Conn) {
		c := direct.NewConn(conn)
		numbers := prepare(t, c, d.numbers)
		sound := func(after string) {
			t.Helper()
			rows := 0
			err := numbers.Query(t.Context(), func(direct.Row) error { rows++; return nil }, 10)
			if rows != 10 || err != nil || c.Lost() {
				t.Errorf("after %s: %d rows, %v, lost %v", after, rows, err, c.Lost())
			}
		}
		enough := errors.New("enough")
		rows := 0
		err := numbers.Query(t.Context(), func(direct.Row) error { rows++; return enough }, 1000)
		if rows != 1 || !errors.Is(err, enough) {
			t.Errorf("%d rows, %v", rows, err)
		}
		sound("an error of the caller")
		if err := numbers.Query(t.Context(), func(direct.Row) error { return nil }, struct{}{}); err == nil {
			t.Error("an argument of a strange type is accepted")
		}
		sound("a wrong argument")
		must.Fail(c.Prepare(t.Context(), "no statement"))(t, "nonsense is prepared", must.Text("syntax error"))
		sound("a wrong statement")
	})
}

func TestLostConnectionIsReported(t *testing.T) {
	onBoth(t, func(t *testing.T, d dialect, conn *sql.Conn) {
		c := direct.NewConn(conn)
		numbers := prepare(t, c, d.numbers)
		if c.Lost() {
			t.Fatal("lost from the start")
		}
		must.Do(t, numbers.Close())
		c.Discard()
		if !c.Lost() {
			t.Error("not lost after it was discarded")
		}
		must.Match(t, "ping", conn.PingContext(t.Context()), sql.ErrConnDone)
		must.Fail(c.Prepare(t.Context(), d.numbers))(t, "prepare", sql.ErrConnDone)
	})
}
