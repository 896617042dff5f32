// Package keyring reads, unwraps and caches the keys of tenants. Concurrent
// callers share one read, and the result is kept for a short time. [Root] is the key
// above them, which the master key wraps.
//
// It promises that a node seals nothing with keys that it read more than [MaxAge] ago,
// so that a rotation can destroy an old key after [Horizon] without asking the nodes; and
// that keys are dropped from memory within a minute after the master key, or a tenant's
// own key, was denied. Unwrapped keys are in no file and no log.
//
// It rests on package seal for wrapping, and on the program or a KMS for the keys above.
// A ring has a front, which opens without the tenant's own key, so that a tenant whose
// key is denied can still read its log.
//
// Begin with [Cache.Get] and [State]. The watch over a key that can be denied is in
// watch.go, the keys that tenants bring in ownkeys.go, and the master key in root.go.
package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// The kinds of records with a tenant's keys.
var (
	KindTenant = seal.RecordKind("tenant")
	KindRing   = seal.RecordKind("ring")
)

// KindTombstone is the kind of the record that a deleted tenant leaves
// behind.
var KindTombstone = seal.RecordKind("tombstone")

// MaxAge is the longest time that a node may seal with keys after reading
// them. A rotation waits for it, so nothing may be written with older keys.
const MaxAge = 10 * time.Second

// Horizon is how long a rotation waits before it destroys a retired key:
// MaxAge, plus time for a write that started just before. Tests that do not
// check the wait shorten it before they open a vault. Nothing else may change
// it.
var Horizon = MaxAge + 2*time.Second

// timeToWrite is the least time before MaxAge that an operation has when it
// starts.
const timeToWrite = 2 * time.Second

// State is the data of a tenant that every operation needs. D is the type of
// the tenant's document.
type State[D any] struct {
	Doc     D
	Ring    *seal.Ring
	RingRev int64         // revision of the ring's record
	Hold    *storage.Hold // hold on the ring's record at this revision
	ReadAt  time.Time     // start of the read, on the monotonic clock
}

// WriteBefore returns the deadline for changes that were sealed with these
// keys.
func (s *State[D]) WriteBefore() time.Time { return s.ReadAt.Add(MaxAge) }

// Records reads records. A storage implements it.
type Records interface {
	Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error)
}

// Config is the configuration of a Cache. Fields are required unless their comment
// says otherwise.
type Config[D any] struct {
	Store Records
	// Root wraps the rings of tenants.
	Root seal.AEAD
	// Missing is the error for a tenant that does not exist.
	Missing error
	// Bad is called each time a record of a tenant, of the given kind, cannot be
	// trusted. It returns the error for the caller. If older is true, the record is
	// a ring that is older than a ring that this node has used.
	Bad func(ctx context.Context, tenant uuid.UUID, kind string, older bool, err error) error
	// Refused reports whether a tenant must not be used although its records exist.
	// It may be nil.
	Refused func(tenant uuid.UUID) bool
	// Age is how long a state is used before it is read again.
	Age time.Duration
	// Usable returns an error while the holder of the master key does not let the
	// vault use it.
	Usable func() error
	// Own has the tenants' own keys.
	Own *OwnKeys
	// Decode decodes the document of a tenant.
	Decode func(rec *storage.Record, plain []byte) (D, error)
	// Sealed returns the document of a tenant whose own key is denied.
	Sealed func(rec *storage.Record) D
}

// Cache keeps the states of tenants for Config.Age. It unwraps a ring only if
// the wrapped bytes in the database have changed.
type Cache[D any] struct {
	cfg Config[D]

	mu      sync.Mutex
	known   bounded.Map[uuid.UUID, *known[D]]
	newest  map[uuid.UUID]int64    // revisions of all rings that were used
	loads   map[uuid.UUID]*load[D] // reads in progress, at most one per tenant
	changed time.Time              // when this node last changed a tenant
}

// known is what the cache has of a tenant.
type known[D any] struct {
	state   *State[D] // nil if it must be read again
	wrapped []byte    // the wrapped form of ring
	ring    *seal.Ring
	own     *ownKey // nil if the master key alone wraps the ring
}

// load is a read of a state that several callers may wait for. Its result is
// set when done is closed.
type load[D any] struct {
	began time.Time
	done  chan struct{}

	state *State[D]
	err   error
	cut   bool // its caller left, so there is no result
}

// maxTenants is how many tenants a cache knows. Each further tenant replaces a
// random one.
const maxTenants = 50_000

// New returns an empty cache.
func New[D any](cfg Config[D]) *Cache[D] {
	return &Cache[D]{cfg: cfg, newest: map[uuid.UUID]int64{}, loads: map[uuid.UUID]*load[D]{}}
}

// Get returns a state that is at most Config.Age old, leaves time to write,
// and is not older than the last change of this node.
func (c *Cache[D]) Get(ctx context.Context, tenant uuid.UUID) (*State[D], error) {
	s, after := c.recent(tenant)
	if s != nil {
		return s, nil
	}
	return c.load(ctx, tenant, after)
}

// recent returns a state that Get may return without a read. Otherwise it
// returns nil and the time after which the state must be read.
func (c *Cache[D]) recent(tenant uuid.UUID) (*State[D], time.Time) {
	after := time.Now().Add(-min(c.cfg.Age, MaxAge-timeToWrite))
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.usable(tenant); k != nil && k.state != nil && k.state.ReadAt.After(after) {
		return k.state, after
	}
	if c.changed.After(after) {
		after = c.changed
	}
	return nil, after
}

// usable returns what the cache has of a tenant; nil if there is nothing, or if a key
// must not be used although what it opened is not dropped yet. The caller holds mu.
func (c *Cache[D]) usable(tenant uuid.UUID) *known[D] {
	if k := c.known[tenant]; k != nil && c.cfg.Usable() == nil && k.own.usable() == nil {
		return k
	}
	return nil
}

// Reload returns a state that was read after the call.
func (c *Cache[D]) Reload(ctx context.Context, tenant uuid.UUID) (*State[D], error) {
	return c.load(ctx, tenant, time.Now())
}

// Read is Get, or Reload if again is true, for a caller that must read from
// another source. The source must not be older than the database, and its
// records must not be rolled back.
func (c *Cache[D]) Read(ctx context.Context, from Records, tenant uuid.UUID, again bool) (*State[D], error) {
	if s, _ := c.recent(tenant); s != nil && !again {
		return s, nil
	}
	s, err := c.read(ctx, from, tenant, time.Now())
	if err != nil {
		return nil, err
	}
	c.keep(tenant, s)
	return s, nil
}

// load returns a state whose read started after a moment. If a read is in
// progress, the caller waits for it. The caller reads again only if that read
// started too early, or was canceled with its own caller.
func (c *Cache[D]) load(ctx context.Context, tenant uuid.UUID, after time.Time) (*State[D], error) {
	storage.WaitUntil(ctx, 0) // the caller's time limit for the database starts, even if another caller reads
	for {
		l, mine := c.join(tenant)
		if mine {
			c.run(ctx, tenant, l)
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

// join returns the read in progress, or a new one for the caller to run.
func (c *Cache[D]) join(tenant uuid.UUID) (l *load[D], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.loads[tenant]; l != nil {
		return l, false
	}
	l = &load[D]{began: time.Now(), done: make(chan struct{})}
	c.loads[tenant] = l
	return l, true
}

// run performs a read and wakes the callers that wait for it.
func (c *Cache[D]) run(ctx context.Context, tenant uuid.UUID, l *load[D]) {
	l.cut = true // unless it completes; a tenant's own key may panic
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.loads, tenant)
		close(l.done)
	}()
	l.state, l.err = c.read(ctx, c.cfg.Store, tenant, l.began)
	l.cut = l.err != nil && ctx.Err() != nil
	switch {
	case l.err == nil:
		c.keep(tenant, l.state)
	case errors.Is(l.err, c.cfg.Missing):
		c.Drop(tenant)
	}
}

// keep stores a state, unless it may be older than the last change of this
// node, or its keys were dropped.
func (c *Cache[D]) keep(tenant uuid.UUID, s *State[D]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[tenant]; k != nil && k.ring == s.Ring && s.ReadAt.After(c.changed) {
		k.state = s
	}
}

// Forget makes the next operation on this node read the state again.
func (c *Cache[D]) Forget(tenant uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = time.Now()
	if k := c.known[tenant]; k != nil {
		k.state = nil
	}
}

// Drop removes the keys of a deleted tenant. This node does not use them
// again.
func (c *Cache[D]) Drop(tenant uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, tenant)
	if _, used := c.newest[tenant]; used {
		c.newest[tenant] = math.MaxInt64
	}
	c.cfg.Own.assign(tenant, "")
}

// DropKeys removes the keys of tenants whose own key may no longer be used.
func (c *Cache[D]) DropKeys(tenants []uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tenant := range tenants {
		delete(c.known, tenant)
	}
}

// DropAll removes the keys of all tenants, because the master key may no longer
// be used.
func (c *Cache[D]) DropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}

// records reads the record of a tenant, and then the record of its ring, so that the
// ring has the key that sealed the tenant's record. It fails if the master key may not
// be used.
func (c *Cache[D]) records(ctx context.Context, store Records, tenant uuid.UUID) (both [2]storage.Record, err error) {
	if err := c.cfg.Usable(); err != nil {
		return both, err
	}
	own := []storage.ID{storage.ID(tenant)}
	for i, kind := range []string{KindTenant, KindRing} {
		recs, err := store.Records(ctx, own[0], kind, own)
		if err != nil {
			return both, err
		}
		if len(recs) == 0 || c.cfg.Refused != nil && c.cfg.Refused(tenant) {
			return both, c.cfg.Missing
		}
		both[i] = recs[0]
	}
	return both, nil
}

// readAttempts limits how often a state is read.
const readAttempts = 3

// read reads a state. It starts over if the ring lacks the key of the tenant's
// record, which a rotation has destroyed between the two reads, or if the ring is
// older than a ring that this node has used, because the tenant may have been deleted
// during the read.
func (c *Cache[D]) read(ctx context.Context, store Records, tenant uuid.UUID, began time.Time) (*State[D], error) {
	for attempt := 1; ; attempt++ {
		s, bad, err := c.open(ctx, store, tenant)
		older := errors.Is(err, errOlder)
		switch {
		case err == nil:
			s.ReadAt = began
			return s, nil
		case (older || errors.Is(err, seal.ErrNoKey)) && attempt < readAttempts:
		case bad == "":
			return nil, err
		default:
			return nil, c.cfg.Bad(ctx, tenant, bad, older, fault.Wrap(err, "tenant %s", tenant))
		}
	}
}

// open reads a state once. If a record cannot be trusted, it returns its kind.
func (c *Cache[D]) open(ctx context.Context, store Records, tenant uuid.UUID) (s *State[D], bad string, err error) {
	recs, err := c.records(ctx, store, tenant)
	if err != nil {
		return nil, "", err
	}
	rec := &recs[0]
	ring, err := c.unwrap(ctx, tenant, recs[1].Body)
	switch {
	case errors.Is(err, ErrRing) || errors.Is(err, errOlder):
		return nil, KindRing, err
	case err != nil:
		return nil, "", fault.Wrap(err, "tenant %s", tenant)
	}
	location := seal.RecordLocation(rec)
	location.Tenant = tenant
	plain, err := ring.Open(&location, rec.KeyVersion, rec.Body)
	if err != nil {
		return nil, KindTenant, err
	}
	s = newState[D](ring, &recs[1])
	s.Doc, err = c.cfg.Decode(rec, plain)
	return s, KindTenant, err
}

// newState returns the state with a ring and its record.
func newState[D any](ring *seal.Ring, rec *storage.Record) *State[D] {
	return &State[D]{Ring: ring, RingRev: rec.Rev, Hold: &storage.Hold{Kind: KindRing, ID: rec.ID, Rev: rec.Rev}}
}

// errOlder means that this node has used a newer ring.
var errOlder = errors.New("the ring is older than one that was used")

// ErrRing means that the root cannot unwrap the ring of a tenant. The ring was altered.
var ErrRing = errors.New("the ring of the tenant was altered")

// unwrap unwraps a ring, unless it was the last one unwrapped.
func (c *Cache[D]) unwrap(ctx context.Context, tenant uuid.UUID, wrapped []byte) (*seal.Ring, error) {
	if ring := c.unwrapped(tenant, wrapped); ring != nil {
		return ring, nil
	}
	ring, err := seal.UnwrapOwn(ctx, c.cfg.Root, c.cfg.Own.open, tenant, wrapped)
	switch {
	case cannotOpen(err):
		err = fmt.Errorf("%w: %w", ErrRing, err)
	case errors.Is(err, seal.ErrUnwrap):
		err = unavailable(err)
	}
	if err == nil {
		err = c.use(tenant, wrapped, ring)
	}
	if err != nil {
		return nil, err
	}
	return ring, nil
}

// unwrapped returns the ring of a tenant if these bytes were unwrapped last.
func (c *Cache[D]) unwrapped(tenant uuid.UUID, wrapped []byte) *seal.Ring {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.usable(tenant); k != nil && bytes.Equal(k.wrapped, wrapped) {
		return k.ring
	}
	return nil
}

// use stores a ring, unless this node has used a newer one, or the master key
// was denied since.
func (c *Cache[D]) use(tenant uuid.UUID, wrapped []byte, ring *seal.Ring) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cfg.Usable(); err != nil {
		return err
	}
	if ring.Revision() < c.newest[tenant] {
		return errOlder
	}
	own := c.cfg.Own.assign(tenant, ring.URI())
	if err := own.usable(); err != nil {
		return err
	}
	c.newest[tenant] = ring.Revision()
	c.known.Put(maxTenants, tenant, &known[D]{wrapped: wrapped, ring: ring, own: own})
	return nil
}
