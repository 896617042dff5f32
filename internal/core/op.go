package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// MaxAttempts bounds how often a write is retried after a conflict. Each failed
// attempt means that another write succeeded.
const MaxAttempts = 100

// Op is one operation in progress: its caller and unit of work, the keys of the tenant,
// and the time at which it began.
type Op struct {
	Caller
	State *State
	Now   time.Time

	vaultRing *seal.Ring // if set, log entries have a MAC under the vault's own keys
}

// begin refuses a unit of work in which the verb does not work. It renews the
// identity, checks the permission, and reads the keys of the tenant unless they are
// known or not needed.
func (op *Op) begin(ctx context.Context, verb *Verb) error {
	if err := verb.Check(op.Unit); err != nil {
		return err
	}
	if err := op.Vault.Alive(); err != nil {
		return err // some operations would succeed from the caches
	}
	if op.tx != nil && op.pending != nil {
		return fmt.Errorf("%w: Once, whose work is to be done with the client that it gives", fault.ErrInTx)
	}
	if op.tx != nil {
		if err := op.tx.bind(ctx); err != nil {
			return err
		}
	}
	if err := op.renew(ctx); err != nil {
		return err
	}
	if err := op.Require(verb.Permission); err != nil {
		return err
	}
	if op.State == nil && (!verb.Keyless || op.who.app == nil) {
		if err := op.refresh(ctx, verb.Front || verb.OwnerFront && op.IsOwner()); err != nil {
			return err
		}
	}
	if verb.Only != "" && !op.IsOwner() {
		return fault.New(fault.ErrForbidden, "only the tenant itself may %s", verb.Only)
	}
	op.Now = op.Vault.Now()
	return nil
}

// Require checks that the caller has a permission on at least one entity. ""
// requires no permission. The permissions to open and authorize sessions come with the
// type of a key.
func (op *Op) Require(permission string) error {
	app := op.who.app
	switch {
	case permission == "":
	case permission == access.SessionCreate:
		if app == nil || app.Type != string(access.Public) || op.Session() != (uuid.UUID{}) {
			return fault.New(fault.ErrForbidden, "creating a session needs the key of a public application")
		}
	case permission == access.SessionAuthorize:
		if app != nil && (app.Type != string(access.Private) || op.Session() != (uuid.UUID{})) {
			return fault.New(fault.ErrForbidden, "authorizing a session needs the key of a private application")
		}
	case !op.grant.Has(permission):
		return fault.Permission(permission)
	}
	return nil
}

// Resume lets an operation continue that has waited for its caller: with the rights
// that the caller has now, at the current time, and under keys that are not too old.
func (op *Op) Resume(ctx context.Context) error {
	if err := op.renew(ctx); err != nil {
		return err
	}
	op.Now = op.Vault.Now()
	return op.Refresh(ctx)
}

// Refresh lets a long operation continue under keys that are not too old.
func (op *Op) Refresh(ctx context.Context) error { return op.readKeys(ctx, false) }

// refresh is Refresh. If the tenant's own key is denied and front is true, the
// operation gets the front of the ring.
func (op *Op) refresh(ctx context.Context, front bool) error {
	err := op.readKeys(ctx, false)
	if !front || !KeyDenied(err) {
		return err
	}
	op.State, err = op.Vault.Tenants.Front(ctx, op.Tenant())
	return err
}

// Reload reads the keys again.
func (op *Op) Reload(ctx context.Context) error { return op.readKeys(ctx, true) }

func (op *Op) readKeys(ctx context.Context, again bool) error {
	state, err := op.keys(ctx, op.Tenant(), again)
	if err == nil {
		op.State = state
	}
	return err
}

// NewID returns an id that sorts by the time of the operation.
func (op *Op) NewID() uuid.UUID { return op.Vault.ids.At(op.Now) }

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
		// The change must not be written after the keys that it is sealed under may have
		// been replaced.
		ch.Before = op.State.WriteBefore()
	}
}

// Write applies a change. Inside Once the change is held back, and committed
// together with the response. If the work has effects outside the database,
// entries of reads are written at once, because it may pass on the data that it
// has read.
//
// The database refuses a change if the operation took longer than keys may be
// used, or if the keys were replaced. The change is then sealed again under the
// current keys.
func (op *Op) Write(ctx context.Context, ch *storage.Change) error {
	if uses := op.Uses(ctx); uses != nil {
		uses.wrote(ch)
	}
	if op.pending != nil && !(ch.Relaxed && op.pending.Leased) {
		op.pending.add(ch, op.State.Ring)
		return nil
	}
	if op.tx != nil {
		// It may wait for another transaction of the application, which may need a turn to
		// finish. For the same reason it takes no turn to write.
		admission.Of(ctx).Rest()
		if ch.Relaxed && op.Vault.StrictReadLogs && op.tx.beside() {
			ch.Relaxed = false
			return op.commit(ctx, op.Vault.Store, ch)
		}
		return op.commitSealed(ctx, ch)
	}
	ch.Relaxed = ch.Relaxed && !op.Vault.StrictReadLogs
	room := admission.Of(ctx)
	if isLarge(ch) {
		written, err := room.Write(ctx)
		if err != nil {
			return err
		}
		defer written()
	} else {
		room.Rest()
	}
	return op.commitSealed(ctx, ch)
}

// commitSealed writes a change whose keys must stay valid until the write, or the
// transaction of the application, ends. If the keys have been replaced, it seals the
// change again.
//
// A change that may have been applied is written again even if the caller has left,
// so that the result is no guess. If it remains unknown, the error says so.
func (op *Op) commitSealed(ctx context.Context, ch *storage.Change) error {
	for range MaxAttempts {
		if op.State != nil && seal.InChange(ch) {
			ch.Hold = op.State.Hold
		}
		err := op.commit(ctx, op.writer(), ch)
		if !errors.Is(err, storage.ErrLate) {
			return err
		}
		if ch.Unsure {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
			defer cancel()
		}
		from := op.State.Ring
		err = op.Reload(ctx)
		if err == nil {
			err = op.Reseal(ch, from)
		}
		if err != nil {
			return unknownIf(ch.Unsure, err)
		}
	}
	return unknownIf(ch.Unsure, fault.ErrFaster)
}

// settleTimeout bounds the time for checking whether a change was applied.
const settleTimeout = 30 * time.Second

// unknownIf returns the error for a change that may have been applied.
func unknownIf(unsure bool, err error) error {
	if !unsure {
		return err
	}
	return fmt.Errorf("%w: the change may or may not have been applied: %w", storage.ErrUnavailable, err)
}

// Reseal seals a change from another ring under the keys of the operation, and
// gives it their write deadline.
func (op *Op) Reseal(ch *storage.Change, from *seal.Ring) error {
	r := seal.Resealer{Tenant: op.Tenant(), From: from, To: op.State.Ring}
	if err := r.Change(ch); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	ch.Before = op.State.WriteBefore()
	return nil
}

// Afterwards runs f now, or inside Once after the commit. It is for clearing
// caches after a change.
func (op *Op) Afterwards(f func()) {
	if op.pending != nil {
		op.pending.afterwards(f)
		return
	}
	f()
}

// Seal encrypts for a location of the tenant.
func (op *Op) Seal(p *seal.Location, plain []byte) ([]byte, error) {
	p.Tenant = op.Tenant()
	return op.State.Ring.Seal(p, plain)
}

// Open decrypts data that was sealed for a location of the tenant. An unknown key may
// be newer than the ring, so Open then reads the ring again.
func (op *Op) Open(ctx context.Context, p *seal.Location, version int, sealed []byte) ([]byte, error) {
	p.Tenant = op.Tenant()
	plain, err := op.State.Ring.Open(p, version, sealed)
	if errors.Is(err, seal.ErrNoKey) {
		if err := op.Reload(ctx); err != nil {
			return nil, err
		}
		plain, err = op.State.Ring.Open(p, version, sealed)
	}
	if err != nil {
		// The concatenation comes first, because arguments of Errorf escape to the heap.
		// The location would escape with them on every call.
		return nil, fmt.Errorf("%s: %w", "vault: "+p.Field+" of "+p.Entity+" "+p.ID, err)
	}
	return plain, nil
}

// OpenSealed is [Op.Open] for a stored response or a job. One that does not open raises
// an alarm.
func (op *Op) OpenSealed(ctx context.Context, p *seal.Location, version int, sealed []byte) ([]byte, error) {
	plain, err := op.Open(ctx, p, version, sealed)
	if Unreadable(err) {
		err = op.Vault.Alarm(ctx, AlarmUnreadable, op.Tenant(), Entity{Type: p.Entity, ID: p.ID}, err)
	}
	return plain, err
}

// SealRecord fills in the record's sealed document. All other columns must already
// be set. Rev must be the revision that the record will have.
func (op *Op) SealRecord(rec *storage.Record, doc any) error {
	plain, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("vault: encode %s: %w", rec.Kind, err)
	}
	location := seal.RecordLocation(rec)
	rec.KeyVersion = op.State.Ring.Version()
	rec.Body, err = op.Seal(&location, appendRevision(plain, rec.Rev))
	return err
}

// OpenRecord reads a record's sealed document. If the record cannot be decrypted,
// or is older than a revision that this node has seen, it raises an alarm and
// returns an error that [Unreadable] reports. If a newer record was written since
// the read, OpenRecord replaces rec with it. So the caller must read columns
// afterwards.
func (op *Op) OpenRecord(ctx context.Context, rec *storage.Record, doc any) error {
	for range MaxAttempts {
		again, err := op.openRecord(ctx, rec, doc)
		switch {
		case errors.Is(err, fault.ErrAltered): // its revision is too old
			return op.Vault.Alarm(ctx, AlarmRolledBack, op.Tenant(), Entity{Type: rec.Kind, ID: uuid.UUID(rec.ID).String()}, err)
		case Unreadable(err):
			return op.Vault.Alarm(ctx, AlarmUnreadable, op.Tenant(), Entity{Type: rec.Kind, ID: uuid.UUID(rec.ID).String()}, err)
		case err != nil || !again:
			return err
		}
	}
	return fault.ErrFaster
}

// openRecord reads a record's document, or reports that a newer record has
// replaced it.
func (op *Op) openRecord(ctx context.Context, rec *storage.Record, doc any) (again bool, err error) {
	location := seal.RecordLocation(rec)
	plain, err := op.Open(ctx, &location, rec.KeyVersion, rec.Body)
	if err != nil {
		return false, err
	}
	if again, err = op.checkRevision(ctx, rec, plain); again || err != nil {
		return again, err
	}
	return false, decodeRecord(rec, plain, doc)
}

// SaveRecord writes a sealed record with its log entry. The record is new if its
// revision is 0, and otherwise replaces the revision before. An empty message means
// the message of the operation. With evidence the entry includes the revision, so
// that an older row contradicts the log.
func (op *Op) SaveRecord(ctx context.Context, operation, message string, rec *storage.Record) error {
	return op.SaveRecordWith(ctx, op.Change(), operation, message, rec)
}

// SaveRecordWith is SaveRecord as a part of a change.
func (op *Op) SaveRecordWith(ctx context.Context, ch *storage.Change, operation, message string, rec *storage.Record) error {
	if rec.Rev == 0 {
		ch.InsertRecords = append(ch.InsertRecords, *rec)
	} else {
		ch.UpdateRecords = append(ch.UpdateRecords, storage.RecordUpdate{Rev: rec.Rev - 1, Record: *rec})
	}
	entry := op.Entry(operation, rec.Kind, uuid.UUID(rec.ID).String())
	entry.Message = cmp.Or(message, entry.Message)
	if op.Vault.Ledger != nil && (tracked(rec.Kind) || rec.Kind == audit.Tenant) {
		entry.Message = audit.WithRevision(entry.Message, rec.Rev)
	}
	ch.Logs = []storage.Log{entry}
	if err := op.Write(ctx, ch); err != nil {
		return err
	}
	op.noteRevision(rec.Kind, rec.ID, rec.Rev)
	return nil
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

// RetryStale runs a function that reads, computes and writes. It runs the function
// again if the rows were changed in between, or the keys became too old.
func RetryStale[T any](do func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		out, err := do()
		again := errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrLate)
		if !again || attempt == MaxAttempts {
			return out, err
		}
	}
}

// Retry is RetryStale for a function without a result.
func Retry(do func() error) error {
	_, err := RetryStale(func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// SkipStale writes rows together. If some of them were changed in between, it writes
// the rows one by one and skips those. The rows keep their duplicate keys. A key that
// is taken therefore means that the row was changed or deleted, and another row has
// the key now.
func SkipStale[T any](rows []T, write func([]T) error) error {
	if len(rows) == 0 {
		return nil
	}
	if err := write(rows); !skips(err) {
		return err
	}
	for i := range rows {
		if err := write(rows[i : i+1]); err != nil && !skips(err) {
			return err
		}
	}
	return nil
}

// skips reports whether a row was changed or deleted after it was read.
func skips(err error) bool {
	conflict, _ := fault.Guard(err)
	return errors.Is(err, storage.ErrStale) || conflict != nil && conflict.Kind == storage.DuplicateTaken
}
