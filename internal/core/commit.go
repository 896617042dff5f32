package core

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// macLabel separates the MACs of log entries from other keyed hashes.
const macLabel = "log"

// macFields is the buffer size for the fields of most entries, in bytes.
const macFields = 512

// Mac returns the keyed hash of the fields of a log entry, under the keys of its
// tenant: see [evidence.Entry.AppendMacFields]. Rotation does not change it.
func Mac(ring *seal.Ring, fields []byte) evidence.Mac {
	return ring.HashBytes(macLabel, fields)
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
	expected := op.stamp(ring, own, ch)
	l := op.Vault.Ledger
	if l == nil {
		return to.Write(ctx, ch)
	}
	l.Expect(op.Tenant(), expected...)
	err = to.Write(ctx, ch)
	_, refused := fault.Guard(err)
	switch {
	case refused, errors.Is(err, storage.ErrLate):
		l.Failed(op.Tenant(), expected...)
	case err == nil && op.tx == nil:
		l.Written(op.Tenant(), expected...)
	}
	return err
}

// ring returns the keys for the MACs of entries: those of the tenant. If the
// tenant was deleted, or its keys cannot be read, it returns the vault's own, so
// that such a tenant can still be deleted.
func (op *Op) ring(ctx context.Context) (ring *seal.Ring, own bool, err error) {
	if op.State != nil {
		return op.State.Ring, false, nil
	}
	state, err := op.keys(ctx, op.Tenant(), false)
	if errors.Is(err, fault.ErrNoTenant) || Unreadable(err) {
		ring, err := keyring.Own(ctx, op.Vault.Store, op.Vault.Master)
		return ring, true, err
	}
	if err != nil {
		return nil, false, err
	}
	return state.Ring, false, nil
}

// stamp gives each entry its MAC, and returns the entries that the ledger must
// expect.
func (op *Op) stamp(ring *seal.Ring, own bool, ch *storage.Change) []ledger.Expected {
	var expected []ledger.Expected
	if op.Vault.Ledger != nil {
		expected = make([]ledger.Expected, len(ch.Logs))
	}
	var room [macFields]byte
	buf := room[:0]
	for i := range ch.Logs {
		e := ledger.EntryOf(&ch.Logs[i])
		if buf = e.AppendMacFields(buf[:0]); own {
			buf = ledger.VaultMacFields(op.Tenant(), e)
		}
		mac := Mac(ring, buf)
		ch.Logs[i].Mac = storage.Hash(mac)
		if expected != nil {
			expected[i] = ledger.Expected{ID: e.ID, Commit: e.Commit(op.Tenant(), mac), Relaxed: ch.Relaxed, Own: own}
		}
	}
	return expected
}

// ReadEntry returns the log entry of a read. The storage writes the entry together
// with the read.
func (op *Op) ReadEntry(operation, entityType, entityID string) storage.Log {
	row := op.Entry(operation, entityType, entityID)
	e := ledger.EntryOf(&row)
	var room [macFields]byte
	row.Mac = storage.Hash(Mac(op.State.Ring, e.AppendMacFields(room[:0])))
	return row
}

// RecordErasure enters an erasure of tokens in the vault's tree, if evidence is
// on. A suspended or tampered ledger does not prevent the erasure, because the log
// has it too.
func (op *Op) RecordErasure(ctx context.Context, id uuid.UUID, reason string, count int64) error {
	l := op.Vault.Ledger
	if l == nil {
		return nil
	}
	err := l.RecordErasure(ctx, op.Tenant(), id, reason, count)
	if errors.Is(err, ledger.ErrSuspended) || errors.Is(err, ledger.ErrTampered) {
		op.Vault.Logger.ErrorContext(ctx, "an erasure is not recorded in the tree", "tenant_id", op.Tenant(), "error", err)
		return nil
	}
	return err
}

// LedgerMac computes macs for a ledger.
func (v *Vault) LedgerMac(ctx context.Context, tenant uuid.UUID, fields []byte) (evidence.Mac, error) {
	state, err := v.Tenants.Get(ctx, tenant)
	if err != nil {
		return evidence.Mac{}, err
	}
	return Mac(state.Ring, fields), nil
}
