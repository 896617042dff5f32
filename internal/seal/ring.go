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
	own   *OwnKey  // nil if the vault's root alone wraps the ring
	front *Ring    // nil if the tenant never had its own key

	revision int64 // number of changes of the ring
}

// OwnKey is a tenant's own key, around the ring and inside the vault's root. The key
// wraps a separate root, which seals the ring. The vault's root seals the URI, the
// wrapped root and its fingerprint, so only the vault chooses what the key unwraps.
type OwnKey struct {
	URI         string `json:"uri"`
	Wrapped     []byte `json:"wrapped"`
	Fingerprint string `json:"fingerprint"`

	Root AEAD `json:"-"`
}

type dataKey struct {
	Version int       `json:"version"`
	State   State     `json:"state"`
	Key     []byte    `json:"key,omitempty"`
	Created time.Time `json:"created"`

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
	Keys     []dataKey `json:"keys"`
	Index    []byte    `json:"index"`
	Front    *stored   `json:"front,omitempty"`
	Revision int64     `json:"revision"`
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

// outer is what the vault's root encrypts: a stored ring, or the front of a ring that
// the root of a tenant's own key has encrypted as Inner.
type outer struct {
	stored
	Own   *OwnKey `json:"own,omitempty"`
	Inner []byte  `json:"inner,omitempty"`
}

const (
	ringLabel  = "vault ring v1"
	innerLabel = "vault inner ring v1"
)

// Wrap returns the ring, encrypted with the root of the tenant's own key if it has one,
// and then with the vault's root. It calls no service.
func (r *Ring) Wrap(root AEAD, tenant [16]byte) ([]byte, error) {
	out := outer{stored: r.stored()}
	if r.own != nil {
		out.Front = nil
		inner, err := encode(r.own.Root, out.stored, ringLocation(tenant, innerLabel))
		if err != nil {
			return nil, err
		}
		out = outer{stored: r.front.stored(), Own: r.own, Inner: inner}
	}
	return encode(root, out, ringLocation(tenant, ringLabel))
}

// encode encrypts a document.
func encode(key AEAD, doc any, associatedData []byte) ([]byte, error) {
	plain, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("seal: encode ring: %w", err)
	}
	defer clear(plain)
	sealed, err := key.Encrypt(plain, associatedData)
	if err != nil {
		return nil, fmt.Errorf("seal: encrypt the ring: %w", err)
	}
	return sealed, nil
}

func ringLocation(tenant [16]byte, label string) []byte {
	return (&Location{Tenant: tenant, Entity: label}).appendTo(nil, 0)
}

// ErrUnwrap means that a key could not decrypt a root or a ring: it is another key, the
// bytes were altered or moved, or the service that keeps the key failed. A master key
// does not report which.
var ErrUnwrap = errors.New("seal: the key could not decrypt the keys")

// Unwrap decrypts a ring that Wrap returned. If the root fails, the error matches
// ErrUnwrap and the root's own error. Of a ring that needs the tenant's own key it
// returns the front, with ErrOwnKey.
func Unwrap(root AEAD, tenant [16]byte, wrapped []byte) (*Ring, error) {
	ring, _, _, err := unwrap(root, tenant, wrapped)
	return ring, err
}

// OpenOwn returns the root that a tenant's own key wraps.
type OpenOwn func(ctx context.Context, tenant [16]byte, own *OwnKey) (AEAD, error)

// UnwrapOwn is Unwrap for rings that may have a tenant's own key. The error of open
// is returned as it is.
func UnwrapOwn(ctx context.Context, root AEAD, open OpenOwn, tenant [16]byte, wrapped []byte) (*Ring, error) {
	front, own, sealed, err := unwrap(root, tenant, wrapped)
	if !errors.Is(err, ErrOwnKey) {
		return front, err
	}
	if own.Root, err = open(ctx, tenant, own); err != nil {
		return nil, err
	}
	inner, err := own.Root.Decrypt(sealed, ringLocation(tenant, innerLabel))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnwrap, err)
	}
	defer clear(inner)
	var s stored
	if json.Unmarshal(inner, &s) != nil {
		return nil, fmt.Errorf("%w: what it decrypted is not a ring", ErrUnwrap)
	}
	ring, err := s.ring()
	if err == nil {
		ring.own, ring.front = own, front
	}
	return ring, err
}

// unwrap decrypts the outer part of a ring. If there is an inner part, the error is
// ErrOwnKey.
func unwrap(root AEAD, tenant [16]byte, wrapped []byte) (ring *Ring, own *OwnKey, inner []byte, err error) {
	plain, err := root.Decrypt(wrapped, ringLocation(tenant, ringLabel))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrUnwrap, err)
	}
	defer clear(plain)
	var out outer
	if json.Unmarshal(plain, &out) != nil {
		return nil, nil, nil, fmt.Errorf("%w: what it decrypted is not a ring", ErrUnwrap)
	}
	if ring, err = out.ring(); err == nil && out.Own != nil {
		err = ErrOwnKey
	}
	return ring, out.Own, out.Inner, err
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
var frontEntities = map[string]bool{"application": true, "application_key": true, "session": true, "erasure": true}

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

// WithOwn returns a ring that a tenant's own key wraps inside the vault's root. Nil
// means the vault's root alone. The front begins with the keys of the ring, so the data
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
