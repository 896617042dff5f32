package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

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
