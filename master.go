package vault

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Keys returns a master key that wraps with the first of several and opens what
// any of them has wrapped. It is for going over from one master key to another:
// see [Vault.RewrapKeys]. A Tink keyset of several keys is the same.
func Keys(primary AEAD, others ...AEAD) AEAD {
	return &keys{primary, append([]AEAD{primary}, others...)}
}

type keys struct {
	primary AEAD
	all     []AEAD
}

// Encrypt implements AEAD.
func (k *keys) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.primary.Encrypt(plaintext, associatedData)
}

// Decrypt implements AEAD.
func (k *keys) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	var failed []error
	for _, key := range k.all {
		plaintext, err := key.Decrypt(ciphertext, associatedData)
		if err == nil {
			return plaintext, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// RewrapKeys wraps the keys of every tenant anew under the primary master key,
// while all nodes serve, and last the record by which [Open] recognizes the
// right master key. So when it has returned nil, the vault opens with the new
// key alone, and nothing in it is wrapped under another. One that was cut off
// is finished by calling it again.
//
// It is the third step of a change of the master key. Before it, every node has
// to know the new key, and then to wrap with it, or it would wrap new tenants
// under the old one or not be able to open them:
//
//	vault.Keys(old, next) // on every node, one after the other
//	vault.Keys(next, old) // when the last has the first
//	v.RewrapKeys(ctx)     // when the last has the second
//	next                  // after that, on every node
//
// The data keys stay as they are. If the old master key may be known to
// somebody, let [Vault.RotateKeys] replace them after the second step.
func (v *Vault) RewrapKeys(ctx context.Context) error {
	filter := storage.RecordFilter{Kind: kindTenant, Limit: rotateChunk}
	for {
		tenants, _, err := v.store.ListRecords(ctx, filter)
		if err != nil {
			return fmt.Errorf("vault: rewrap keys: %w", err)
		}
		if len(tenants) == 0 {
			break
		}
		for i := range tenants {
			if err := v.rewrapTenant(ctx, uuid.UUID(tenants[i].Tenant)); err != nil {
				return fmt.Errorf("vault: rewrap keys of tenant %s: %w", uuid.UUID(tenants[i].Tenant), err)
			}
		}
		filter.Before = tenants[len(tenants)-1].ID
	}
	_, err := retryStale(func() (struct{}, error) { return struct{}{}, v.rewrapCheck(ctx) })
	return err
}

func (v *Vault) rewrapTenant(ctx context.Context, tenant uuid.UUID) error {
	r := &rotation{v: v, tenant: tenant}
	err := r.step(ctx, "Data keys up to %d wrapped anew", func(ring *seal.Ring) (*seal.Ring, error) { return ring, nil })
	if errors.Is(err, ErrNotFound) {
		return nil // deleted since the list was read
	}
	return err
}

// checkMaster proves that the master key is the one that the database was set
// up with, by a ring that holds no tenant's data. A new database gets one.
func (v *Vault) checkMaster(ctx context.Context) error {
	check, _, err := v.readCheck(ctx)
	if err != nil || check != nil {
		return err
	}
	err = v.storeCheck(ctx)
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	// Another node set the database up meanwhile: its key must be ours.
	return v.checkMaster(ctx)
}

// readCheck returns the ring of checkMaster, if there is one, and its record.
func (v *Vault) readCheck(ctx context.Context) (*seal.Ring, *storage.Record, error) {
	var none storage.ID
	recs, err := v.store.Records(ctx, none, kindRing, []storage.ID{none})
	if err != nil {
		return nil, nil, fmt.Errorf("vault: read the record of the master key: %w", err)
	}
	if len(recs) == 0 {
		return nil, nil, nil
	}
	ring, err := v.unwrapCheck(recs[0].Body)
	return ring, &recs[0], err
}

// unwrapCheck opens the ring of checkMaster. A key in a KMS refuses what another
// key sealed, and whatever it is given while the service is down, and the errors
// of one service are not those of the next. So a key that refuses has to show
// that it works at all, before it is called the wrong one.
func (v *Vault) unwrapCheck(wrapped []byte) (*seal.Ring, error) {
	var none storage.ID
	ring, err := seal.Unwrap(v.master, none, wrapped)
	if !errors.Is(err, seal.ErrUnwrap) {
		return ring, err
	}
	if broken := tryKey(v.master); broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyUnavailable, broken)
	}
	// It may have come back just now.
	ring, err = seal.Unwrap(v.master, none, wrapped)
	if errors.Is(err, seal.ErrUnwrap) {
		return nil, fmt.Errorf("%w: %w", ErrWrongKey, err)
	}
	return ring, err
}

// tryKey returns why a master key cannot seal a ring and open it again. Of
// several keys each is tried: the one that does not work may be the one that is
// needed.
func tryKey(key AEAD) error {
	if several, ok := key.(*keys); ok {
		for _, k := range several.all {
			if err := tryKey(k); err != nil {
				return err
			}
		}
		return nil
	}
	ring, err := seal.NewRing()
	if err != nil {
		return err
	}
	wrapped, err := ring.Wrap(key, storage.ID{})
	if err != nil {
		return err
	}
	_, err = seal.Unwrap(key, storage.ID{}, wrapped)
	return err
}

// wrap seals a ring under the master key.
func (v *Vault) wrap(ring *seal.Ring, tenant storage.ID) ([]byte, error) {
	wrapped, err := ring.Wrap(v.master, tenant)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyUnavailable, err)
	}
	return wrapped, nil
}

// storeCheck sets a database up, under a master key that can also open what it
// seals.
func (v *Vault) storeCheck(ctx context.Context) error {
	ring, err := seal.NewRing()
	if err != nil {
		return err
	}
	wrapped, err := v.wrap(ring, storage.ID{})
	if err != nil {
		return err
	}
	if _, err := seal.Unwrap(v.master, storage.ID{}, wrapped); err != nil {
		return fmt.Errorf("%w: %w", ErrKeyUnavailable, err)
	}
	now := v.now()
	return v.store.Write(ctx, &storage.Change{
		Now:           now,
		InsertRecords: []storage.Record{{Kind: kindRing, Body: wrapped, CreatedAt: now}},
	})
}

// rewrapCheck wraps the ring of checkMaster under the primary master key.
func (v *Vault) rewrapCheck(ctx context.Context) error {
	ring, rec, err := v.readCheck(ctx)
	if err != nil {
		return err
	}
	if ring == nil {
		return v.storeCheck(ctx)
	}
	if rec.Body, err = v.wrap(ring, storage.ID{}); err != nil {
		return err
	}
	return v.store.Write(ctx, &storage.Change{
		Now:           v.now(),
		UpdateRecords: []storage.RecordUpdate{{Rev: rec.Rev, Record: *rec}},
	})
}
