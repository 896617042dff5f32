package vaultpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaultpgx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func card(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: "4242424242424242"}
}

func (s *shop) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx := must.Get(s.pool.Begin(t.Context()))(t)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (s *shop) create(t *testing.T, tx pgx.Tx, id string) {
	t.Helper()
	must.Get(s.Owner.InTx(vaultpgx.Tx(tx)).CreateToken(t.Context(), card(id)))(t)
}

// refuses creates a token in a transaction that cannot take it.
func (s *shop) refuses(t *testing.T, tx pgx.Tx, what string, want error) {
	t.Helper()
	must.Fail(s.Owner.InTx(vaultpgx.Tx(tx)).CreateToken(t.Context(), card("refused")))(t, what, want)
}

func (s *shop) wantTokens(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for token, err := range s.Owner.AllTokens(t.Context(), vault.ListTokensParams{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, token.ID)
	}
	must.Same(t, "tokens", want, got)
}

// A transaction that pgx has committed or rolled back is recognized as ended.
func TestEndedTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, end := range map[string]func(pgx.Tx, context.Context) error{"commit": pgx.Tx.Commit, "rollback": pgx.Tx.Rollback} {
		tx := s.begin(t)
		c := s.Owner.InTx(vaultpgx.Tx(tx))
		must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
		must.Do(t, end(tx, t.Context()))
		_, read := c.GetToken(t.Context(), "card")
		_, write := c.CreateToken(t.Context(), card("card"))
		_, anew := s.Owner.InTx(vaultpgx.Tx(tx)).CreateToken(t.Context(), card("card"))
		for what, err := range map[string]error{"a read": read, "a write": write, "InTx": anew, "Commit": vaultpgx.Tx(tx).Commit(), "Rollback": vaultpgx.Tx(tx).Rollback()} {
			if !errors.Is(err, sql.ErrTxDone) || !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s after the %s: got %v, want ErrTxDone and ErrTxClosed", what, name, err)
			}
		}
	}
	s.wantTokens(t)
}

func TestNoTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.refuses(t, nil, "a token was created in no transaction", must.Text("InTx was given no transaction"))
}

// Separate clients of a transaction see each other's writes.
func TestSameTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx := s.begin(t)
	if vaultpgx.Tx(tx) != vaultpgx.Tx(tx) {
		t.Error("one transaction became two")
	}
	app := must.Get(s.Owner.InTx(vaultpgx.Tx(tx)).CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "App", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"},
	}))(t)
	c := must.Get(s.Owner.InTx(vaultpgx.Tx(tx)).As(t.Context(), app.ID))(t)
	must.Get(c.CreateToken(t.Context(), card("card")))(t)
}

// The rollback of a nested transaction undoes the operations of its clients, and
// the end of the outer transaction ends it.
func TestNestedTransactions(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	outer := s.begin(t)
	s.create(t, outer, "outer")
	for _, id := range []string{"released", "undone"} {
		inner := must.Get(outer.Begin(t.Context()))(t)
		s.create(t, inner, id)
		end := inner.Commit
		if id == "undone" {
			end = inner.Rollback
		}
		must.Do(t, end(t.Context()))
		s.refuses(t, inner, id+": after the end of the nested transaction", sql.ErrTxDone)
	}
	open := must.Get(outer.Begin(t.Context()))(t)
	s.create(t, outer, "between")
	must.Do(t, outer.Commit(t.Context()))
	s.refuses(t, open, "after the end of the outer transaction", sql.ErrTxDone)
	s.wantTokens(t, "between", "released", "outer")
}

// A failed statement of the application aborts its transaction in PostgreSQL. The
// error of the next operation explains this.
func TestFailedTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx := s.begin(t)
	s.create(t, tx, "card")
	must.Fail(tx.Exec(t.Context(), `SELECT 1/0`))(t, "the statement", must.Text("division by zero"))
	s.refuses(t, tx, "the next operation", must.Text("it can only be rolled back"))
	must.Match(t, "the commit", vaultpgx.Tx(tx).Commit(), pgx.ErrTxCommitRollback)
	s.wantTokens(t)
}

// A transaction that may not write is recognized, and one whose connection is
// lost cannot be committed.
func TestUnusableTransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx := must.Get(s.pool.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly}))(t)
	s.refuses(t, tx, "a write", storage.ErrReadOnly)
	_ = tx.Rollback(t.Context())
	lost := s.begin(t)
	s.create(t, lost, "card")
	must.Get(s.pool.Exec(t.Context(), `SELECT pg_terminate_backend($1, 10000)`, lost.Conn().PgConn().PID()))(t)
	s.refuses(t, lost, "a token was created on a lost connection", must.Text("postgres: "))
	must.Match(t, "the transaction could be committed", vaultpgx.Tx(lost).Commit(), must.Text("conn closed"))
	s.wantTokens(t)
}

// The application gets the error of pgx if it must retry its transaction.
func TestTransactionHasToBeRepeated(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	must.Get(s.Owner.CreateToken(t.Context(), card("card")))(t)
	tx := must.Get(s.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	c := s.Owner.InTx(vaultpgx.Tx(tx))
	must.Get(c.GetToken(t.Context(), "card"))(t) // takes the snapshot
	must.Get(s.Owner.PatchToken(t.Context(), "card", vault.JSON(`{"metadata":{"a":"b"}}`)))(t)
	_, err := c.PatchToken(t.Context(), "card", vault.JSON(`{"metadata":{"a":"c"}}`))
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "40001" {
		t.Errorf("got %v, want SQLSTATE 40001", err)
	}
}

// A connection runs one query at a time.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx := s.begin(t)
	s.create(t, tx, "first")
	rows := must.Get(tx.Query(t.Context(), `SELECT generate_series(1, 3)`))(t)
	s.refuses(t, tx, "beside open rows", must.Text("close the rows of its last query first"))
	rows.Close()
	s.create(t, tx, "third")
	must.Do(t, tx.Commit(t.Context()))
	s.wantTokens(t, "third", "first")
}

// A context that ends while an operation waits in the database closes the
// connection, as pgx does, and leaves nothing behind.
func TestContextEndsDuringAnOperation(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first, second := s.begin(t), s.begin(t)
	s.create(t, first, "wanted")
	pid := second.Conn().PgConn().PID()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Owner.InTx(vaultpgx.Tx(second)).CreateToken(ctx, card("wanted"))
		done <- err
	}()
	for blocked := 0; blocked == 0; {
		must.Do(t, s.DB.QueryRowContext(t.Context(), `SELECT cardinality(pg_blocking_pids($1))`, pid).Scan(&blocked))
	}
	cancel()
	must.Match(t, "the operation", <-done, context.Canceled)
	s.refuses(t, second, "the transaction goes on", must.Text("conn closed"))
	must.Match(t, "the transaction could be committed", vaultpgx.Tx(second).Commit(), must.Text("conn closed"))
	must.Do(t, first.Commit(t.Context()))
	s.wantTokens(t, "wanted")
}

// The query modes of pgx differ in how they send arguments and read rows.
func TestQueryModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			conn := connect(t, s, mode)
			tx := must.Get(conn.Begin(t.Context()))(t)
			s.create(t, tx, "one")
			s.create(t, tx, "two")
			c := s.Owner.InTx(vaultpgx.Tx(tx))
			must.Fail(c.CreateToken(t.Context(), card("one")))(t, "the same id again", vault.ErrConflict)
			must.Do(t, c.DeleteToken(t.Context(), "two"))
			must.Do(t, tx.Commit(t.Context()))
			s.wantTokens(t, "one")
		})
	}
}

// connect opens a connection to the database of a shop.
func connect(t *testing.T, s *shop, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	config := s.pool.Config().ConnConfig
	config.DefaultQueryExecMode = mode
	conn := must.Get(pgx.ConnectConfig(t.Context(), config))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Rows have the same values as with pgx's own driver for database/sql.
func TestColumns(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const query = `SELECT NULL::bigint, true, 'é'::bytea, 7::smallint, 8::integer, 9::bigint, 1.5::real, 2.5::double precision,
		'x'::text, 12.50::numeric, '{"a":1}'::jsonb::text, ARRAY[1,2]::text, 'infinity'::text,
		'2026-01-02'::date, '2026-01-02 03:04:05.6'::timestamp, '2026-01-02 03:04:05.6Z'::timestamptz, 'a-b'::name WHERE $1::text = 'arg'`
	tx := s.begin(t)
	rows := must.Get(vaultpgx.Tx(tx).QueryContext(t.Context(), query, "arg"))(t)
	got := scan(t, rows)
	want := must.Get(s.DB.QueryContext(t.Context(), query, "arg"))(t)
	must.Same(t, "rows of database/sql and of vaultpgx", scan(t, want), got, cmp.Comparer(time.Time.Equal))
}

func scan(t *testing.T, rows *sql.Rows) []string {
	t.Helper()
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("the query has no row: %v", errors.Join(err, rows.Err()))
	}
	values := make([]any, len(names))
	for i := range values {
		values[i] = new(any)
	}
	must.Do(t, rows.Scan(values...))
	out := make([]string, len(values))
	for i, v := range values {
		value := *v.(*any)
		if at, ok := value.(time.Time); ok {
			value = at.UTC()
		}
		out[i] = fmt.Sprintf("%s %T %v", names[i], value, value)
	}
	return out
}

// An invalid statement returns an error, and leaves the connection free.
func TestQueryErrors(t *testing.T) {
	t.Parallel()
	p := pool(t, pgtest.URL(t))
	for _, query := range []string{"SELECT no_such_column", "SELECT 1/(g-1) FROM generate_series(1, 2) g"} {
		tx := must.Get(p.Begin(t.Context()))(t)
		_, err := vaultpgx.Tx(tx).QueryContext(t.Context(), query) //nolint:rowserrcheck,sqlclosecheck // it fails
		var server *pgconn.PgError
		if !errors.As(err, &server) {
			t.Errorf("%s: got %v, want an error of the server", query, err)
		}
		must.Match(t, query, tx.Rollback(t.Context()), nil)
	}
}
