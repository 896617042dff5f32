//go:build long

package faults

import (
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestErasureSurvivesKills kills an erasure several times. Each new erasure
// continues the work. At the end no token is left, and each has one log entry
// for its deletion.
func TestErasureSurvivesKills(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		key := vault.NewKey()
		v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
		tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
		c := v.Tenant(tenant.ID)
		for r, err := range c.Import(t.Context(), fileFrom(1, rows), nil) {
			must.Do(t, err)
			must.Do(t, r.Err)
		}
		for _, kill := range []int{rows - 1, rows / 2, rows / 3, 100} {
			eraseAndKill(t, c, kill, startChild(t, dsn, key, childErase+"=1", childTenant+"="+tenant.ID.String()))
		}
		done := must.Get(c.EraseTokens(t.Context(), erasedTokens))(t)
		if done.Left != 0 || count(t, c) != 0 {
			t.Errorf("%d tokens are left", done.Left)
		}
		page := must.Get(c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"}))(t)
		must.Same(t, "log entries for tokens", 2*rows, page.Pagination.TotalItems)
		must.Get(v.Sweep(t.Context()))(t)
	})
}

// eraseAndKill kills a child when at most kill tokens are left.
func eraseAndKill(t *testing.T, c *vault.Owner, kill int, cmd *child) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for count(t, c) > kill {
		select {
		case err := <-ended:
			t.Fatalf("the child exited on its own: %v", err)
		default:
		}
	}
	_ = cmd.Process.Kill() // it may have finished
	<-ended
}

func count(t *testing.T, c *vault.Owner) int {
	t.Helper()
	stats := must.Get(c.Stats(t.Context()))(t)
	return stats.Tokens
}
