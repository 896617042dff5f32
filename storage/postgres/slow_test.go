package postgres_test

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestSlowStatementIsStoppedAndNotRepeated makes every read of a token sleep. The
// server stops the statement, which has then begun once.
func TestSlowStatementIsStoppedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]bool{"direct": false, "pooler": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, &postgres.Options{HangTimeout: 3 * time.Second, TransactionPooler: pooler})
			must.Get(n.db.ExecContext(t.Context(), `CREATE SEQUENCE begun;
				ALTER TABLE vault_tokens RENAME TO all_tokens;
				CREATE VIEW vault_tokens AS SELECT t.* FROM all_tokens t, (SELECT nextval('begun'), pg_sleep(60)) s;`))(t)
			must.Match(t, "a slow list", n.list(t.Context()), storage.ErrSlow)
			must.Same(t, "the statement began", 1, number(t, n.db, "SELECT last_value FROM begun"))
			if got := number(t, n.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'", n.name); got != 0 {
				t.Errorf("%d statements are still running", got)
			}
		})
	}
}

// TestApplicationKeepsStatementTimeout calls the vault in a transaction of the
// application.
func TestApplicationKeepsStatementTimeout(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	tx := must.Get(n.db.BeginTx(t.Context(), nil))(t)
	defer func() { _ = tx.Rollback() }()
	must.Get(tx.ExecContext(t.Context(), "SET LOCAL statement_timeout = '54321ms'"))(t)
	in := must.Get(n.InTx(t.Context(), tx))(t)
	must.Get(in.Tokens(t.Context(), n.tenant, []string{n.token.ID}))(t)
	must.Do(t, in.Write(t.Context(), sample(n.tenant, 1)))
	var kept string
	if err := tx.QueryRowContext(t.Context(), "SHOW statement_timeout").Scan(&kept); err != nil || kept != "54321ms" {
		t.Errorf("statement_timeout is %s, %v", kept, err)
	}
}
