package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestExpiryOnNodesWithDifferentClocks lets tokens expire on two nodes, one with
// a clock a second ahead. Both sweep and change the tokens, and create the same
// values again with deduplication. Afterwards each value must have one token,
// and the count must be right.
func TestExpiryOnNodesWithDifferentClocks(t *testing.T) {
	t.Parallel()
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		key := vault.NewKey()
		var nodes []*vault.Vault
		var clocks []*vaulttest.Clock
		for _, ahead := range []time.Duration{0, time.Second} {
			clock := vaulttest.NewClock(vaulttest.Start.Add(ahead))
			nodes, clocks = append(nodes, openVault(t, dsn, key, &vault.Config{Now: clock.Now, SweepEvery: -1, WorkEvery: -1})), append(clocks, clock)
		}
		tenant := must.Get(nodes[0].CreateTenant(t.Context(), "Acme"))(t)
		e := &expiring{t: t, nodes: nodes, clients: []*vault.Client{nodes[0].Tenant(tenant.ID).Client, nodes[1].Tenant(tenant.ID).Client}}
		for round := range long.Rounds(2, 6) {
			ends := clocks[0].Now().Add(time.Minute)
			old := e.createAll(ends, 0)
			for _, c := range clocks {
				c.Advance(time.Minute)
			}
			e.replaceAll(round, old)
			for _, c := range clocks {
				c.Advance(time.Hour)
			}
		}
	})
}

// values is the number of values that the nodes compete for.
const values = 12

type expiring struct {
	t       *testing.T
	nodes   []*vault.Vault
	clients []*vault.Client
}

// create creates a token for a value on a node, or finds the existing one.
func (e *expiring) create(node, value int, ends time.Time) string {
	yes := true
	tok, err := e.clients[node].CreateToken(e.t.Context(), vault.TokenParams{
		Type: vault.TypeGeneric, Data: fmt.Sprintf("value %d", value), DeduplicateToken: &yes, ExpiresAt: ends,
	})
	if err != nil {
		e.t.Errorf("create: %v", err)
		return ""
	}
	return tok.ID
}

func (e *expiring) createAll(ends time.Time, node int) []string {
	ids := make([]string, values)
	for i := range ids {
		ids[i] = e.create(node, i, ends)
	}
	return ids
}

// replaceAll lets both nodes do everything at once with expired tokens.
func (e *expiring) replaceAll(round int, old []string) {
	e.t.Helper()
	made := [2][]string{make([]string, values), make([]string, values)}
	ends := e.ends(round)
	var wg sync.WaitGroup
	for node := range e.nodes {
		wg.Go(func() {
			must.Match(e.t, "sweep", must.Err(e.nodes[node].Sweep(e.t.Context())), nil)
		})
		for i := range values {
			wg.Go(func() { made[node][i] = e.create(node, i, ends) })
			wg.Go(func() {
				// The token has expired on both nodes, so a change never
				// succeeds.
				if _, err := e.clients[node].PatchToken(e.t.Context(), old[i], vault.JSON(`{"metadata":{"a":"b"}}`)); err == nil {
					e.t.Error("an expired token was changed")
				}
			})
		}
	}
	wg.Wait()
	for i := range values {
		if made[0][i] != made[1][i] || made[0][i] == old[i] {
			e.t.Errorf("value %d has the tokens %q and %q, previous token %q", i, made[0][i], made[1][i], old[i])
		}
	}
	must.Same(e.t, "tokens", values, len(readTokens(e.t, e.clients[1])))
}

// ends returns when the tokens of a round expire: before the next round begins.
func (e *expiring) ends(round int) time.Time {
	return vaulttest.Start.Add(time.Duration(round)*(time.Hour+time.Minute) + 30*time.Minute)
}
