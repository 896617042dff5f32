package seal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// State is the state of a data key.
type State string

// A data key starts as pending, so that every node knows it before it is used
// to encrypt. As primary it encrypts. As retired it only decrypts. It is
// destroyed when nothing is encrypted with it any more.
const (
	Pending   State = "pending"
	Primary   State = "primary"
	Retired   State = "retired"
	Destroyed State = "destroyed"
)

// ErrNoKey means that the ring has no usable key of a version: it was
// destroyed, or the ring is older than the bytes.
var ErrNoKey = errors.New("seal: no such key version in the ring")

// Ring is the set of keys of one tenant. It is immutable: methods that change
// the state of a key return a new ring.
type Ring struct {
	keys  []dataKey // by version, ascending
	index []byte
	macs  *sync.Pool // *mac with the index key
	names *nameHashes
	seal  *dataKey // the primary key
	own   *OwnKey  // nil if the master key alone wraps the ring
	front *Ring    // nil if the tenant never had its own key
	// sealed is what the master key has decrypted, if this is only the front of a
	// ring, because the tenant's own key was not used.
	sealed *outer

	revision int64 // number of changes of the ring
}

// OwnKey is a tenant's own key, around the ring and inside the master key.
type OwnKey struct {
	URI string
	AEAD
}

type dataKey struct {
	Version int    `json:"version"`
	State   State  `json:"state"`
	Key     []byte `json:"key,omitempty"`
	// Created is zero for a key of an earlier version of this package.
	Created time.Time `json:"created,omitzero"`

	aead AEAD
}

// NewRing returns a ring with one primary key, version 1, created now.
func NewRing(now time.Time) (*Ring, error) {
	return newRing([]dataKey{{Version: 1, State: Primary, Key: RandomKey(), Created: now}}, RandomKey(), 1)
}

func newRing(keys []dataKey, index []byte, revision int64) (*Ring, error) {
	r := &Ring{keys: keys, index: index, names: &nameHashes{}, revision: revision}
	for i := range r.keys {
		k := &r.keys[i]
		if k.State == Destroyed {
			continue
		}
		var err error
		if k.aead, err = NewAEAD(k.Key); err != nil {
			return nil, err
		}
		if k.State == Primary {
			r.seal = k
		}
	}
	if r.seal == nil || len(index) != KeySize {
		return nil, errors.New("seal: a ring needs a primary key and an index key")
	}
	r.macs = &sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, index), buf: make([]byte, 0, 512)} }}
	return r, nil
}

// stored is the wrapped form of a ring.
type stored struct {
	Keys  []dataKey `json:"keys"`
	Index []byte    `json:"index"`
	Front *stored   `json:"front,omitempty"`
	// Revision is zero for a ring of an earlier version of this package.
	Revision int64 `json:"revision,omitempty"`
}

// ring returns the ring in its usable form.
func (s *stored) ring() (*Ring, error) {
	r, err := newRing(s.Keys, s.Index, s.Revision)
	if err == nil && s.Front != nil {
		r.front, err = s.Front.ring()
	}
	return r, err
}

func (r *Ring) stored() stored {
	s := stored{Keys: r.keys, Index: r.index, Revision: r.revision}
	if r.front != nil {
		front := r.front.stored()
		s.Front = &front
	}
	return s
}

// outer is what the master key encrypts: a stored ring, or the front of a ring that a
// tenant's own key has encrypted as Inner.
type outer struct {
	stored
	URI   string `json:"uri,omitempty"`
	Inner []byte `json:"inner,omitempty"`
}

const (
	ringLabel  = "vault ring v1"
	innerLabel = "vault inner ring v1"
)

// Wrap returns the ring, encrypted with the tenant's own key if it has one, and
// then with the master key.
func (r *Ring) Wrap(ctx context.Context, master AEAD, tenant [16]byte) ([]byte, error) {
	out := outer{stored: r.stored()}
	if r.sealed != nil {
		out = *r.sealed
	} else if r.own != nil {
		out.Front = nil
		plain, err := json.Marshal(out.stored)
		if err != nil {
			return nil, fmt.Errorf("seal: encode ring: %w", err)
		}
		defer clear(plain)
		inner, err := Encrypt(ctx, r.own.AEAD, plain, ringLocation(tenant, innerLabel))
		if err != nil {
			return nil, fmt.Errorf("seal: the tenant's key could not encrypt the ring: %w", err)
		}
		out = outer{stored: r.front.stored(), URI: r.own.URI, Inner: inner}
	}
	plain, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("seal: encode ring: %w", err)
	}
	defer clear(plain)
	wrapped, err := Encrypt(ctx, master, plain, ringLocation(tenant, ringLabel))
	if err != nil {
		return nil, fmt.Errorf("seal: the master key could not encrypt the ring: %w", err)
	}
	return wrapped, nil
}

func ringLocation(tenant [16]byte, label string) []byte {
	return (&Location{Tenant: tenant, Entity: label}).appendTo(nil, 0)
}

// ErrUnwrap means that the master key could not decrypt a ring: it is another
// key, the ring was altered or moved, or the service that keeps the key
// failed. A master key does not report which.
var ErrUnwrap = errors.New("seal: the master key could not decrypt the ring")

// Unwrap decrypts a ring that Wrap returned. If the master key fails, the error
// matches ErrUnwrap and the key's own error. Of a ring that needs the tenant's own
// key it returns the front, with ErrOwnKey.
func Unwrap(ctx context.Context, master AEAD, tenant [16]byte, wrapped []byte) (*Ring, error) {
	return UnwrapOwn(ctx, master, nil, tenant, wrapped)
}

// OpenOwn decrypts with the tenant's own key that a URI names, and returns the key.
type OpenOwn func(ctx context.Context, tenant [16]byte, uri string, sealed, associatedData []byte) (key AEAD, plain []byte, err error)

// UnwrapOwn is Unwrap for rings that may have a tenant's own key. The error of open
// is returned as it is.
func UnwrapOwn(ctx context.Context, master AEAD, open OpenOwn, tenant [16]byte, wrapped []byte) (*Ring, error) {
	plain, err := Decrypt(ctx, master, wrapped, ringLocation(tenant, ringLabel))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnwrap, err)
	}
	defer clear(plain)
	var out outer
	if json.Unmarshal(plain, &out) != nil {
		return nil, fmt.Errorf("%w: what it decrypted is not a ring", ErrUnwrap)
	}
	front, err := out.ring()
	if err != nil || out.URI == "" {
		return front, err
	}
	if open == nil {
		front.sealed = &out
		return front, ErrOwnKey
	}
	key, inner, err := open(ctx, tenant, out.URI, out.Inner, ringLocation(tenant, innerLabel))
	if err != nil {
		return nil, err
	}
	defer clear(inner)
	var s stored
	if json.Unmarshal(inner, &s) != nil {
		return nil, errors.New("seal: what the tenant's key decrypted is not a ring")
	}
	ring, err := s.ring()
	if err == nil {
		ring.own, ring.front = &OwnKey{out.URI, key}, front
	}
	return ring, err
}

// ErrOwnKey means that a ring needs a tenant's own key.
var ErrOwnKey = errors.New("seal: the ring needs the tenant's own key")

// Front returns the part of the ring that does not need the tenant's own key. It
// seals identities and the reminders of erasures, and authenticates the log, so that they
// work while the key is denied. Without such a part it returns the ring itself.
func (r *Ring) Front() *Ring {
	if r.front == nil {
		return r
	}
	return r.front
}

// frontEntities are the entities that the front of a ring seals.
var frontEntities = map[string]bool{"application": true, "session": true, "erasure": true}

// of returns the ring that seals an entity.
func (r *Ring) of(entity string) *Ring {
	if r.front != nil && frontEntities[entity] {
		return r.front
	}
	return r
}

// URI returns the URI of the tenant's own key, or "".
func (r *Ring) URI() string {
	if r.own == nil {
		return ""
	}
	return r.own.URI
}

// WithOwn returns a ring that a tenant's own key wraps inside the master key. Nil
// means the master key alone. The front begins with the keys of the ring, so the data
// key must be rotated.
func (r *Ring) WithOwn(own *OwnKey) (*Ring, error) {
	next, err := r.change(func(r *Ring) []dataKey { return slices.Clone(r.keys) })
	if err == nil && next.front == nil {
		next.front, err = newRing(slices.Clone(r.keys), RandomKey(), next.revision)
	}
	if err == nil {
		next.own = own
	}
	return next, err
}

// change returns the next revision of the ring and its front, with other keys.
func (r *Ring) change(keys func(*Ring) []dataKey) (*Ring, error) {
	next, err := newRing(keys(r), r.index, r.revision+1)
	if err == nil && r.front != nil {
		next.front, err = r.front.change(keys)
	}
	if err == nil {
		next.own = r.own
	}
	return next, err
}

// Version returns the version of the primary key.
func (r *Ring) Version() int { return r.seal.Version }

// Revision returns the number of changes of the ring. A lower revision is an
// older state of the ring.
func (r *Ring) Revision() int64 { return r.revision }

// KeyInfo is the public part of a key.
type KeyInfo struct {
	Version int
	State   State
	Created time.Time // zero if unknown
}

// Keys returns the public parts of the keys, oldest first.
func (r *Ring) Keys() []KeyInfo {
	infos := make([]KeyInfo, len(r.keys))
	for i, k := range r.keys {
		infos[i] = KeyInfo{k.Version, k.State, k.Created}
	}
	return infos
}

// Newest returns the highest version in the ring and its state.
func (r *Ring) Newest() (int, State) {
	k := r.keys[len(r.keys)-1]
	return k.Version, k.State
}

// Retired reports whether the ring has a key that only decrypts.
func (r *Ring) Retired() bool {
	return slices.ContainsFunc(r.keys, func(k dataKey) bool { return k.State == Retired })
}

// Add returns a ring with a new pending key, created now.
func (r *Ring) Add(now time.Time) (*Ring, error) {
	return r.change(func(r *Ring) []dataKey {
		v, _ := r.Newest()
		return append(slices.Clone(r.keys), dataKey{Version: v + 1, State: Pending, Key: RandomKey(), Created: now})
	})
}

// Promote returns a ring in which the pending key is primary and the previous
// primary key is retired.
func (r *Ring) Promote() (*Ring, error) {
	return r.change(func(r *Ring) []dataKey {
		keys := slices.Clone(r.keys)
		for i := range keys {
			switch keys[i].State {
			case Primary:
				keys[i].State = Retired
			case Pending:
				keys[i].State = Primary
			case Retired, Destroyed: // unchanged
			}
		}
		return keys
	})
}

// Destroy returns a ring without the retired keys. Their versions stay
// listed, so that no number is used twice.
func (r *Ring) Destroy() (*Ring, error) {
	return r.change(func(r *Ring) []dataKey {
		keys := slices.Clone(r.keys)
		for i := range keys {
			if keys[i].State == Retired {
				keys[i] = dataKey{Version: keys[i].Version, State: Destroyed, Created: keys[i].Created}
			}
		}
		return keys
	})
}

// Seal encrypts plain for a location with the primary key. The caller must store
// the key's version with the result.
func (r *Ring) Seal(p *Location, plain []byte) ([]byte, error) {
	r = r.of(p.Entity)
	ad := p.associatedData(r.seal.Version)
	defer ad.release()
	sealed, err := r.seal.aead.Encrypt(plain, ad.bytes)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open decrypts the result of Seal for the same location.
func (r *Ring) Open(p *Location, version int, sealed []byte) ([]byte, error) {
	r = r.of(p.Entity)
	i, ok := slices.BinarySearchFunc(r.keys, version, func(k dataKey, v int) int { return k.Version - v })
	if !ok || r.keys[i].aead == nil {
		return nil, ErrNoKey
	}
	ad := p.associatedData(version)
	defer ad.release()
	plain, err := r.keys[i].aead.Decrypt(sealed, ad.bytes)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}
