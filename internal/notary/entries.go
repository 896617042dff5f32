package notary

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
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
	var few [4]ledger.Expected
	all := few[:0]
	for i := range entries {
		e := ledger.EntryOf(&entries[i])
		one := ledger.Expected{ID: e.ID, Relaxed: relaxed, Own: own, Untyped: e.EntityType == ""}
		if !one.Untyped {
			one.Commit = e.Commit(tenant, evidence.Mac(entries[i].Mac))
		}
		all = append(all, one)
	}
	k.Ledger.Expect(tenant, all...)
}

// Written reports that entries are in the database.
func (k *Keeper) Written(tenant uuid.UUID, entries []storage.Log) {
	var few [4]ledger.Expected
	all := withIDs(few[:0], entries)
	if len(all) == 1 && entries[0].Operation == audit.Read { // Expect may not have had its type
		e := ledger.EntryOf(&entries[0])
		all[0].Commit = e.Commit(tenant, evidence.Mac(entries[0].Mac))
	}
	k.Ledger.Written(tenant, all...)
}

// Failed reports that entries were not written.
func (k *Keeper) Failed(tenant uuid.UUID, entries []storage.Log) {
	var few [4]ledger.Expected
	k.Ledger.Failed(tenant, withIDs(few[:0], entries)...)
}

func withIDs(all []ledger.Expected, entries []storage.Log) []ledger.Expected {
	for i := range entries {
		all = append(all, ledger.Expected{ID: uuid.UUID(entries[i].ID)})
	}
	return all
}

// RecordErasure enters an erasure of tokens in the vault's tree. A suspended or
// tampered ledger does not prevent the erasure, because the log has it too.
func (k *Keeper) RecordErasure(ctx context.Context, tenant uuid.UUID, e *core.RecordedErasure) error {
	err := k.Ledger.RecordErasure(ctx, evidence.Event{Tenant: tenant, ID: e.ID, Reason: e.Reason, Count: e.Count, Entry: e.Part}, e.Since)
	if errors.Is(err, ledger.ErrSuspended) || errors.Is(err, ledger.ErrTampered) {
		k.vault.Logger.ErrorContext(ctx, "an erasure is not recorded in the tree", "tenant_id", tenant, "error", err)
		return nil
	}
	return err
}
