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

// slowStore holds reads of the first block of a tree of more than one block, which
// only a verification makes.
type slowStore struct {
	database
	once    sync.Once
	held    chan struct{}
	release chan struct{}
}

func (s *slowStore) ReadTree(ctx context.Context, q storage.TreeQuery) (storage.TreePart, error) {
	if q.Tenant != (storage.ID{}) && q.From == 0 && q.To > 0 {
		s.once.Do(func() { close(s.held) })
		select {
		case <-s.release:
		case <-ctx.Done():
			return storage.TreePart{}, ctx.Err()
		}
	}
	return s.database.ReadTree(ctx, q)
}

// While the background verification waits for the database, entries are sequenced
// and notes are signed.
func TestBackgroundVerificationDoesNotStopSigning(t *testing.T) {
	t.Parallel()
	r, tenant := newRig(t), uuid.New()
	first := r.open()
	r.write(first, tenant, 3*storage.LeavesPerBlock)
	r.settle(first, tenant, 3*storage.LeavesPerBlock)
	slow := &slowStore{database: r.store, held: make(chan struct{}), release: make(chan struct{})}
	l := r.openOn(slow)
	ctx, stop := context.WithCancel(t.Context())
	var ran sync.WaitGroup
	ran.Go(func() {
		l.Run(ctx, Schedule{Sequence: time.Millisecond, Checkpoint: 2 * time.Millisecond, Verify: 3 * time.Millisecond}, func(error) {})
	})
	defer ran.Wait()
	defer stop()
	defer close(slow.release)
	<-slow.held
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
		same(t, name, p.c != test.c, test.runs)
	}
}
