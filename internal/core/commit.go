package core

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Ledger learns of the log entries that a vault writes. Package notary has the
// implementation.
type Ledger interface {
	// Expect remembers entries that are about to be written. own is set if their
	// MACs are under the vault's own keys. A read may lack its entity type, and
	// then has it in the call of Written.
	Expect(tenant uuid.UUID, entries []storage.Log, relaxed, own bool)
	// Written and Failed report the outcome of a write. If it is unknown, neither
	// is called.
	Written(tenant uuid.UUID, entries []storage.Log)
	Failed(tenant uuid.UUID, entries []storage.Log)
	// Refuses reports whether a deleted tenant has come back.
	Refuses(tenant uuid.UUID) bool
	// RecordErasure enters an erasure of tokens in the vault's tree.
	RecordErasure(ctx context.Context, tenant uuid.UUID, e *RecordedErasure) error
	// ErasedAgain records that erasures were repeated after a restore.
	ErasedAgain(ctx context.Context, count int64) error
}

// RecordedErasure is an erasure as the vault's tree records it.
type RecordedErasure struct {
	ID     uuid.UUID
	Reason string
	Count  int64
	// Part identifies a part of the erasure that a transaction of the application has
	// committed, at Since or later. It is entered once. Zero means the whole erasure.
	Part  uuid.UUID
	Since time.Time
}

// writer is the part of a storage that writes changes.
type writer interface {
	Write(ctx context.Context, ch *storage.Change) error
}

// commit writes a change. Every change with log entries passes through here, so
// that each entry gets its MAC and the ledger learns of it.
func (op *Op) commit(ctx context.Context, to writer, ch *storage.Change) error {
	if len(ch.Logs) == 0 {
		return to.Write(ctx, ch)
	}
	ring, own, err := op.ring(ctx)
	if err != nil {
		return err
	}
	for i := range ch.Logs {
		ch.Logs[i].Mac = op.Vault.Mac(ring, op.Tenant(), own, ch.Logs[i])
	}
	l := op.Vault.Ledger
	if l == nil {
		return to.Write(ctx, ch)
	}
	l.Expect(op.Tenant(), ch.Logs, ch.Relaxed, own)
	err = to.Write(ctx, ch)
	_, refused := fault.Guard(err)
	switch {
	case refused, errors.Is(err, storage.ErrLate) && !ch.Unsure:
		l.Failed(op.Tenant(), ch.Logs)
	case err == nil && op.tx == nil:
		l.Written(op.Tenant(), ch.Logs)
	}
	return err
}

// ring returns the tenant's keys for the MACs of entries. If the tenant was deleted,
// its own key is denied, or its keys cannot be read, it returns the vault's keys, so
// that such a tenant can still be deleted.
func (op *Op) ring(ctx context.Context) (ring *seal.Ring, own bool, err error) {
	if op.vaultRing != nil {
		return op.vaultRing, true, nil
	}
	if op.State != nil {
		return op.State.Ring, false, nil
	}
	state, err := op.keys(ctx, op.Tenant(), false)
	if errors.Is(err, fault.ErrNoTenant) || Unreadable(err) || KeyDenied(err) {
		ring, err := keyring.Own(ctx, op.Vault.Store, op.Vault.Root)
		return ring, true, err
	}
	if err != nil {
		return nil, false, err
	}
	return state.Ring, false, nil
}

// UseVaultRing lets the entries of the operation have a MAC under the vault's own keys.
func (op *Op) UseVaultRing(ctx context.Context) (err error) {
	op.vaultRing, err = keyring.Own(ctx, op.Vault.Store, op.Vault.Root)
	return err
}

// ReadToken reads a token and writes the log entry of the read in the same round
// trip. The storage fills in the entity type. The MAC of a read does not cover the
// type, and the ledger learns the type when the token has been read.
func (op *Op) ReadToken(ctx context.Context, from storage.ReadLogger, row storage.Log) (storage.Token, error) {
	row.EntityType = ""
	row.Mac = op.Vault.Mac(op.State.Ring, op.Tenant(), false, row)
	r := storage.Reading{Tenant: op.TenantID(), ID: row.EntityID, Entry: row}
	if op.Vault.Ledger == nil {
		return from.ReadToken(ctx, r)
	}
	return op.readExpected(ctx, from, &r)
}

func (op *Op) readExpected(ctx context.Context, from storage.ReadLogger, r *storage.Reading) (storage.Token, error) {
	l, entry := op.Vault.Ledger, []storage.Log{r.Entry}
	l.Expect(op.Tenant(), entry, true, false)
	t, err := from.ReadToken(ctx, *r)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && !audit.Known(t.Type): // the vault did not write such a type
		l.Failed(op.Tenant(), entry)
	case err == nil:
		entry[0].EntityType = t.Type
		l.Written(op.Tenant(), entry)
	}
	return t, err
}

// RecordErasure enters an erasure of tokens in the vault's tree, if evidence is on.
func (op *Op) RecordErasure(ctx context.Context, e *RecordedErasure) error {
	if op.Vault.Ledger == nil {
		return nil
	}
	return op.Vault.Ledger.RecordErasure(ctx, op.Tenant(), e)
}
