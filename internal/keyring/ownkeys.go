package keyring

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// OwnConfig configures OwnKeys. Open may be nil; the other fields are required.
type OwnConfig struct {
	// Open opens the key that a URI names.
	Open func(ctx context.Context, uri string) (seal.AEAD, error)
	// Age and Grace are as in WatchConfig. If Age is negative, keys are not watched.
	Age, Grace time.Duration
	// Drop forgets the keys of some tenants.
	Drop func(tenants []uuid.UUID)
	// Changed is called for each change of state of a key, with its tenants.
	Changed func(ctx context.Context, tenants []uuid.UUID, c KeyChange) error
	Now     func() time.Time
	Logger  *slog.Logger
}

// OwnKeys are the tenants' own keys. Each URI has its own watch and its own limit of
// calls, so a service that hangs delays only the tenants of its keys.
type OwnKeys struct {
	OwnConfig
	ctx  context.Context // of the watches
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	keys    map[string]*ownKey
	tenants map[uuid.UUID]*ownKey
}

const (
	// callsAtOnce limits concurrent calls to the key of a URI.
	callsAtOnce = 4
	// callTimeout bounds one of these calls.
	callTimeout = 10 * time.Second
)

// NewOwnKeys returns an empty set.
func NewOwnKeys(cfg OwnConfig) *OwnKeys {
	o := &OwnKeys{OwnConfig: cfg, keys: map[string]*ownKey{}, tenants: map[uuid.UUID]*ownKey{}}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// Close ends all watches.
func (o *OwnKeys) Close() {
	o.stop()
	o.done.Wait()
}

// Status is what is known about a tenant's own key.
type Status struct {
	URI       string // without secrets
	State     KeyState
	CheckedAt time.Time // when its holder last responded; zero if it never did
}

// Status returns the status of a tenant's own key; nil if it has none, or if this
// node has not read its ring yet.
func (o *OwnKeys) Status(tenant uuid.UUID) *Status {
	o.mu.Lock()
	k := o.tenants[tenant]
	o.mu.Unlock()
	if k == nil {
		return nil
	}
	s := &Status{URI: ShownURI(k.uri), State: k.state()}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.CheckedAt = k.checked
	return s
}

// States returns the numbers of keys in each state.
func (o *OwnKeys) States() map[KeyState]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	states := map[KeyState]int{KeyOK: 0, KeyDenied: 0, KeyUnreachable: 0}
	for _, k := range o.keys {
		states[k.state()]++
	}
	return states
}

// Usable returns an error if the own key of a tenant must not be used.
func (o *OwnKeys) Usable(tenant uuid.UUID) error {
	o.mu.Lock()
	k := o.tenants[tenant]
	o.mu.Unlock()
	return k.usable()
}

// assign records which key a tenant has. The watch of a key without tenants ends.
func (o *OwnKeys) assign(tenant uuid.UUID, uri string) *ownKey {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.tenants[tenant]
	if old != nil && old.uri == uri {
		return old
	}
	if old != nil {
		delete(o.tenants, tenant)
		delete(old.tenants, tenant)
		old.forget(tenant)
		if len(old.tenants) == 0 {
			delete(o.keys, old.uri)
			old.stop()
		}
	}
	if uri == "" {
		return nil
	}
	k := o.keys[uri]
	if k == nil {
		k = &ownKey{all: o, uri: uri, ready: make(chan struct{}), calls: make(chan struct{}, callsAtOnce), tenants: map[uuid.UUID]bool{}, roots: map[uuid.UUID]knownOwnRoot{}}
		k.ctx, k.stop = context.WithCancel(o.ctx)
		o.keys[uri] = k
	}
	k.tenants[tenant] = true
	o.tenants[tenant] = k
	return k
}

// forget drops the root of a tenant.
func (k *ownKey) forget(tenant uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.roots, tenant)
}

// open implements [seal.OpenOwn].
func (o *OwnKeys) open(ctx context.Context, tenant [16]byte, own *seal.OwnKey) (seal.AEAD, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := o.assign(tenant, own.URI)
	blob := ownRoot{tenant: tenant, wrapped: own.Wrapped, fingerprint: own.Fingerprint}
	k.begin(blob)
	select {
	case <-k.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := k.usable(); err != nil {
		return nil, err
	}
	root, err := k.unwrap(ctx, blob)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unavailable(err)
	}
	return root, nil
}

// Make lets the key of a URI wrap a new root for a tenant.
func (o *OwnKeys) Make(ctx context.Context, tenant uuid.UUID, uri string) (*seal.OwnKey, error) {
	if o.Open == nil {
		return nil, errNoOpener
	}
	key, err := o.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	defer closeKey(key)
	if p, ok := key.(Pinned); ok && p.Root() != "" {
		return nil, errOwnPin
	}
	root, wrapped, err := seal.MakeRoot(seal.Fresh(ctx), key, tenant)
	if err != nil {
		return nil, err
	}
	return &seal.OwnKey{URI: uri, Wrapped: wrapped, Fingerprint: root.Fingerprint, Root: root}, nil
}

var errOwnPin = errors.New("vault: the URI of a tenant's key takes no root=: the vault makes the root of the tenant, and keeps its fingerprint under its own root")

// closeKey ends what an opened key uses.
func closeKey(key seal.AEAD) {
	if closer, ok := key.(io.Closer); ok {
		_ = closer.Close() // no caller could handle the error
	}
}

// ownRoot is a root that a tenant's own key has wrapped. The vault's root has
// authenticated it.
type ownRoot struct {
	tenant      uuid.UUID
	wrapped     []byte
	fingerprint string
}

// ownKey is the key of a URI, with a limit of calls.
type ownKey struct {
	all     *OwnKeys
	uri     string
	ctx     context.Context // of its watch
	stop    context.CancelFunc
	calls   chan struct{}
	ready   chan struct{}      // closed after the first check
	tenants map[uuid.UUID]bool // under OwnKeys.mu
	first   sync.Once

	mu      sync.Mutex
	watch   *Watch // nil before the first check, and if keys are not watched
	key     seal.AEAD
	ended   bool // no more keys are opened
	checked time.Time
	blob    ownRoot                    // the last root that was read, which checks unwrap
	roots   map[uuid.UUID]knownOwnRoot // of its tenants; empty while the key is denied
}

// knownOwnRoot is a root that the key has unwrapped.
type knownOwnRoot struct {
	fingerprint string
	root        seal.AEAD
}

// begin sets what checks decrypt, and makes the first check in the background.
func (k *ownKey) begin(blob ownRoot) {
	k.mu.Lock()
	k.blob = blob
	k.mu.Unlock()
	k.first.Do(func() {
		k.all.done.Go(func() {
			defer k.end()
			watch := k.newWatch()
			close(k.ready)
			if watch != nil {
				watch.Run(k.ctx)
			}
			<-k.ctx.Done()
		})
	})
}

// end closes the key.
func (k *ownKey) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	if k.key != nil {
		closeKey(k.key)
	}
}

// newWatch makes the first check, and returns a watch in the state that it found.
func (k *ownKey) newWatch() *Watch {
	if k.all.Age <= 0 {
		return nil
	}
	cfg := WatchConfig{
		Age: k.all.Age, Grace: k.all.Grace, Check: k.check, Now: k.all.Now, Logger: k.all.Logger.With("key", ShownURI(k.uri)),
		Drop:    k.drop,
		Changed: func(ctx context.Context, c KeyChange) error { return k.all.Changed(ctx, k.users(), c) },
	}
	err := (&Watch{WatchConfig: cfg}).check(k.ctx)
	switch {
	case err == nil:
		cfg.First = KeyOK
	case errors.Is(err, fault.ErrKeyDenied):
		cfg.First = KeyDenied
	default:
		cfg.First = KeyUnreachable
	}
	if err != nil {
		cfg.Logger.ErrorContext(k.ctx, "the key cannot be used; calls fail until it is available", "state", cfg.First, "error", err)
	}
	watch := NewWatch(cfg)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watch = watch
	return watch
}

// drop forgets what the key has unwrapped.
func (k *ownKey) drop() {
	k.mu.Lock()
	clear(k.roots)
	k.mu.Unlock()
	k.all.Drop(k.users())
}

func (k *ownKey) users() (tenants []uuid.UUID) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	for tenant := range k.tenants {
		tenants = append(tenants, tenant)
	}
	slices.SortFunc(tenants, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return tenants
}

func (k *ownKey) state() KeyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watch == nil {
		return KeyOK
	}
	return k.watch.State()
}

// usable returns an error if the key must not be used. It may be nil.
func (k *ownKey) usable() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watch.Usable()
}

// check asks the holder of the key.
func (k *ownKey) check(ctx context.Context) error {
	k.mu.Lock()
	blob := k.blob
	k.mu.Unlock()
	key, err := k.opened(ctx)
	if err == nil {
		_, err = seal.UnwrapRoot(seal.Fresh(ctx), key, blob.tenant, blob.wrapped, blob.fingerprint)
	}
	if err == nil || errors.Is(err, fault.ErrKeyDenied) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.checked = k.all.Now()
	}
	return err
}

var errNoOpener = errors.New("the tenant has its own key, but Config.OpenKey is not set")

// opened returns the key, which it opens if necessary.
func (k *ownKey) opened(ctx context.Context) (seal.AEAD, error) {
	k.mu.Lock()
	key, ended := k.key, k.ended
	k.mu.Unlock()
	switch {
	case ended:
		return nil, context.Canceled
	case key != nil:
		return key, nil
	}
	if k.all.Open == nil {
		return nil, errNoOpener
	}
	key, err := k.all.Open(ctx, k.uri)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.key != nil { // another call was faster
		closeKey(key)
		key = k.key
	}
	if k.ended {
		return nil, context.Canceled
	}
	k.key = key
	return key, nil
}

// unwrap returns a root. It calls the key for a root that it does not know, when one of
// the key's places is free.
func (k *ownKey) unwrap(ctx context.Context, blob ownRoot) (seal.AEAD, error) {
	k.mu.Lock()
	known := k.roots[blob.tenant]
	k.mu.Unlock()
	if known.root != nil && known.fingerprint == blob.fingerprint {
		return known.root, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case k.calls <- struct{}{}:
		defer func() { <-k.calls }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	key, err := k.opened(ctx)
	if err != nil {
		return nil, err
	}
	root, err := seal.UnwrapRoot(ctx, key, blob.tenant, blob.wrapped, blob.fingerprint)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.watch.Usable(); err != nil {
		return nil, err
	}
	k.roots[blob.tenant] = knownOwnRoot{blob.fingerprint, root}
	return root, nil
}

// Front returns what opens of a tenant whose own key is denied: the front of its ring.
// The document is what Config.Sealed makes of the tenant's record. Nothing of it is
// cached.
func (c *Cache[D]) Front(ctx context.Context, tenant uuid.UUID) (*State[D], error) {
	began := time.Now()
	recs, err := c.records(ctx, c.cfg.Store, tenant)
	if err != nil {
		return nil, err
	}
	ring, err := seal.Unwrap(c.cfg.Root, tenant, recs[1].Body)
	if err != nil && !errors.Is(err, seal.ErrOwnKey) {
		return nil, unavailable(err)
	}
	c.mu.Lock()
	older := ring.Revision() < c.newest[tenant]
	c.mu.Unlock()
	if older {
		return nil, c.cfg.Bad(ctx, tenant, KindRing, true, errOlder)
	}
	s := newState[D](ring, &recs[1])
	s.Doc, s.ReadAt = c.cfg.Sealed(&recs[0]), began
	return s, nil
}

// Document is a document of the vault itself, such as a signing key. It is a record
// that the vault's own keys seal.
type Document struct {
	Kind, Field string
	Store       storage.Storage
	Ring        *seal.Ring // as Own returns it
}

// Read returns the document with its revision. Both are nil if none is stored. The
// revision is there even if the document does not open.
func (d *Document) Read(ctx context.Context) (plain []byte, rev *int64, err error) {
	recs, err := d.Store.Records(ctx, storage.ID{}, d.Kind, []storage.ID{{}})
	if err != nil || len(recs) == 0 {
		return nil, nil, err
	}
	plain, err = d.Ring.Open(d.location(), recs[0].KeyVersion, recs[0].Body)
	return plain, &recs[0].Rev, err
}

// Write stores the document in place of a revision. It fails with storage.ErrExists
// or storage.ErrStale if another node was faster.
func (d *Document) Write(ctx context.Context, plain []byte, rev *int64, now time.Time) error {
	body, err := d.Ring.Seal(d.location(), plain)
	if err != nil {
		return err
	}
	rec := storage.Record{Kind: d.Kind, KeyVersion: d.Ring.Version(), Body: body, CreatedAt: now}
	ch := &storage.Change{Now: now, InsertRecords: []storage.Record{rec}}
	if rev != nil {
		ch = &storage.Change{Now: now, UpdateRecords: []storage.RecordUpdate{{Rev: *rev, Record: rec}}}
	}
	return d.Store.Write(ctx, ch)
}

func (d *Document) location() *seal.Location { return &seal.Location{Entity: d.Kind, Field: d.Field} }
