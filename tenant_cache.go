package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// tenantState is what every operation needs of a tenant.
type tenantState struct {
	doc     tenantDoc
	ring    *seal.Ring
	ringRev int64
	readAt  time.Time // on the monotonic clock, when the query began
}

// tenantCache keeps the state of tenants for Config.KeyAge. The ring in it is
// unwrapped only when the wrapped bytes in the database are not those of the
// last time, since with a key in a KMS every unwrapping is a call to it.
type tenantCache struct {
	v *Vault

	mu      sync.Mutex
	states  map[uuid.UUID]*tenantState
	rings   map[uuid.UUID]wrappedRing
	loads   map[uuid.UUID]*tenantLoad // under way, one of a tenant at a time
	changed time.Time                 // when this node last changed a tenant
}

// wrappedRing is a ring with the bytes that it was unwrapped from.
type wrappedRing struct {
	wrapped []byte
	ring    *seal.Ring
}

// tenantLoad is a reading of a state that several callers may wait for. Its
// outcome is set when done is closed.
type tenantLoad struct {
	began time.Time
	done  chan struct{}

	state *tenantState
	err   error
	cut   bool // it ended with the caller that ran it, and says nothing
}

// maxCachedTenants bounds each map of the cache; beyond it, it starts anew.
const maxCachedTenants = 10_000

func newTenantCache(v *Vault) *tenantCache {
	return &tenantCache{
		v: v, states: map[uuid.UUID]*tenantState{}, rings: map[uuid.UUID]wrappedRing{}, loads: map[uuid.UUID]*tenantLoad{},
	}
}

// timeToWrite is what an operation has left of maxKeyAge, at the least, when it
// begins: a change under keys that are older is not written.
const timeToWrite = 2 * time.Second

// get returns a state that is at most Config.KeyAge old, and not from before a
// change that this node has made.
func (tc *tenantCache) get(ctx context.Context, id uuid.UUID) (*tenantState, error) {
	after := time.Now().Add(-min(tc.v.cfg.KeyAge, maxKeyAge-timeToWrite))
	tc.mu.Lock()
	s := tc.states[id]
	changed := tc.changed
	tc.mu.Unlock()
	if s != nil && s.readAt.After(after) {
		return s, nil
	}
	if changed.After(after) {
		after = changed
	}
	return tc.load(ctx, id, after)
}

// reload returns a state that was read after the call.
func (tc *tenantCache) reload(ctx context.Context, id uuid.UUID) (*tenantState, error) {
	return tc.load(ctx, id, time.Now())
}

// load returns a state whose reading began after a moment. A caller that finds
// a reading under way waits for it, and reads again only if that one began too
// early, or was cut off together with its caller.
func (tc *tenantCache) load(ctx context.Context, id uuid.UUID, after time.Time) (*tenantState, error) {
	for {
		l, mine := tc.join(id)
		if mine {
			tc.run(ctx, id, l)
			return l.state, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !l.cut && l.began.After(after) {
			return l.state, l.err
		}
	}
}

// join returns the reading that is under way, or a new one for the caller to
// run.
func (tc *tenantCache) join(id uuid.UUID) (l *tenantLoad, mine bool) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if l := tc.loads[id]; l != nil {
		return l, false
	}
	l = &tenantLoad{began: time.Now(), done: make(chan struct{})}
	tc.loads[id] = l
	return l, true
}

// run carries out a reading and tells those who wait for it.
func (tc *tenantCache) run(ctx context.Context, id uuid.UUID, l *tenantLoad) {
	l.cut = true // unless it comes to its end: a master key may panic
	defer func() {
		tc.mu.Lock()
		defer tc.mu.Unlock()
		delete(tc.loads, id)
		close(l.done)
	}()
	l.state, l.err = tc.read(ctx, id, l.began)
	l.cut = l.err != nil && ctx.Err() != nil
	switch {
	case l.err == nil:
		tc.keep(id, l.state)
	case errors.Is(l.err, ErrNotFound):
		tc.drop(id)
	}
}

// keep stores a state, unless it may be from before a change of this node.
func (tc *tenantCache) keep(id uuid.UUID, s *tenantState) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if s.readAt.After(tc.changed) {
		put(tc.states, id, s)
	}
}

// put adds to a map of the cache within its bound.
func put[T any](m map[uuid.UUID]T, id uuid.UUID, value T) {
	if len(m) >= maxCachedTenants {
		clear(m)
	}
	m[id] = value
}

// forget makes the next operation on this node read the state anew.
func (tc *tenantCache) forget(id uuid.UUID) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.changed = time.Now()
	delete(tc.states, id)
}

// drop lets go of the keys of a tenant that is gone.
func (tc *tenantCache) drop(id uuid.UUID) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	delete(tc.states, id)
	delete(tc.rings, id)
}

// read reads the ring after the tenant's record, so that it knows the key which
// the record is sealed under.
func (tc *tenantCache) read(ctx context.Context, id uuid.UUID, began time.Time) (*tenantState, error) {
	s := &tenantState{readAt: began}
	own := []storage.ID{storage.ID(id)}
	tenants, err := tc.v.store.Records(ctx, storage.ID(id), kindTenant, own)
	if err != nil {
		return nil, err
	}
	rings, err := tc.v.store.Records(ctx, storage.ID(id), kindRing, own)
	if err != nil {
		return nil, err
	}
	if len(rings) == 0 || len(tenants) == 0 {
		return nil, errNoTenant
	}
	if s.ring, err = tc.unwrap(id, rings[0].Body); err != nil {
		return nil, fmt.Errorf("vault: tenant %s: %w", id, err)
	}
	s.ringRev = rings[0].Rev
	place := sealed.RecordPlace(&tenants[0])
	place.Tenant = id
	plain, err := s.ring.Open(&place, tenants[0].KeyVersion, tenants[0].Body)
	if err != nil {
		return nil, fmt.Errorf("vault: tenant %s: %w", id, err)
	}
	if err := decodeRecord(&tenants[0], plain, &s.doc); err != nil {
		return nil, err
	}
	s.doc.ID, s.doc.rev = id, tenants[0].Rev
	return s, nil
}

// unwrap opens a ring, unless it is the one that was opened last.
func (tc *tenantCache) unwrap(id uuid.UUID, wrapped []byte) (*seal.Ring, error) {
	tc.mu.Lock()
	known := tc.rings[id]
	tc.mu.Unlock()
	if known.ring != nil && bytes.Equal(known.wrapped, wrapped) {
		return known.ring, nil
	}
	ring, err := seal.Unwrap(tc.v.master, id, wrapped)
	if err != nil {
		return nil, err
	}
	tc.mu.Lock()
	defer tc.mu.Unlock()
	put(tc.rings, id, wrappedRing{wrapped, ring})
	return ring, nil
}
