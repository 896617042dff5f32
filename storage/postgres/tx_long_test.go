//go:build long

package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestOtherWritersStayFastBesideATransaction creates tokens of another tenant, and of the
// same type and container, while a transaction stays open for 30 seconds.
func TestOtherWritersStayFastBesideATransaction(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenants := openAt(t, address, nil), []storage.ID{newID(), newID()}
	creates(t, s, tenants, time.Second) // the first ones prepare statements
	usual, slow := creates(t, s, tenants, 3*time.Second)
	tx := must.Get(application(t, "postgres", address).Begin())(t)
	defer func() { _ = tx.Rollback() }()
	in := must.Get(s.InTx(t.Context(), tx))(t)
	must.Do(t, in.Write(t.Context(), sample(tenants[0], 1)))
	var first []time.Duration // in new sets that the transaction also uses
	for i := range byte(5) {
		mine, same := sample(tenants[0], 1), sample(tenants[0], 1)
		mine.InsertTokens[0].Set, same.InsertTokens[0].Set = storage.Hash{7, i}, storage.Hash{7, i}
		must.Do(t, in.Write(t.Context(), mine))
		began := time.Now()
		must.Do(t, s.Write(t.Context(), same))
		first = append(first, time.Since(began))
	}
	if took := slices.Min(first); took > 50*time.Millisecond+10*usual {
		t.Errorf("the first token in a set that the transaction also uses takes %s", took)
	}
	besideUsual, besideSlow := creates(t, s, tenants, 30*time.Second)
	if besideUsual > 3*usual+10*time.Millisecond || besideSlow > 3*slow+100*time.Millisecond {
		t.Errorf("beside the transaction a create takes %s, and a slow one %s; otherwise %s and %s", besideUsual, besideSlow, usual, slow)
	}
}

// creates writes tokens of the tenants in turn, 50 per second, and returns the
// median and the 99th percentile of the time they took.
func creates(t *testing.T, s *postgres.Store, tenants []storage.ID, during time.Duration) (half, most time.Duration) {
	t.Helper()
	var took []time.Duration
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for start := time.Now(); time.Since(start) < during; <-pace.C {
		began := time.Now()
		must.Do(t, s.Write(t.Context(), sample(tenants[len(took)%len(tenants)], 1)))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}
