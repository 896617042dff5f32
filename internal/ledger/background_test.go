package ledger

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// While the background verification waits for the database, entries are sequenced
// and notes are signed.
func TestBackgroundVerificationDoesNotStopSigning(t *testing.T) {
	t.Parallel()
	r, tenant := newRig(t), uuid.New()
	first := r.open()
	r.write(first, tenant, 3*storage.LeavesPerBlock)
	r.settle(first, tenant, 3*storage.LeavesPerBlock)
	held, release, hold := make(chan struct{}), make(chan struct{}), sync.Once{}
	// A read of the first block of a tree of more than one block, which only a
	// verification makes, waits.
	l := r.openOn(&tapped{database: r.store, before: func(ctx context.Context, query any) error {
		q, ok := query.(storage.TreeQuery)
		if !ok || q.Tenant == (storage.ID{}) || q.From != 0 || q.To == 0 {
			return nil
		}
		hold.Do(func() { close(held) })
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}})
	ctx, stop := context.WithCancel(t.Context())
	var ran sync.WaitGroup
	ran.Go(func() {
		l.Run(ctx, Schedule{Sequence: time.Millisecond, Checkpoint: 2 * time.Millisecond, Verify: 3 * time.Millisecond}, func(error) {})
	})
	defer ran.Wait()
	defer stop()
	defer close(release)
	<-held
	before := l.Status().Size
	r.write(l, tenant, 1)
	tick, over := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		if s := l.Status(); s.Pending == 0 && s.Size > before {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("during a verification %d entries wait", l.Status().Pending)
		}
	}
}

// A node leaves the verification to the node that holds the lease, and starts none
// before the interval has passed.
func TestBackgroundVerificationWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	r, l, _ := begun(t)
	now, other := r.clock(), r.id()
	for name, test := range map[string]struct {
		c    Cursor
		runs bool
	}{
		"another node verifies":       {c: Cursor{Owner: other, Began: now, Until: now.Add(time.Hour)}},
		"another node is gone":        {Cursor{Owner: other, Began: now, Until: now}, true},
		"the interval has not passed": {c: Cursor{Done: now.Add(-time.Minute)}},
		"the interval has passed":     {Cursor{Done: now.Add(-2 * time.Hour)}, true},
	} {
		p := &ownProgress{test.c}
		l.c.Progress = p
		must.Do(t, l.verifyInBackground(t.Context(), time.Hour))
		must.Same(t, name, test.runs, p.c != test.c)
	}
}
