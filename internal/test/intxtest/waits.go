package intxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

// document returns a document that becomes many tokens. The last token has this
// id, unless it is "". The document is large enough to need the tenant's turns.
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

// waitsKeepNoTurn makes a transaction hold an id that other transactions of its
// tenant want, as many as the tenant has turns. They wait in the database, and the
// first transaction must still get a turn to finish.
func waitsKeepNoTurn(t *testing.T, shops Shops) {
	t.Helper()
	shops.Each(t, nil, func(t *testing.T, s *Shop) {
		if !s.Beside {
			return
		}
		first := s.BeginTx(t)
		in := s.Owner.InTx(first)
		create(t, in.Client, aCard("wanted"))
		callers := runtime.GOMAXPROCS(0)
		waiting := make(chan error, callers)
		for range callers {
			tx := s.BeginTx(t)
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

// waitingFor returns the number of connections that wait for a transaction.
func (s *Shop) waitingFor(t testing.TB, tx vault.Tx) (n int) {
	t.Helper()
	if err := s.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid(t, tx)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
