package ledger

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestPostgres runs every operation on a log on PostgreSQL.
func TestPostgres(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, pgtest.Alone(t), true)
	old := r.id()
	before := r.write(nil, old, 400)
	r.advance(3 * time.Hour)
	nodes := []*Ledger{r.open(), r.open(), r.open()}
	fresh := r.id()
	written := map[uuid.UUID][]storage.Log{old: before}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n, l := range nodes {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for i := range 5 {
				tenant := []uuid.UUID{old, fresh}[i%2]
				logs := r.write(l, tenant, 1+random.IntN(30))
				mu.Lock()
				written[tenant] = append(written[tenant], logs...)
				mu.Unlock()
				must.Match(t, "Checkpoint", must.Err(l.Checkpoint(context.Background())), nil)
			}
		})
	}
	wg.Wait()
	l := nodes[0]
	since := r.checkpoint(l)
	for tenant, logs := range written {
		r.settle(l, tenant, int64(len(logs)))
		r.isGood(l, tenant, since, logs...)
		if text, err := l.Proof(t.Context(), tenant, uuid.UUID(logs[3].ID)); err != nil || evidence.VerifyProof(text, r.vkey) != nil {
			t.Errorf("the proof: %v, %v", err, evidence.VerifyProof(text, r.vkey))
		}
	}
	cutoff := must.Get(l.Retain(t.Context(), old, before[399].CreatedAt.Add(2*time.Hour)))(t)
	r.isGood(l, old, since)
	must.Get(r.store.DeleteLogs(t.Context(), storage.ID(old), cutoff, 10_000))(t)
	r.isGood(l, old, since)
	if len(r.all()) > 0 {
		t.Error(r.all()[0])
	}
}

// Old entries that an open transaction holds back when evidence begins enter the
// tree after its end.
func TestImportOfHeldBackEntriesOnPostgres(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, pgtest.Alone(t), true)
	db := r.db()
	defer db.Close()
	tx := must.Get(db.BeginTx(t.Context(), nil))(t)
	must.Get(tx.ExecContext(t.Context(), "SELECT pg_current_xact_id()"))(t)
	tenant := r.id()
	old := r.logs(tenant, 2)
	r.put(nil, tenant, old)
	r.advance(time.Hour)
	l := r.open()
	r.settle(l, tenant, 0)
	must.Do(t, tx.Rollback())
	r.settle(l, tenant, 2)
	r.isGood(l, tenant, nil, old...)
	if all := r.all(); len(all) > 0 {
		t.Error(all)
	}
}
