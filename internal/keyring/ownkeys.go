package keyring

import (
	"context"
	"errors"
	"log/slog"
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
		k = &ownKey{all: o, uri: uri, ready: make(chan struct{}), calls: make(chan struct{}, callsAtOnce), tenants: map[uuid.UUID]bool{}}
		k.ctx, k.stop = context.WithCancel(o.ctx)
		o.keys[uri] = k
	}
	k.tenants[tenant] = true
	o.tenants[tenant] = k
	return k
}

// open implements [seal.OpenOwn].
func (o *OwnKeys) open(ctx context.Context, tenant [16]byte, uri string, sealed, associatedData []byte) (seal.AEAD, []byte, error) {
	k := o.assign(tenant, uri)
	k.begin(sealed, associatedData)
	select {
	case <-k.ready:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if err := k.usable(); err != nil {
		return nil, nil, err
	}
	plain, err := k.DecryptWithContext(ctx, sealed, associatedData)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, unavailable(err)
	}
	return k, plain, nil
}

// ownKey is the key of a URI. It implements [seal.AEAD] with a limit of calls.
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
	checked time.Time
	// A check decrypts the newest ring that was read.
	sealed, associatedData []byte
}

// begin sets what checks decrypt, and makes the first check in the background.
func (k *ownKey) begin(sealed, associatedData []byte) {
	k.mu.Lock()
	k.sealed, k.associatedData = sealed, associatedData
	k.mu.Unlock()
	k.first.Do(func() {
		k.all.done.Go(func() {
			watch := k.newWatch()
			close(k.ready)
			if watch != nil {
				watch.Run(k.ctx)
			}
		})
	})
}

// newWatch makes the first check, and returns a watch in the state that it found.
func (k *ownKey) newWatch() *Watch {
	if k.all.Age <= 0 {
		return nil
	}
	cfg := WatchConfig{
		Age: k.all.Age, Grace: k.all.Grace, Check: k.check, Now: k.all.Now, Logger: k.all.Logger.With("key", ShownURI(k.uri)),
		Drop:    func() { k.all.Drop(k.users()) },
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

func (k *ownKey) users() (tenants []uuid.UUID) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	for tenant := range k.tenants {
		tenants = append(tenants, tenant)
	}
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
	sealed, associatedData := k.sealed, k.associatedData
	k.mu.Unlock()
	key, err := k.opened(ctx)
	if err == nil {
		_, err = seal.Decrypt(seal.Fresh(ctx), key, sealed, associatedData)
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
	key := k.key
	k.mu.Unlock()
	if key != nil {
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
	k.key = key
	return key, nil
}

// Encrypt implements [seal.AEAD].
func (k *ownKey) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, associatedData)
}

// Decrypt implements [seal.AEAD].
func (k *ownKey) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, associatedData)
}

// EncryptWithContext is Encrypt with a context.
func (k *ownKey) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return k.call(ctx, seal.Encrypt, plaintext, associatedData)
}

// DecryptWithContext is Decrypt with a context.
func (k *ownKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	return k.call(ctx, seal.Decrypt, ciphertext, associatedData)
}

// call calls the key when one of its places is free.
func (k *ownKey) call(ctx context.Context, do func(context.Context, seal.AEAD, []byte, []byte) ([]byte, error), data, associatedData []byte) ([]byte, error) {
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
	return do(ctx, key, data, associatedData)
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
	ring, err := seal.Unwrap(ctx, c.cfg.Master, tenant, recs[1].Body)
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
