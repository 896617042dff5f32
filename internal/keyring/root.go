package keyring

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// RootConfig configures a Root. Pin, Altered and Usable may be empty.
type RootConfig struct {
	Store interface {
		Records
		Write(ctx context.Context, c *storage.Change) error
		ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error)
	}
	// Master is the key that wraps the root. Nobody else calls it.
	Master seal.AEAD
	// Pin is the fingerprint of the root that the program expects.
	Pin string
	Now func() time.Time
	// Altered is called when a check finds a record that is not the vault's own.
	Altered func(ctx context.Context, err error)
	// Usable returns why the master key may not be used at the moment, or nil. It is set
	// before the root is shared.
	Usable func() error
}

// Root is the root of a vault. The master key wraps the root and nothing else; the
// root wraps the rings of all tenants and of the vault itself. So the holder of the
// master key gets one blob at the start, and the same blob in each check. Nothing that
// the holder unwraps later changes which key seals.
//
// Root implements [seal.AEAD] for rings. It fails while the master key may not be used,
// and while the root is dropped.
type Root struct {
	RootConfig
	made        bool
	fingerprint string
	auth        [32]byte // authenticates records of the root, and opens nothing

	mu      sync.Mutex
	record  rootRecord // whose blob this node has unwrapped
	current *seal.Root // nil while it is dropped
}

// rootRecord is the body of the record of the vault's own ring: the root as the master
// key has wrapped it, and the ring as the root has wrapped it. The MAC, under a key of
// the root, covers both. Revision counts how often the root was wrapped.
type rootRecord struct {
	Revision int64  `json:"revision"`
	Wrapped  []byte `json:"wrapped"`
	Ring     []byte `json:"ring"`
	MAC      []byte `json:"mac"`
}

func (r *rootRecord) mac(auth [32]byte) []byte {
	return seal.Authenticate(auth, binary.BigEndian.AppendUint64(nil, uint64(r.Revision)), r.Wrapped, r.Ring)
}

func (r *rootRecord) genuine(auth [32]byte) bool { return hmac.Equal(r.MAC, r.mac(auth)) }

// Pinned is a key that reports whether anybody can wrap for it, and names the root
// that it must unwrap.
type Pinned interface {
	// Public reports whether knowing a public key is enough to make a ciphertext.
	Public(ciphertext []byte) bool
	// Root returns the fingerprint of the root that the key must unwrap, or "".
	Root() string
}

// ErrUnpinned means that the master key authenticates nothing, and that no
// fingerprint identifies the vault's root.
var ErrUnpinned = errors.New("vault: anybody who knows the public key of this master key can wrap a root for it, " +
	"so the fingerprint of the root must be given: --root, root= in the URI, or Config.Root. It was printed when the vault was made")

var (
	errPins       = errors.New("vault: the fingerprints of the root in the configuration differ")
	errNewRoot    = errors.New("vault: the fingerprint of a root is given, but the database has no root: it is another database, or its record is gone")
	errRootRecord = errors.New("the record of the root was altered")
)

// OpenRoot returns the root of a database, and makes one for a new database. It fails with
// [fault.ErrWrongKey] if the master key does not belong to the database, and with
// [fault.ErrKeyUnavailable] if it does not work.
func OpenRoot(ctx context.Context, cfg RootConfig) (*Root, error) {
	r := &Root{RootConfig: cfg}
	if err := r.collectPins(); err != nil {
		return nil, err
	}
	for range openAttempts {
		rec, _, err := r.read(ctx)
		if errors.Is(err, ErrNoRing) {
			if err = r.create(ctx); errors.Is(err, storage.ErrExists) {
				continue // another node was faster
			}
			return r, err
		}
		if err != nil {
			return nil, err
		}
		return r, r.open(ctx, rec)
	}
	return nil, fault.ErrFaster // or the database drops what is written
}

// openAttempts limits how often OpenRoot tries to store a new root.
const openAttempts = 10

// Fingerprint returns the fingerprint of the root, and whether OpenRoot has made the root.
func (r *Root) Fingerprint() (fingerprint string, made bool) { return r.fingerprint, r.made }

// Public reports whether anybody can wrap a root for the master key, so that a
// fingerprint is needed. A key that does not say so is recognized by the length of a
// blob.
func (r *Root) Public() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return public(r.Master, r.record.Wrapped)
}

func public(key seal.AEAD, wrapped []byte) bool {
	return slices.ContainsFunc(KeysOf(key), func(k seal.AEAD) bool {
		if p, ok := k.(Pinned); ok {
			return p.Public(wrapped)
		}
		return ofRSA(len(wrapped))
	})
}

// withoutZeros is how many bytes shorter than its modulus a ciphertext of RSA may be.
// Many programs decrypt it without its leading zeros, and an attacker who has the public
// key can encrypt until there are some, about 256 times for each.
const withoutZeros = 7

// ofRSA reports whether a ciphertext of RSA may have this length.
func ofRSA(length int) bool {
	return slices.ContainsFunc([]int{128, 192, 256, 384, 512, 1024, 2048}, func(modulus int) bool {
		return modulus-withoutZeros <= length && length <= modulus
	})
}

// KeysOf returns the keys that a master key consists of.
func KeysOf(key seal.AEAD) (all []seal.AEAD) {
	several, ok := key.(Several)
	if !ok {
		return []seal.AEAD{key}
	}
	for _, k := range several.Keys() {
		all = append(all, KeysOf(k)...)
	}
	return all
}

// collectPins sets Pin to the fingerprint that the program or a key gives.
func (r *Root) collectPins() error {
	pins := []string{r.Pin}
	for _, k := range KeysOf(r.Master) {
		if p, ok := k.(Pinned); ok {
			pins = append(pins, p.Root())
		}
	}
	r.Pin = ""
	for _, pin := range pins {
		pin = strings.ToLower(strings.TrimSpace(pin))
		if pin != "" && r.Pin != "" && pin != r.Pin {
			return errPins
		}
		if pin != "" {
			r.Pin = pin
		}
	}
	return nil
}

// read returns the record of the root.
func (r *Root) read(ctx context.Context) (body rootRecord, rec *storage.Record, err error) {
	return readRoot(ctx, r.Store)
}

func readRoot(ctx context.Context, store Records) (body rootRecord, rec *storage.Record, err error) {
	recs, err := store.Records(ctx, storage.ID{}, KindRing, []storage.ID{{}})
	if err != nil {
		return body, nil, fmt.Errorf("vault: read the record of the root: %w", err)
	}
	if len(recs) == 0 {
		return body, nil, ErrNoRing
	}
	if json.Unmarshal(recs[0].Body, &body) != nil {
		return body, nil, fmt.Errorf("%w: %w", fault.ErrWrongKey, errRootRecord)
	}
	return body, &recs[0], nil
}

// create makes the root of a new database.
func (r *Root) create(ctx context.Context) error {
	if r.Pin != "" {
		return errNewRoot
	}
	tenants, _, err := r.Store.ListRecords(ctx, storage.RecordFilter{Kind: KindTenant, Limit: 1})
	if err != nil {
		return err
	}
	if len(tenants) > 0 {
		return ErrNoRing
	}
	root, wrapped, err := seal.MakeRoot(seal.Fresh(ctx), r.Master, storage.ID{})
	if err != nil {
		return unavailable(err)
	}
	ring, err := seal.NewRing(r.Now())
	if err != nil {
		return err
	}
	rec := rootRecord{Revision: 1, Wrapped: wrapped}
	if rec.Ring, err = ring.Wrap(root, storage.ID{}); err != nil {
		return err
	}
	rec.MAC = rec.mac(root.Auth())
	r.begin(rec, root, true)
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	now := r.Now()
	return r.Store.Write(ctx, &storage.Change{Now: now, InsertRecords: []storage.Record{{Kind: KindRing, Body: body, CreatedAt: now}}})
}

// begin sets the root of the vault, before the root is shared.
func (r *Root) begin(rec rootRecord, root *seal.Root, made bool) {
	r.fingerprint, r.auth, r.made = root.Fingerprint, root.Auth(), made
	r.record, r.current = rec, root
}

// open lets the master key unwrap the root of a record.
func (r *Root) open(ctx context.Context, rec rootRecord) error {
	if r.Pin == "" && public(r.Master, rec.Wrapped) {
		return ErrUnpinned
	}
	root, err := r.unwrap(ctx, &rec)
	if err != nil {
		return err
	}
	r.begin(rec, root, false)
	return nil
}

// unwrap lets the master key unwrap a root. A key in a KMS fails for data of another
// key, and for any data while the service is down. The errors differ between services.
// So a failing key is called the wrong key only if it works otherwise.
func (r *Root) unwrap(ctx context.Context, rec *rootRecord) (*seal.Root, error) {
	ctx = seal.Fresh(ctx)
	root, err := r.unwrapOnce(ctx, rec, r.Pin)
	if !errors.Is(err, seal.ErrUnwrap) || errors.Is(err, fault.ErrKeyDenied) {
		return root, wrongRoot(err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // no statement about the key
	}
	if broken := try(ctx, r.Master); broken != nil {
		return nil, unavailable(broken)
	}
	// The service may have recovered.
	root, err = r.unwrapOnce(ctx, rec, r.Pin)
	switch {
	case cannotOpen(err):
		return nil, fmt.Errorf("%w: %w", fault.ErrWrongKey, err)
	case errors.Is(err, seal.ErrUnwrap):
		return nil, unavailable(err)
	}
	return root, wrongRoot(err)
}

// unwrapOnce tries one key after another, until a key unwraps the root that has
// authenticated the record. If fingerprint is not empty, the root must have it.
func (r *Root) unwrapOnce(ctx context.Context, rec *rootRecord, fingerprint string) (*seal.Root, error) {
	var failed []error
	for _, key := range KeysOf(r.Master) {
		root, err := seal.UnwrapRoot(ctx, key, storage.ID{}, rec.Wrapped, fingerprint)
		if err == nil && !rec.genuine(root.Auth()) {
			err = errRootRecord
		}
		if err == nil {
			return root, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// wrongRoot returns the error of a key that has unwrapped something else.
func wrongRoot(err error) error {
	if errors.Is(err, seal.ErrNotRoot) || errors.Is(err, errRootRecord) {
		return fmt.Errorf("%w: %w", fault.ErrWrongKey, err)
	}
	return err
}

// cannotOpen reports whether a key that works otherwise failed to unwrap. A denial or a
// timeout says nothing about what was unwrapped.
func cannotOpen(err error) bool {
	for _, other := range []error{fault.ErrKeyDenied, fault.ErrKeyUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, other) {
			return false
		}
	}
	return errors.Is(err, seal.ErrUnwrap)
}

// Several is a master key that consists of several keys.
type Several interface {
	// Keys returns the keys.
	Keys() []seal.AEAD
}

// try wraps and unwraps a root with a master key, and returns the error. Of several
// keys it tries each, because any of them may be needed.
func try(ctx context.Context, key seal.AEAD) error {
	for _, k := range KeysOf(key) {
		if _, _, err := seal.MakeRoot(ctx, k, storage.ID{}); err != nil {
			return err
		}
	}
	return nil
}

// unavailable returns the error for a master key that failed. It returns a denial
// unchanged.
func unavailable(err error) error {
	if errors.Is(err, fault.ErrKeyDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrKeyUnavailable, err)
}

// Drop forgets the root, because the master key may no longer be used. The next check
// that succeeds brings it back.
func (r *Root) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = nil
}

// Holds asks the holder of the master key whether it may be used. The holder unwraps
// the blob that this node has used before. If another node has let another key wrap the
// root, the holder unwraps that blob, which the root has authenticated. A root that was
// dropped is used again.
func (r *Root) Holds(ctx context.Context) error {
	ctx = seal.Fresh(ctx)
	r.mu.Lock()
	known := r.record
	r.mu.Unlock()
	if next, ok := r.rewrapped(ctx, known); ok {
		err := r.again(ctx, next)
		if err == nil || errors.Is(err, fault.ErrKeyDenied) {
			return err
		}
	}
	return r.again(ctx, known)
}

// rewrapped returns the stored record if it is a newer one of the same root.
func (r *Root) rewrapped(ctx context.Context, known rootRecord) (next rootRecord, ok bool) {
	next, _, err := r.read(ctx)
	switch {
	case errors.Is(err, ErrNoRing) || errors.Is(err, fault.ErrWrongKey):
	case err != nil:
		return next, false // the database says nothing
	case !next.genuine(r.auth) || next.Revision < known.Revision:
		err = errRootRecord
	}
	if err != nil && r.Altered != nil {
		r.Altered(ctx, err)
	}
	return next, err == nil && next.Revision > known.Revision
}

// again lets the master key unwrap the root again.
func (r *Root) again(ctx context.Context, rec rootRecord) error {
	root, err := r.unwrapOnce(ctx, &rec, r.fingerprint)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record, r.current = rec, root
	return nil
}

// Rewrap lets the primary key wrap the root. It is one write, so the vault opens with the
// former key or with the new one. It fails with storage.ErrStale if another node was
// faster. It reads what it wrote, because the former key may be destroyed afterwards.
func (r *Root) Rewrap(ctx context.Context) error {
	next, rec, err := r.read(ctx)
	if err != nil {
		return err
	}
	if !next.genuine(r.auth) {
		return fmt.Errorf("%w: %w", fault.ErrAltered, errRootRecord)
	}
	if next.Wrapped, err = seal.RewrapRoot(seal.Fresh(ctx), KeysOf(r.Master), storage.ID{}, next.Wrapped, r.fingerprint); err != nil {
		return unavailable(err)
	}
	if r.Pin == "" && public(r.Master, next.Wrapped) {
		return fmt.Errorf("%w; tokenvault key check shows it with the former key", ErrUnpinned)
	}
	next.Revision++
	next.MAC = next.mac(r.auth)
	if rec.Body, err = json.Marshal(next); err != nil {
		return err
	}
	if err := r.Store.Write(ctx, &storage.Change{Now: r.Now(), UpdateRecords: []storage.RecordUpdate{{Rev: rec.Rev, Record: *rec}}}); err != nil {
		return err
	}
	kept, _, err := r.read(ctx)
	if err == nil && (!kept.genuine(r.auth) || kept.Revision < next.Revision) {
		err = errNotKept
	}
	return err
}

var errNotKept = errors.New("vault: the database did not keep the root as the new key has wrapped it, so keep the former key: " +
	"look for a trigger that undoes changes, and try again")

// Encrypt implements [seal.AEAD].
func (r *Root) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	root, err := r.now()
	if err != nil {
		return nil, err
	}
	return root.Encrypt(plaintext, associatedData)
}

// Decrypt implements [seal.AEAD].
func (r *Root) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	root, err := r.now()
	if err != nil {
		return nil, err
	}
	return root.Decrypt(ciphertext, associatedData)
}

func (r *Root) now() (*seal.Root, error) {
	if r.Usable != nil {
		if err := r.Usable(); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return nil, fault.ErrKeyUnavailable
	}
	return r.current, nil
}

// Own returns the keys of the vault itself, as they are stored under its root.
func Own(ctx context.Context, store Records, root seal.AEAD) (*seal.Ring, error) {
	rec, _, err := readRoot(ctx, store)
	if err != nil {
		return nil, err
	}
	if r, ok := root.(*Root); ok && !rec.genuine(r.auth) {
		return nil, fmt.Errorf("%w: %w", fault.ErrWrongKey, errRootRecord)
	}
	ring, err := seal.Unwrap(root, storage.ID{}, rec.Ring)
	if cannotOpen(err) {
		err = fmt.Errorf("%w: %w", fault.ErrWrongKey, err)
	}
	return ring, err
}

// ErrNoRing means that the record with the root and the vault's own keys does not exist.
var ErrNoRing = errors.New("vault: the record of the root is gone: restore it from a backup")
