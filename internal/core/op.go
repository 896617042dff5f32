package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// MaxAttempts bounds how often a write is computed again because others were
// faster. Each lost attempt means that another's succeeded.
const MaxAttempts = 100

// Op is one operation in progress: its caller and place, the keys of the tenant,
// and the time at which it began.
type Op struct {
	Caller
	State *State
	Now   time.Time
}

// begin renews the identity, checks that it has the permission (unless that is
// ""), and reads the keys of the tenant.
func (op *Op) begin(ctx context.Context, permission string) error {
	if err := op.Vault.Alive(); err != nil {
		return err // some operations would succeed from the caches
	}
	if op.tx != nil {
		if err := op.bindTx(ctx); err != nil {
			return err
		}
	}
	if err := op.renew(ctx); err != nil {
		return err
	}
	if err := op.Require(permission); err != nil {
		return err
	}
	if err := op.Refresh(ctx); err != nil {
		return err
	}
	op.Now = op.Vault.Now()
	return nil
}

// Require checks that the caller has a permission on anything at all. "" requires
// none.
func (op *Op) Require(permission string) error {
	if permission != "" && !op.grant.Has(permission) {
		return fault.Permission(permission)
	}
	return nil
}

// Refresh lets a long operation go on under keys that are not too old.
func (op *Op) Refresh(ctx context.Context) error { return op.readKeys(ctx, false) }

// Reload reads the keys again.
func (op *Op) Reload(ctx context.Context) error { return op.readKeys(ctx, true) }

func (op *Op) readKeys(ctx context.Context, again bool) error {
	state, err := op.keys(ctx, op.Tenant(), again)
	if err == nil {
		op.State = state
	}
	return err
}

// NewID returns an id whose place in lists is that of the operation.
func (op *Op) NewID() uuid.UUID { return op.Vault.NewID(op.Now) }

// Change returns an empty change of the tenant.
func (op *Op) Change() *storage.Change {
	ch := &storage.Change{}
	op.Start(ch)
	return ch
}

// Start makes ch an empty change of the tenant.
func (op *Op) Start(ch *storage.Change) {
	*ch = storage.Change{Tenant: op.TenantID(), Now: op.Now}
	if op.State != nil {
		// It must not be written when the keys that it is sealed under may have
		// been replaced.
		ch.Before = op.State.WriteBefore()
	}
}

// Write applies a change. Inside Once the change is held back, and committed
// together with the response. Entries of reads are written at once when the work has
// effects outside of the database, because it may pass on what it has read.
//
// An operation may have taken longer than keys may be used, or the database may
// have other keys than it had. Then the database refuses the change, and it is sealed
// again under keys that are read now.
func (op *Op) Write(ctx context.Context, ch *storage.Change) error {
	if op.tx != nil {
		return op.writeInTx(ctx, ch)
	}
	if op.pending != nil && !(ch.Relaxed && op.pending.Leased) {
		op.pending.add(ch, op.State.Ring)
		return nil
	}
	if ch.Relaxed && op.Vault.StrictReadLogs {
		ch.Relaxed = false
	}
	written, err := roomToWrite(ctx, ch)
	if err != nil {
		return err
	}
	defer written()
	for range MaxAttempts {
		if op.State != nil && sealed.Any(ch) {
			ch.Hold = op.State.Hold
		}
		err := op.commit(ctx, op.Vault.Store, ch)
		if !errors.Is(err, storage.ErrLate) {
			return err
		}
		from := op.State.Ring
		if err := op.Reload(ctx); err != nil {
			return err
		}
		if err := op.Reseal(ch, from); err != nil {
			return err
		}
	}
	return fault.ErrFaster
}

// Reseal seals a change, which was sealed with another ring, under the keys of
// the operation, and gives it the time that these have.
func (op *Op) Reseal(ch *storage.Change, from *seal.Ring) error {
	r := sealed.Resealer{Tenant: op.Tenant(), From: from, To: op.State.Ring}
	if err := r.Change(ch); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	ch.Before = op.State.WriteBefore()
	return nil
}

// Afterwards runs f now, or inside Once when the changes are committed. It is for
// clearing caches after a change.
func (op *Op) Afterwards(f func()) {
	if op.pending != nil {
		op.pending.afterwards(f)
		return
	}
	f()
}

// Seal encrypts for a place of the tenant.
func (op *Op) Seal(p *seal.Place, plain []byte) ([]byte, error) {
	p.Tenant = op.Tenant()
	return op.State.Ring.Seal(p, plain)
}

// Open decrypts what was sealed for a place of the tenant. A key that the ring
// does not know may be younger than the ring: then the ring is read again.
func (op *Op) Open(ctx context.Context, p *seal.Place, version int, sealed []byte) ([]byte, error) {
	p.Tenant = op.Tenant()
	plain, err := op.State.Ring.Open(p, version, sealed)
	if errors.Is(err, seal.ErrNoKey) {
		if err := op.Reload(ctx); err != nil {
			return nil, err
		}
		plain, err = op.State.Ring.Open(p, version, sealed)
	}
	if err != nil {
		// Joined first, because the arguments of Errorf go to the heap, and with
		// them the place of everything that does open.
		return nil, fmt.Errorf("%s: %w", "vault: "+p.Field+" of "+p.Entity+" "+p.ID, err)
	}
	return plain, nil
}

// SealRecord fills in the record's sealed document. All other columns must be
// set already, Rev to the revision that the record will have.
func (op *Op) SealRecord(rec *storage.Record, doc any) error {
	plain, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("vault: encode %s: %w", rec.Kind, err)
	}
	place := sealed.RecordPlace(rec)
	rec.KeyVersion = op.State.Ring.Version()
	rec.Body, err = op.Seal(&place, appendRevision(plain, rec.Rev))
	return err
}

// OpenRecord reads a record's sealed document. A record that does not open, or is
// older than one this node has seen, is an error that [Unreadable] reports, and an
// alarm. If a newer one was written since the record was read, that one takes its
// place, so the caller looks at columns afterwards.
func (op *Op) OpenRecord(ctx context.Context, rec *storage.Record, doc any) error {
	for range MaxAttempts {
		again, err := op.openRecord(ctx, rec, doc)
		switch {
		case err != nil && Unreadable(err):
			return op.alarmRecord(ctx, rec, err)
		case err != nil || !again:
			return err
		}
	}
	return fault.ErrFaster
}

// openRecord reads a record's document, or reports that a newer record has taken
// its place.
func (op *Op) openRecord(ctx context.Context, rec *storage.Record, doc any) (again bool, err error) {
	place := sealed.RecordPlace(rec)
	plain, err := op.Open(ctx, &place, rec.KeyVersion, rec.Body)
	if err != nil {
		return false, err
	}
	if again, err = op.checkRevision(ctx, rec, plain); again || err != nil {
		return again, err
	}
	return false, decodeRecord(rec, plain, doc)
}

// RecordEntry returns the log entry of a change of a record. Rev is the revision
// that the record gets. With evidence the entry carries the revision, so that an
// older row contradicts the log.
func (op *Op) RecordEntry(operation string, rec *storage.Record) storage.Log {
	entry := op.Entry(operation, rec.Kind, uuid.UUID(rec.ID).String())
	if op.Vault.Ledger != nil && tracked(rec.Kind) && operation != audit.Delete {
		entry.Message = audit.WithRevision(entry.Message, rec.Rev)
	}
	return entry
}

// Record returns one record of the tenant, or ErrNotFound.
func (op *Op) Record(ctx context.Context, kind string, id uuid.UUID) (*storage.Record, error) {
	recs, err := op.DB().Records(ctx, op.TenantID(), kind, []storage.ID{storage.ID(id)})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, fault.New(fault.ErrNotFound, "%s not found", kind)
	}
	return &recs[0], nil
}

// RetryStale runs a function that reads, computes and writes, again when the
// rows were changed by others in between, or the keys grew too old.
func RetryStale[T any](do func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		out, err := do()
		again := errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrLate)
		if !again || attempt == MaxAttempts {
			return out, err
		}
	}
}
