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
//	vault.Keys(old, new) // on every node, one after the other
//	vault.Keys(new, old) // when the last has the first
//	v.RewrapKeys(ctx)    // when the last has the second
//	new                  // after that, on every node
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
	ring, err := seal.Unwrap(v.master, none, recs[0].Body)
	if errors.Is(err, seal.ErrOpen) {
		return nil, nil, fmt.Errorf("%w: %w", ErrWrongKey, err)
	}
	return ring, &recs[0], err
}

func (v *Vault) storeCheck(ctx context.Context) error {
	ring, err := seal.NewRing()
	if err != nil {
		return err
	}
	wrapped, err := ring.Wrap(v.master, storage.ID{})
	if err != nil {
		return err
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
	if rec.Body, err = ring.Wrap(v.master, storage.ID{}); err != nil {
		return err
	}
	return v.store.Write(ctx, &storage.Change{
		Now:           v.now(),
		UpdateRecords: []storage.RecordUpdate{{Rev: rec.Rev, Record: *rec}},
	})
}
