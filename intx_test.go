package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // a driver that applications use

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// shop is an application that keeps its orders in the vault's database.
type shop struct {
	*vaulttest.Vault

	DB     *sql.DB                  // for statements outside of transactions
	Other  func(testing.TB) *sql.DB // another database
	Beside bool                     // the vault can work while a transaction of the shop is open
}

// allShops open shops, by the names of their drivers. Module vaultpgx runs the
// rules of a storage on transactions of pgx itself.
type allShops map[string]func(*testing.T, *vault.Config) *shop

// each runs a test in every shop.
func (shops allShops) each(t *testing.T, cfg *vault.Config, test func(t *testing.T, s *shop)) {
	t.Helper()
	for name, open := range shops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, cfg)
			s.exec(t, s.DB, `CREATE TABLE orders (id integer PRIMARY KEY, card text NOT NULL)`)
			test(t, s)
		})
	}
}

var shops = allShops{
	"sqlite": func(t *testing.T, cfg *vault.Config) *shop {
		return newShopOnSQLite(t, filepath.Join(t.TempDir(), "shop.db"), cfg)
	},
	"memory": func(t *testing.T, cfg *vault.Config) *shop { return newShopOnSQLite(t, ":memory:", cfg) },
	"lib/pq": func(t *testing.T, cfg *vault.Config) *shop { return newShopOnPostgres(t, "postgres", cfg) },
	"pgx":    func(t *testing.T, cfg *vault.Config) *shop { return newShopOnPostgres(t, "pgx", cfg) },
}

func newShopOnSQLite(t *testing.T, path string, cfg *vault.Config) *shop {
	t.Helper()
	store := must.Get(sqlite.OpenOptions(t.Context(), path, &sqlite.Options{WriteWait: 2 * time.Second}))(t)
	v := vaulttest.OpenStorage(t, store, cfg)
	return &shop{Vault: v, DB: v.DB, Other: func(tb testing.TB) *sql.DB { return vaulttest.New(tb).DB }}
}

func newShopOnPostgres(t *testing.T, driver string, cfg *vault.Config) *shop {
	t.Helper()
	address := pgtest.URL(t)
	store := must.Get(postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6}))(t)
	open := func(address string) *sql.DB {
		db := must.Get(sql.Open(driver, address))(t)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	other := func(testing.TB) *sql.DB { return open(strings.Replace(address, "/postgres?", "/template1?", 1)) }
	return &shop{Vault: vaulttest.OpenStorage(t, store, cfg), DB: open(address), Other: other, Beside: true}
}

// begin begins a transaction. The end of the test rolls it back.
func (s *shop) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx := must.Get(s.DB.BeginTx(context.Background(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
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
	must.Do(t, s.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n))
	return n
}

// pid returns the PostgreSQL process of a transaction.
func pid(t testing.TB, tx *sql.Tx) (pid int) {
	t.Helper()
	must.Do(t, tx.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
	return pid
}

func total(t testing.TB, c *vault.Client) int {
	t.Helper()
	page := must.Get(c.ListTokens(t.Context(), vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCardNumber}}))(t)
	return page.Pagination.TotalItems
}

// entriesOf returns the number of log entries of an operation on cards.
func entriesOf(t testing.TB, c *vault.Client, operation vault.LogOperation) int {
	t.Helper()
	page := must.Get(c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "card_number", Operation: operation}))(t)
	return page.Pagination.TotalItems
}

func commit(t testing.TB, tx vault.Tx) {
	t.Helper()
	must.Do(t, tx.Commit())
}

func rollback(t testing.TB, tx vault.Tx) {
	t.Helper()
	must.Do(t, tx.Rollback())
}

func aCard(id string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: given.Visa}
}

// TestInTxCommits checks that a commit of the application also commits the vault's
// changes.
func TestInTxCommits(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		for name, c := range map[string]*vault.Client{"tenant": s.Owner.Client, "application": s.Private, "user": s.Owner.AsUser("jane").Client} {
			before, logged, orders := total(t, s.Owner.Client), entriesOf(t, s.Owner.Client, vault.OperationCreate), s.orders(t)
			tx := s.begin(t)
			in := c.InTx(tx)
			card := given.Create(t, in, aCard("card-"+name))
			s.order(t, tx, orders, card)
			given.Same(t, name+": the transaction does not see its own token", given.Get(t, in, card.ID).ID, card.ID)
			given.Same(t, name+": the transaction lists", total(t, in), before+1)
			if s.Beside {
				must.Match(t, name+": before the commit", must.Err(c.GetToken(t.Context(), card.ID)), vault.ErrNotFound)
			}
			commit(t, tx)
			given.Get(t, c, card.ID)
			if got := total(t, s.Owner.Client); got != before+1 || s.orders(t) != orders+1 {
				t.Errorf("%s: %d tokens and %d orders after the commit", name, got, s.orders(t))
			}
			given.Same(t, name, entriesOf(t, s.Owner.Client, vault.OperationCreate), logged+1)
			wantUser := map[string]string{"user": "jane"}[name]
			page := must.Get(s.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityID: card.ID}))(t)
			for _, e := range page.Data {
				if by := e.ActorName; by != wantUser && !(by == "" && e.Operation == vault.OperationRead) {
					t.Errorf("%s: the entry of %s names %q", name, e.Operation, by)
				}
			}
		}
	})
}

// TestInTxRollsBack checks that a rollback leaves nothing behind, not even in caches.
func TestInTxRollsBack(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		ctx := t.Context()
		kept := given.Create(t, s.Owner.Client, aCard("kept"))
		logged := entriesOf(t, s.Owner.Client, vault.OperationCreate)
		tx := s.begin(t)
		c := s.Owner.InTx(tx)
		s.order(t, tx, 1, given.Create(t, c.Client, vault.TokenParams{ID: "gone", Type: vault.TypeCardNumber, Data: given.Mastercard, Containers: []string{"/gone/"}}))
		must.Do(t, c.DeleteToken(ctx, kept.ID))
		app := must.Get(c.CreateApplication(ctx, vault.ApplicationParams{Name: "Gone", Type: vault.ApplicationPrivate, Permissions: given.Everything}))(t)
		as, err := c.As(ctx, app.ID) // must not be cached
		must.Do(t, err)
		given.Get(t, as, "gone")
		own := s.Private.InTx(tx)
		must.Do(t, c.DeleteApplication(ctx, s.Private.ApplicationID()))
		must.Match(t, "an application that the transaction has deleted", must.Err(own.GetToken(ctx, "gone")), vault.ErrUnauthenticated)
		rollback(t, tx)

		must.Match(t, "the token", must.Err(s.Owner.GetToken(ctx, "gone")), vault.ErrNotFound)
		must.Match(t, "the key", must.Err(s.Authenticate(ctx, app.Key)), vault.ErrUnauthenticated)
		must.Match(t, "the application", must.Err(s.Owner.As(ctx, app.ID)), vault.ErrNotFound)
		must.Match(t, "a client of the transaction", must.Err(as.GetToken(ctx, "kept")), sql.ErrTxDone)
		given.Get(t, s.Private, "kept")
		if n := total(t, s.Owner.Client); n != 1 || s.orders(t) != 0 {
			t.Errorf("%d tokens and %d orders are left, want 1 and none", n, s.orders(t))
		}
		given.Same(t, "log entries", entriesOf(t, s.Owner.Client, vault.OperationCreate), logged)
		some, _ := s.NewApplication(t, s.Owner, vault.ApplicationPrivate, []vault.AccessRule{{Priority: 1, Container: "/gone/", Transform: vault.TransformMask, Permissions: given.Everything}})
		given.Same(t, "total", total(t, some), 0)
		given.Create(t, some, vault.TokenParams{ID: "gone", Type: vault.TypeCardNumber, Data: given.Mastercard, Containers: []string{"/gone/"}})
		given.Same(t, "total", total(t, some), 1)
	})
}

// TestInTxAfterRefusals checks that a refused call leaves the transaction usable.
func TestInTxAfterRefusals(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		ctx, yes := t.Context(), true
		unique := func(id string, data string) vault.TokenParams {
			return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: data, DeduplicateToken: &yes}
		}
		given.Create(t, s.Owner.Client, aCard("taken"))
		first := given.Create(t, s.Owner.Client, unique("first", given.Mastercard))
		tx := s.begin(t)
		c := s.Owner.InTx(tx)
		must.Match(t, "an id that is taken", must.Err(c.CreateToken(ctx, aCard("taken"))), vault.ErrConflict)
		given.Same(t, "a duplicate of what is committed became", given.Create(t, c.Client, unique("second", given.Mastercard)).ID, first.ID)
		mine := given.Create(t, c.Client, unique("mine", "4111111111111111"))
		if dup := given.Create(t, c.Client, unique("again", "4111111111111111")); dup.ID != mine.ID {
			t.Errorf("a duplicate of what the transaction wrote became %s", dup.ID)
		}
		must.Match(t, "DeleteToken", c.DeleteToken(ctx, "nothing"), vault.ErrNotFound)
		must.Match(t, "CreateToken", must.Err(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCardNumber, Data: "1234"})), vault.ErrInvalid)
		s.order(t, tx, 1, mine)
		commit(t, tx)
		if n := total(t, s.Owner.Client); n != 3 || s.orders(t) != 1 {
			t.Errorf("%d tokens and %d orders, want 3 and 1", n, s.orders(t))
		}
	})
}

// TestInTxReplacesExpiredTokens creates a token with the id of an expired token.
func TestInTxReplacesExpiredTokens(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		soon := s.Clock.Now().Add(time.Minute)
		given.Create(t, s.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: given.Visa, ExpiresAt: soon})
		s.Clock.Advance(time.Hour)
		for _, end := range []func(testing.TB, vault.Tx){rollback, commit} {
			tx := s.begin(t)
			given.Create(t, s.Owner.InTx(tx).Client, aCard("card"))
			end(t, tx)
		}
		given.Get(t, s.Owner.Client, "card")
		given.Same(t, "log entries", entriesOf(t, s.Owner.Client, vault.OperationExpire), 1)
	})
}

// TestInTxSharedByClients makes clients of two tenants work in one transaction concurrently.
func TestInTxSharedByClients(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		_, other := s.NewTenant(t, "Other")
		tx := s.begin(t)
		clients := []*vault.Client{s.Owner.InTx(tx).Client, s.Private.InTx(tx), other.InTx(tx).Client}
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
		if a, b := total(t, s.Owner.Client), total(t, other.Client); a != 10 || b != 5 {
			t.Errorf("the tenants have %d and %d tokens, want 10 and 5", a, b)
		}
	})
}

// TestInTxLogsReads checks the effect of a rollback on the entry of a read.
func TestInTxLogsReads(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			t.Parallel()
			shops.each(t, &vault.Config{StrictReadLogs: strict}, func(t *testing.T, s *shop) {
				given.Create(t, s.Owner.Client, aCard("card"))
				tx := s.begin(t)
				given.Get(t, s.Owner.InTx(tx).Client, "card")
				rollback(t, tx)
				want := 0
				if strict && s.Beside {
					want = 1
				}
				given.Same(t, "log entries", entriesOf(t, s.Owner.Client, vault.OperationRead), want)
				tx = s.begin(t)
				given.Get(t, s.Owner.InTx(tx).Client, "card")
				commit(t, tx)
				given.Same(t, "log entries", entriesOf(t, s.Owner.Client, vault.OperationRead), want+1)
			})
		})
	}
}

// TestInTxAndCallsOutside makes an easy mistake: it calls the vault in the middle of a
// transaction, without InTx.
func TestInTxAndCallsOutside(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		given.Create(t, s.Owner.Client, aCard("card"))
		tx := s.begin(t)
		given.Create(t, s.Owner.InTx(tx).Client, aCard("inside"))
		_, err := s.Owner.CreateToken(t.Context(), aCard("outside"))
		_, readErr := s.Owner.GetToken(t.Context(), "card")
		for what, err := range map[string]error{"a write": err, "a read": readErr} {
			if s.Beside && err != nil {
				t.Errorf("%s beside the transaction: %v", what, err)
			}
			if !s.Beside && !errors.Is(err, vault.ErrUnavailable) {
				t.Errorf("%s beside the transaction: got %v, want ErrUnavailable", what, err)
			}
		}
		commit(t, tx)
		given.Get(t, s.Owner.Client, "inside")
		given.Create(t, s.Owner.Client, aCard("after"))
	})
}
