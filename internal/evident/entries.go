package evident

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/pending"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// macLabel separates the MACs of log entries from other keyed hashes.
const macLabel = "log"

// hash returns a keyed hash for the log. Rotation does not change it.
func hash(ring *seal.Ring, data []byte) evidence.Mac { return ring.Front().HashBytes(macLabel, data) }

// Mac implements Config.Mac of package core: see [evidence.Entry.AppendMacFields].
func Mac(ring *seal.Ring, tenant uuid.UUID, own bool, entry storage.Log) storage.Hash {
	var fields [512]byte // enough for most entries
	e := ledger.EntryOf(&entry)
	if own {
		return storage.Hash(hash(ring, ledger.AppendVaultMacFields(fields[:0], tenant, e)))
	}
	return storage.Hash(hash(ring, e.AppendMacFields(fields[:0])))
}

// Expect remembers entries that are about to be written: see [core.Ledger].
func (k *Keeper) Expect(tenant uuid.UUID, entries []storage.Log, relaxed, own bool) {
	var few [4]pending.Expected
	all := few[:0]
	for i := range entries {
		e := ledger.EntryOf(&entries[i])
		one := pending.Expected{ID: e.ID, Relaxed: relaxed, Own: own, Untyped: e.EntityType == ""}
		if !one.Untyped {
			one.Commit = e.Commit(tenant, evidence.Mac(entries[i].Mac))
		}
		all = append(all, one)
	}
	k.Ledger.Expect(tenant, all...)
}

// Written reports that entries are in the database.
func (k *Keeper) Written(tenant uuid.UUID, entries []storage.Log) {
	var few [4]pending.Expected
	all := withIDs(few[:0], entries)
	if len(all) == 1 && entries[0].Operation == audit.Read { // Expect may not have had its type
		e := ledger.EntryOf(&entries[0])
		all[0].Commit = e.Commit(tenant, evidence.Mac(entries[0].Mac))
	}
	k.Ledger.Written(tenant, all...)
}

// Failed reports that entries were not written.
func (k *Keeper) Failed(tenant uuid.UUID, entries []storage.Log) {
	var few [4]pending.Expected
	k.Ledger.Failed(tenant, withIDs(few[:0], entries)...)
}

func withIDs(all []pending.Expected, entries []storage.Log) []pending.Expected {
	for i := range entries {
		all = append(all, pending.Expected{ID: uuid.UUID(entries[i].ID)})
	}
	return all
}

// RecordErasure enters an erasure of tokens in the vault's tree. A suspended or
// tampered ledger does not prevent the erasure, because the log has it too.
func (k *Keeper) RecordErasure(ctx context.Context, tenant, id uuid.UUID, reason string, count int64) error {
	err := k.Ledger.RecordErasure(ctx, tenant, id, reason, count)
	if errors.Is(err, ledger.ErrSuspended) || errors.Is(err, ledger.ErrTampered) {
		k.vault.Logger.ErrorContext(ctx, "an erasure is not recorded in the tree", "tenant_id", tenant, "error", err)
		return nil
	}
	return err
}

// progress stores the progress of verification in a record, sealed with the
// vault's own keys. A record that does not open counts as none, so verification
// starts again.
type progress struct {
	k   *Keeper
	rev *int64 // as it was read or written last; nil while no record exists
}

// document returns the record with the progress of verification.
func (p *progress) document() *keyring.Document {
	return &keyring.Document{Kind: "verification", Field: "progress", Store: p.k.vault.Store, Ring: p.k.ring}
}

// Load implements [ledger.Progress].
func (p *progress) Load(ctx context.Context) (c ledger.Cursor, err error) {
	var plain []byte
	plain, p.rev, err = p.document().Read(ctx)
	if p.rev == nil {
		return c, err
	}
	if err != nil || json.Unmarshal(plain, &c) != nil {
		return ledger.Cursor{}, nil //nolint:nilerr // see above
	}
	return c, nil
}

// Save implements [ledger.Progress].
func (p *progress) Save(ctx context.Context, c ledger.Cursor) (bool, error) {
	plain, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	err = p.document().Write(ctx, plain, p.rev, p.k.vault.Now())
	switch {
	case errors.Is(err, storage.ErrStale), errors.Is(err, storage.ErrExists):
		return false, nil
	case err != nil:
		return false, err
	case p.rev == nil:
		p.rev = new(int64)
	default:
		*p.rev++
	}
	return true, nil
}
