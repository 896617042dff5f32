package keyring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Check is the record that tells the right master key from others: a ring that
// holds no tenant's data.
type Check struct {
	Store interface {
		Records
		Write(ctx context.Context, c *storage.Change) error
	}
	Master seal.AEAD
	Now    func() time.Time
}

// Verify proves that the master key is the one that the database was set up
// with, and else fails with [fault.ErrWrongKey]. A new database gets a record. A
// master key that neither opens what it has to nor what it has just sealed
// itself, or seals nothing, is [fault.ErrKeyUnavailable].
func (c *Check) Verify(ctx context.Context) error {
	ring, _, err := c.read(ctx)
	if err != nil || ring != nil {
		return err
	}
	err = c.create(ctx)
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	// Another node set the database up meanwhile: its key must be ours.
	return c.Verify(ctx)
}

// Rewrap wraps the record under the master key that wraps now. It fails with
// storage.ErrStale when another node was faster.
func (c *Check) Rewrap(ctx context.Context) error {
	ring, rec, err := c.read(ctx)
	if err != nil {
		return err
	}
	if ring == nil {
		return c.create(ctx)
	}
	if rec.Body, err = Wrap(ctx, c.Master, ring, storage.ID{}); err != nil {
		return err
	}
	return c.Store.Write(ctx, &storage.Change{
		Now:           c.Now(),
		UpdateRecords: []storage.RecordUpdate{{Rev: rec.Rev, Record: *rec}},
	})
}

// read returns the ring, if there is one, and its record.
func (c *Check) read(ctx context.Context) (*seal.Ring, *storage.Record, error) {
	var none storage.ID
	recs, err := c.Store.Records(ctx, none, KindRing, []storage.ID{none})
	if err != nil {
		return nil, nil, fmt.Errorf("vault: read the record of the master key: %w", err)
	}
	if len(recs) == 0 {
		return nil, nil, nil
	}
	ring, err := c.unwrap(ctx, recs[0].Body)
	return ring, &recs[0], err
}

// Own returns the keys of the vault itself.
func Own(ctx context.Context, store Records, master seal.AEAD) (*seal.Ring, error) {
	recs, err := store.Records(ctx, storage.ID{}, KindRing, []storage.ID{{}})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, errors.New("vault: the record of the master key is gone")
	}
	return seal.Unwrap(ctx, master, storage.ID{}, recs[0].Body)
}

// unwrap opens the ring. A key in a KMS refuses what another key sealed, and
// whatever it is given while the service is down, and the errors of one service
// are not those of the next. So a key that refuses has to show that it works at
// all, before it is called the wrong one.
func (c *Check) unwrap(ctx context.Context, wrapped []byte) (*seal.Ring, error) {
	var none storage.ID
	ring, err := seal.Unwrap(ctx, c.Master, none, wrapped)
	if !errors.Is(err, seal.ErrUnwrap) {
		return ring, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // which says nothing about the key
	}
	if broken := try(ctx, c.Master); broken != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrKeyUnavailable, broken)
	}
	// It may have come back just now.
	ring, err = seal.Unwrap(ctx, c.Master, none, wrapped)
	if errors.Is(err, seal.ErrUnwrap) {
		return nil, fmt.Errorf("%w: %w", fault.ErrWrongKey, err)
	}
	return ring, err
}

// Several is a master key that is made of others.
type Several interface {
	// Keys returns the others.
	Keys() []seal.AEAD
}

// try returns why a master key cannot seal a ring and open it again. Of several
// keys each is tried: the one that does not work may be the one that is needed.
func try(ctx context.Context, key seal.AEAD) error {
	if several, ok := key.(Several); ok {
		for _, k := range several.Keys() {
			if err := try(ctx, k); err != nil {
				return err
			}
		}
		return nil
	}
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		return err
	}
	wrapped, err := ring.Wrap(ctx, key, storage.ID{})
	if err != nil {
		return err
	}
	_, err = seal.Unwrap(ctx, key, storage.ID{}, wrapped)
	return err
}

// Wrap seals a ring of a tenant under a master key.
func Wrap(ctx context.Context, master seal.AEAD, ring *seal.Ring, tenant storage.ID) ([]byte, error) {
	wrapped, err := ring.Wrap(ctx, master, tenant)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrKeyUnavailable, err)
	}
	return wrapped, nil
}

// create sets a database up, under a master key that can also open what it
// seals.
func (c *Check) create(ctx context.Context) error {
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		return err
	}
	wrapped, err := Wrap(ctx, c.Master, ring, storage.ID{})
	if err != nil {
		return err
	}
	if _, err := seal.Unwrap(ctx, c.Master, storage.ID{}, wrapped); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrKeyUnavailable, err)
	}
	now := c.Now()
	return c.Store.Write(ctx, &storage.Change{
		Now:           now,
		InsertRecords: []storage.Record{{Kind: KindRing, Body: wrapped, CreatedAt: now}},
	})
}
