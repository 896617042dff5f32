package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver that applications use

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestInTxCommitsWithTheApplication(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		for name, c := range map[string]*vault.Client{"tenant": s.Owner, "application": s.Private, "user": s.Owner.AsUser("jane")} {
			before, logged, orders := total(t, s.Owner), entriesOf(t, s.Owner, vault.OperationCreate), s.orders(t)
			tx := s.begin(t)
			in := c.InTx(tx)
			card := create(t, in, aCard("card-"+name))
			s.order(t, tx, orders, card)
			if got := get(t, in, card.ID); got.ID != card.ID {
				t.Errorf("%s: the transaction does not see its own token", name)
			}
			if got := total(t, in); got != before+1 {
				t.Errorf("%s: the transaction lists %d tokens, want %d", name, got, before+1)
			}
			if s.beside {
				if _, err := c.GetToken(t.Context(), card.ID); !errors.Is(err, vault.ErrNotFound) {
					t.Errorf("%s: before the commit: got %v, want ErrNotFound", name, err)
				}
			}
			commit(t, tx)
			get(t, c, card.ID)
			if got := total(t, s.Owner); got != before+1 || s.orders(t) != orders+1 {
				t.Errorf("%s: %d tokens and %d orders after the commit", name, got, s.orders(t))
			}
			if got := entriesOf(t, s.Owner, vault.OperationCreate); got != logged+1 {
				t.Errorf("%s: %d entries of creation, want %d", name, got, logged+1)
			}
			wantUser := map[string]string{"user": "jane"}[name]
			for _, e := range entries(t, s.Vault, vault.ListLogsParams{EntityID: card.ID}) {
				if by := e.ActorName; by != wantUser && !(by == "" && e.Operation == vault.OperationRead) {
					t.Errorf("%s: the entry of %s names %q", name, e.Operation, by)
				}
			}
		}
	})
}

// TestInTxRollback proves that a rollback leaves nothing, in caches neither.
func TestInTxRollback(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		ctx := t.Context()
		kept := create(t, s.Owner, aCard("kept"))
		logged := entriesOf(t, s.Owner, vault.OperationCreate)
		tx := s.begin(t)
		c := s.Owner.InTx(tx)
		s.order(t, tx, 1, create(t, c, vault.TokenParams{ID: "gone", Type: vault.TypeCardNumber, Data: mastercard, Containers: []string{"/gone/"}}))
		if err := c.DeleteToken(ctx, kept.ID); err != nil {
			t.Fatal(err)
		}
		app, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "Gone", Type: vault.ApplicationPrivate, Permissions: everything})
		if err != nil {
			t.Fatal(err)
		}
		as, err := c.As(ctx, app.ID) // which must not be remembered
		if err != nil {
			t.Fatal(err)
		}
		get(t, as, "gone")
		own := s.Private.InTx(tx)
		if err := c.DeleteApplication(ctx, s.Private.ApplicationID()); err != nil {
			t.Fatal(err)
		}
		if _, err := own.GetToken(ctx, "gone"); !errors.Is(err, vault.ErrUnauthenticated) {
			t.Errorf("an application that the transaction has deleted: got %v", err)
		}
		rollback(t, tx)

		if _, err := s.Owner.GetToken(ctx, "gone"); !errors.Is(err, vault.ErrNotFound) {
			t.Errorf("the token: got %v, want ErrNotFound", err)
		}
		if _, err := s.Authenticate(ctx, app.Key); !errors.Is(err, vault.ErrUnauthenticated) {
			t.Errorf("the key: got %v, want ErrUnauthenticated", err)
		}
		if _, err := s.Owner.As(ctx, app.ID); !errors.Is(err, vault.ErrNotFound) {
			t.Errorf("the application: got %v, want ErrNotFound", err)
		}
		if _, err := as.GetToken(ctx, "kept"); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a client of the transaction: got %v, want ErrTxDone", err)
		}
		get(t, s.Private, "kept")
		if n := total(t, s.Owner); n != 1 || s.orders(t) != 0 {
			t.Errorf("%d tokens and %d orders are left, want 1 and none", n, s.orders(t))
		}
		if n := entriesOf(t, s.Owner, vault.OperationCreate); n != logged {
			t.Errorf("%d entries of creation, want %d", n, logged)
		}
		some := private(t, s.Vault, rule(1, "/gone/", vault.TransformMask, everything...))
		if n := total(t, some); n != 0 {
			t.Errorf("%d tokens in a container that was rolled back", n)
		}
		create(t, some, vault.TokenParams{ID: "gone", Type: vault.TypeCardNumber, Data: mastercard, Containers: []string{"/gone/"}})
		if n := total(t, some); n != 1 {
			t.Errorf("%d tokens in the container, want 1", n)
		}
	})
}

func TestInTxRefusals(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		ctx, yes := t.Context(), true
		unique := func(id string, data string) vault.TokenParams {
			return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: data, DeduplicateToken: &yes}
		}
		create(t, s.Owner, aCard("taken"))
		first := create(t, s.Owner, unique("first", mastercard))
		tx := s.begin(t)
		c := s.Owner.InTx(tx)
		if _, err := c.CreateToken(ctx, aCard("taken")); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("an id that is taken: got %v, want ErrConflict", err)
		}
		if dup := create(t, c, unique("second", mastercard)); dup.ID != first.ID {
			t.Errorf("a duplicate of what is committed became %s", dup.ID)
		}
		mine := create(t, c, unique("mine", "4111111111111111"))
		if dup := create(t, c, unique("again", "4111111111111111")); dup.ID != mine.ID {
			t.Errorf("a duplicate of what the transaction wrote became %s", dup.ID)
		}
		if err := c.DeleteToken(ctx, "nothing"); !errors.Is(err, vault.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		if _, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCardNumber, Data: "1234"}); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		s.order(t, tx, 1, mine)
		commit(t, tx)
		if n := total(t, s.Owner); n != 3 || s.orders(t) != 1 {
			t.Errorf("%d tokens and %d orders, want 3 and 1", n, s.orders(t))
		}
	})
}

// TestInTxMakesRoom has an expired token in the way of a new one.
func TestInTxMakesRoom(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		soon := s.Clock.Now().Add(time.Minute)
		create(t, s.Owner, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: visa, ExpiresAt: soon})
		s.Clock.Advance(time.Hour)
		for _, end := range []func(testing.TB, *sql.Tx){rollback, commit} {
			tx := s.begin(t)
			create(t, s.Owner.InTx(tx), aCard("card"))
			end(t, tx)
		}
		get(t, s.Owner, "card")
		if n := entriesOf(t, s.Owner, vault.OperationExpire); n != 1 {
			t.Errorf("%d entries of expiry, want 1", n)
		}
	})
}

func TestTwoClientsOfOneTransaction(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		_, other := s.NewTenant(t, "Other")
		tx := s.begin(t)
		clients := []*vault.Client{s.Owner.InTx(tx), s.Private.InTx(tx), other.InTx(tx)}
		done := make(chan error)
		for i, c := range clients {
			go func() {
				var err error
				for n := 0; n < 5 && err == nil; n++ {
					_, err = c.CreateToken(context.Background(), aCard(fmt.Sprintf("card-%d-%d", i, n)))
					if _, again := c.CreateToken(context.Background(), aCard(fmt.Sprintf("card-%d-%d", i, n))); !errors.Is(again, vault.ErrConflict) {
						err = errors.Join(err, fmt.Errorf("the same id again: %w", again))
					}
				}
				done <- err
			}()
		}
		for range clients {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		commit(t, tx)
		if a, b := total(t, s.Owner), total(t, other); a != 10 || b != 5 {
			t.Errorf("the tenants have %d and %d tokens, want 10 and 5", a, b)
		}
	})
}

// TestReadEntriesInATransaction proves what a rollback does to the entry of a
// read.
func TestReadEntriesInATransaction(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			t.Parallel()
			inShops(t, &vault.Config{StrictReadLogs: strict}, func(t *testing.T, s *shop) {
				create(t, s.Owner, aCard("card"))
				tx := s.begin(t)
				get(t, s.Owner.InTx(tx), "card")
				rollback(t, tx)
				want := 0
				if strict && s.beside {
					want = 1
				}
				if n := entriesOf(t, s.Owner, vault.OperationRead); n != want {
					t.Errorf("%d entries of the read after the rollback, want %d", n, want)
				}
				tx = s.begin(t)
				get(t, s.Owner.InTx(tx), "card")
				commit(t, tx)
				if n := entriesOf(t, s.Owner, vault.OperationRead); n != want+1 {
					t.Errorf("%d entries of the read after the commit, want %d", n, want+1)
				}
			})
		})
	}
}

// TestCallsOutsideOfInTx makes the mistake that is easy to make: a call to the
// vault in the middle of a transaction, without InTx.
func TestCallsOutsideOfInTx(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		create(t, s.Owner, aCard("card"))
		tx := s.begin(t)
		create(t, s.Owner.InTx(tx), aCard("inside"))
		_, err := s.Owner.CreateToken(t.Context(), aCard("outside"))
		_, readErr := s.Owner.GetToken(t.Context(), "card")
		for what, err := range map[string]error{"a write": err, "a read": readErr} {
			if s.beside && err != nil {
				t.Errorf("%s beside the transaction: %v", what, err)
			}
			if !s.beside && !errors.Is(err, vault.ErrUnavailable) {
				t.Errorf("%s beside the transaction: got %v, want ErrUnavailable", what, err)
			}
		}
		commit(t, tx)
		get(t, s.Owner, "inside")
		create(t, s.Owner, aCard("after"))
	})
}

// TestBadTransactions is about transactions that are of no use, or end badly.
func TestBadTransactions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, s *shop){
		"none": func(t *testing.T, s *shop) {
			if _, err := s.Owner.InTx(nil).CreateToken(t.Context(), aCard("card")); err == nil {
				t.Error("a token was created in no transaction")
			}
		},
		"finished": func(t *testing.T, s *shop) {
			for _, end := range []func(testing.TB, *sql.Tx){commit, rollback} {
				tx := s.begin(t)
				c := s.Owner.InTx(tx)
				end(t, tx)
				if _, err := c.CreateToken(t.Context(), aCard("card")); !errors.Is(err, sql.ErrTxDone) {
					t.Errorf("got %v, want ErrTxDone", err)
				}
			}
		},
		"of another database": func(t *testing.T, s *shop) {
			tx, err := s.other(t).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrOtherDatabase) {
				t.Errorf("got %v, want ErrOtherDatabase", err)
			}
		},
		"cancelled": func(t *testing.T, s *shop) {
			ctx, cancel := context.WithCancel(t.Context())
			tx, err := s.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := s.Owner.InTx(tx)
			create(t, c, aCard("card"))
			cancel()
			for { // the rollback comes in the background
				if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCardNumber, Data: visa}); err != nil {
					break
				}
			}
			if err := tx.Commit(); err == nil {
				t.Error("it could be committed")
			}
		},
		"a call that is cancelled": func(t *testing.T, s *shop) {
			tx := s.begin(t)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Owner.InTx(tx).CreateToken(gone, aCard("card")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want Canceled", err)
			}
			rollback(t, tx)
		},
		"a commit that fails": func(t *testing.T, s *shop) {
			s.exec(t, s.db, `CREATE TABLE parts (id integer PRIMARY KEY, of integer REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)`)
			tx := s.begin(t)
			create(t, s.Owner.InTx(tx), aCard("card"))
			s.exec(t, tx, `INSERT INTO parts (id, of) VALUES (1, 77)`)
			if err := tx.Commit(); err == nil {
				t.Error("the commit did not fail")
			}
			_ = tx.Rollback()
		},
		"that may not write": func(t *testing.T, s *shop) {
			tx := s.begin(t)
			setting, again := `SET TRANSACTION READ ONLY`, `SELECT 1`
			if !s.beside {
				setting, again = `PRAGMA query_only = 1`, `PRAGMA query_only = 0`
			}
			s.exec(t, tx, setting)
			if _, err := s.Owner.InTx(tx).CreateToken(t.Context(), aCard("card")); !errors.Is(err, storage.ErrReadOnly) {
				t.Errorf("got %v, want ErrReadOnly", err)
			}
			s.exec(t, tx, again) // SQLite keeps it for the connection
			rollback(t, tx)
		},
		"a lost connection": func(t *testing.T, s *shop) {
			if !s.beside {
				return // SQLite is in this process: TestAcknowledgedWritesSurviveAKill ends that
			}
			tx := s.begin(t)
			c := s.Owner.InTx(tx)
			create(t, c, aCard("card"))
			s.lose(t, tx)
			if _, err := c.CreateToken(t.Context(), aCard("next")); err == nil {
				t.Error("a token was created on a lost connection")
			}
			if err := tx.Commit(); err == nil {
				t.Error("it could be committed")
			}
		},
		"a panic": func(t *testing.T, s *shop) {
			func() {
				defer func() { _ = recover() }()
				tx := s.begin(t)
				defer func() { _ = tx.Rollback() }()
				create(t, s.Owner.InTx(tx), aCard("card"))
				panic("the application's own")
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inShops(t, nil, func(t *testing.T, s *shop) {
				test(t, s)
				if n := total(t, s.Owner); n != 0 {
					t.Errorf("%d tokens are left, want none", n)
				}
				if n := entriesOf(t, s.Owner, vault.OperationCreate); n != 0 {
					t.Errorf("%d entries are left, want none", n)
				}
				create(t, s.Owner, aCard("card"))
				if n := total(t, s.Owner); n != 1 {
					t.Errorf("%d tokens, want 1", n)
				}
			})
		})
	}
}

// lose ends the connection of a transaction from outside.
func (s *shop) lose(t testing.TB, tx *sql.Tx) {
	t.Helper()
	var pid int
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	s.exec(t, s.db, `SELECT pg_terminate_backend($1)`, pid)
}

// document returns one that becomes many tokens, the last of which has this id
// unless it is "". It is large enough for its tenant's turns.
func document(last string) []any {
	const tokens = 300
	doc := make([]any, tokens)
	for i := range doc {
		doc[i] = fmt.Sprintf("value %d", i)
	}
	if last != "" {
		doc[tokens-1] = map[string]any{"id": last, "type": "token", "data": "x"}
	}
	return doc
}

// TestLargeCallsBesideATransaction has large changes of a tenant wait for a
// transaction of the same tenant, which makes a large change itself. It is not
// held up, and those that wait end with ErrUnavailable, one after the other.
func TestLargeCallsBesideATransaction(t *testing.T) {
	t.Parallel()
	s := newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), nil)
	tx := s.begin(t)
	in := s.Owner.InTx(tx)
	create(t, in, aCard("card"))
	const callers = 3
	outside := make(chan error, callers)
	for range callers {
		go func() {
			_, err := s.Owner.Tokenize(context.Background(), document(""))
			outside <- err
		}()
	}
	for range callers {
		if _, err := in.Tokenize(t.Context(), document("")); err != nil {
			t.Fatalf("in the transaction: %v", err)
		}
		if err := <-outside; !errors.Is(err, vault.ErrUnavailable) {
			t.Errorf("beside the transaction: got %v, want ErrUnavailable", err)
		}
	}
	commit(t, tx)
	if page, err := s.Owner.ListTokens(t.Context(), vault.ListTokensParams{}); err != nil || page.Pagination.TotalItems != 1+callers*300 {
		t.Errorf("%d tokens after the commit (%v)", page.Pagination.TotalItems, err)
	}
}

// TestTransactionsThatWaitKeepNoTurn has a transaction hold an id that others of
// its tenant want, as many as the tenant has turns. They wait in the database,
// and it must still find a turn to come to its end.
func TestTransactionsThatWaitKeepNoTurn(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := newShopOnPostgres(t, driver, nil)
			first := s.begin(t)
			in := s.Owner.InTx(first)
			create(t, in, aCard("wanted"))
			callers := runtime.GOMAXPROCS(0)
			waiting := make(chan error, callers)
			for range callers {
				tx := s.begin(t)
				go func() {
					_, err := s.Owner.InTx(tx).Tokenize(context.Background(), document("wanted"))
					waiting <- errors.Join(err, tx.Rollback())
				}()
			}
			eventually(t, "the others wait for the first", func() bool {
				return s.waitingFor(t, first) >= max(1, callers-1)
			})
			if _, err := in.Tokenize(t.Context(), document("")); err != nil {
				t.Errorf("the transaction that the others wait for: %v", err)
			}
			commit(t, first)
			for range callers {
				if err := <-waiting; !errors.Is(err, vault.ErrConflict) {
					t.Errorf("after the commit: got %v, want ErrConflict", err)
				}
			}
		})
	}
}

// waitingFor returns how many connections wait for a transaction.
func (s *shop) waitingFor(t testing.TB, tx *sql.Tx) (n int) {
	t.Helper()
	var pid int
	if err := tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// shop is an application that has its orders in the vault's database.
type shop struct {
	*vaulttest.Vault
	db     *sql.DB
	beside bool // the vault works while a transaction of the shop's is open
	other  func(testing.TB) *sql.DB
}

// inShops runs a test on every database, through every driver.
func inShops(t *testing.T, cfg *vault.Config, test func(t *testing.T, s *shop)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *shop{
		"sqlite": func(t *testing.T) *shop { return newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), cfg) },
		"memory": func(t *testing.T) *shop { return newShopOnSQLite(t, ":memory:", cfg) },
		"lib/pq": func(t *testing.T) *shop { return newShopOnPostgres(t, "postgres", cfg) },
		"pgx":    func(t *testing.T) *shop { return newShopOnPostgres(t, "pgx", cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.exec(t, s.db, `CREATE TABLE orders (id integer PRIMARY KEY, card text NOT NULL)`)
			test(t, s)
		})
	}
}

func newShopOnSQLite(t *testing.T, path string, cfg *vault.Config) *shop {
	t.Helper()
	store, err := sqlite.OpenOptions(t.Context(), path, &sqlite.Options{WriteWait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.OpenStorage(t, store, cfg)
	return &shop{Vault: v, db: v.DB, other: func(t testing.TB) *sql.DB { return vaulttest.New(t).DB }}
}

func newShopOnPostgres(t *testing.T, driver string, cfg *vault.Config) *shop {
	t.Helper()
	address := pgtest.URL(t)
	store, err := postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	open := func(address string) *sql.DB {
		db, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	other := func(testing.TB) *sql.DB { return open(strings.Replace(address, "/postgres?", "/template1?", 1)) }
	return &shop{Vault: vaulttest.OpenStorage(t, store, cfg), db: open(address), beside: true, other: other}
}

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *shop) exec(t testing.TB, on execer, query string, args ...any) {
	t.Helper()
	if _, err := on.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// order places an order in a transaction.
func (s *shop) order(t testing.TB, tx *sql.Tx, id int, card *vault.Token) {
	t.Helper()
	s.exec(t, tx, `INSERT INTO orders (id, card) VALUES ($1, $2)`, id, card.ID)
}

func (s *shop) orders(t testing.TB) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shop) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func commit(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func rollback(t testing.TB, tx *sql.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func total(t testing.TB, c *vault.Client) int {
	t.Helper()
	page, err := c.ListTokens(t.Context(), vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCardNumber}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Pagination.TotalItems
}

// entriesOf returns how many entries of an operation on cards the log has.
func entriesOf(t testing.TB, c *vault.Client, operation vault.LogOperation) (n int) {
	t.Helper()
	page, err := c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "card_number", PageParams: vault.PageParams{Size: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Data {
		if e.Operation == operation {
			n++
		}
	}
	return n
}

func aCard(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: visa}
}
