// Package rotation replaces the keys of tenants: the data key of a tenant, or a
// tenant's own key around it. All nodes keep serving.
//
// It promises that the old key is destroyed only when no row needs it and no node can
// write with it any more, and that an interrupted rotation continues where it stopped,
// on any node. It writes guarded changes like everybody else and holds no lock.
//
// It rests on package keyring, whose horizon bounds how long a node uses keys, and on
// the storage, which refuses a change that comes too late.
//
// Begin with [Rotate]: its four steps are the order in which a key dies.
package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Options configures a rotation.
type Options struct {
	// Progress, if not nil, is called after each step, by one goroutine at a
	// time. It gets the number of resealed rows, and of tenants that have only
	// their new key.
	Progress func(rows, tenants int)
	// User, if not empty, is the user in log entries.
	User string
	// OlderThan, if not zero, makes RotateAll skip tenants whose data key was
	// created at or after this time.
	OlderThan time.Time
}

// chunk is the maximum number of rows that one change reseals. A change has
// fewer rows if they are large, within Config.MaxPageBytes.
const chunk = 200

// Rotate gives a tenant a new data key, reseals all of its rows with that
// key, and destroys the old key. The next call continues an interrupted
// rotation.
//
// Rotate destroys the old key only when no node can use it any more, which
// takes the horizon of the vault, and a last scan has found no row that needs
// it.
func Rotate(ctx context.Context, v *core.Vault, tenant uuid.UUID, opts Options) error {
	r := &rotation{Options: opts, v: v, tenant: tenant}
	promoted, err := r.promote(ctx)
	if err != nil {
		return err
	}
	if err := r.reseal(ctx); err != nil {
		return err
	}
	if err := r.wait(ctx, promoted); err != nil {
		return err
	}
	return r.finish(ctx)
}

// finish reseals rows that other nodes have sealed with the old key in the
// meantime, and destroys the old key. If the database keeps dropping what is written,
// the old key stays.
func (r *rotation) finish(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		before := r.due
		if err := r.reseal(ctx); err != nil {
			return err
		}
		if r.due == before {
			break
		}
		if attempt == resealAttempts {
			return errDropped
		}
	}
	err := r.step(ctx, "Data keys before %d destroyed", func(ring *seal.Ring) (*seal.Ring, error) {
		if !ring.Retired() || ring.Version() != r.version {
			return nil, nil // done, or left to the next rotation
		}
		return ring.Destroy()
	})
	if err != nil {
		return err
	}
	return r.kept(ctx, func(ring *seal.Ring) bool {
		return ring.Version() > r.version || ring.Version() == r.version && !ring.Retired()
	})
}

// kept reads the ring again, and fails if the database undid a change of it.
func (r *rotation) kept(ctx context.Context, is func(*seal.Ring) bool) error {
	state, err := r.v.Tenants.Reload(ctx, r.tenant)
	if err == nil && !is(state.Ring) {
		err = errUndone
	}
	return err
}

var errUndone = errors.New("vault: the database did not keep the changed keys of the tenant: look for a trigger that undoes changes, and repeat the call")

var errDropped = errors.New("vault: rows keep their old data key, so it is not destroyed: look for a trigger that drops changes, and rotate again")

// rotation is a rotation in progress.
type rotation struct {
	Options
	v       *core.Vault
	tenant  uuid.UUID
	done    int
	due     int // rows that were found with an older key
	version int // target key version of all rows
}

// promote makes a new key the primary one, unless an interrupted rotation has
// already done so. It returns a time at which the promotion was complete.
func (r *rotation) promote(ctx context.Context) (time.Time, error) {
	want := 0
	err := r.step(ctx, "Data key %d made pending", func(ring *seal.Ring) (*seal.Ring, error) {
		newest, state := ring.Newest()
		if want = newest; state == seal.Pending || ring.Retired() {
			return nil, nil
		}
		want++
		return ring.Add(r.v.Now())
	})
	if err != nil {
		return time.Time{}, err
	}
	err = r.step(ctx, "Data key %d made primary", func(ring *seal.Ring) (*seal.Ring, error) {
		newest, state := ring.Newest()
		r.version = newest
		if state != seal.Pending {
			return nil, nil
		}
		return ring.Promote()
	})
	if err == nil && r.version < want {
		err = errUndone
	}
	return time.Now(), err
}

// step changes the tenant's ring and writes a log entry. If change returns
// nil, the ring stays unchanged.
func (r *rotation) step(ctx context.Context, message string, change func(*seal.Ring) (*seal.Ring, error)) error {
	return r.enter(ctx, audit.Update, func(ring *seal.Ring) (string, *seal.Ring, error) {
		ring, err := change(ring)
		if err != nil || ring == nil {
			return "", nil, err
		}
		version, _ := ring.Newest()
		return fmt.Sprintf(message, version), ring, nil
	})
}

// enter is step with an operation for the log entry. The change also returns the message.
func (r *rotation) enter(ctx context.Context, operation string, change func(*seal.Ring) (string, *seal.Ring, error)) error {
	return core.Retry(func() error {
		state, err := r.v.Tenants.Reload(ctx, r.tenant)
		if err != nil {
			return err
		}
		message, ring, err := change(state.Ring)
		if err != nil || ring == nil {
			return err
		}
		return r.store(ctx, state, ring, operation, message)
	})
}

func (r *rotation) store(ctx context.Context, state *core.State, ring *seal.Ring, operation, message string) error {
	wrapped, err := ring.Wrap(r.v.Root, r.tenant)
	if err != nil {
		return err
	}
	op := r.operation(state)
	if r.User != "" {
		op.Identity = op.AsUser(r.User)
	}
	ch := op.Change()
	ch.UpdateRecords = []storage.RecordUpdate{{Rev: state.RingRev, Record: storage.Record{
		Kind: keyring.KindRing, ID: op.TenantID(), Body: wrapped, CreatedAt: state.Doc.CreatedAt,
	}}}
	if operation == audit.Key {
		if err := op.UseVaultRing(ctx); err != nil {
			return err
		}
	}
	entry := op.Entry(operation, keyring.KindTenant, r.tenant.String())
	entry.Message = message
	if r.v.Ledger != nil {
		entry.Message = audit.WithRevision(entry.Message, ring.Revision())
	}
	ch.Logs = []storage.Log{entry}
	defer r.v.Tenants.Forget(r.tenant)
	return untilFree(ctx, func() error { return op.Apply(ctx, ch) })
}

// operation returns an operation of the tenant with the given keys.
func (r *rotation) operation(state *core.State) *core.Op {
	return &core.Op{Caller: r.v.Owner(r.tenant), State: state, Now: r.v.Now()}
}

// untilFree retries a write until the context ends, while the database is
// unreachable or an application's transaction holds the tenant's ring or a
// row.
func untilFree(ctx context.Context, write func() error) error {
	for {
		err := write()
		if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrSlow) {
			return err
		}
		if pace.Sleep(ctx, untilFreePause) != nil {
			return err
		}
	}
}

const untilFreePause = 100 * time.Millisecond

// wait waits until every node's copy of the old key is too old to be used.
func (r *rotation) wait(ctx context.Context, since time.Time) error {
	return r.v.WaitUntil(ctx, since.Add(keyring.Horizon))
}

// resealAttempts limits how often reseal starts over.
const resealAttempts = 3

// reseal reseals everything that is sealed with an older key. It starts over if the
// ring lacks the key of a row, because another rotation has resealed the row after it
// was read, and destroyed the key.
func (r *rotation) reseal(ctx context.Context) (err error) {
	for range resealAttempts {
		if err = r.resealAll(ctx); !errors.Is(err, seal.ErrNoKey) {
			break
		}
	}
	return err
}

func (r *rotation) resealAll(ctx context.Context) error {
	state, err := r.v.Tenants.Reload(ctx, r.tenant)
	if err != nil {
		return err
	}
	op := r.operation(state)
	for _, pass := range []func(context.Context, *core.Op) error{r.resealTokens, r.resealRecords, r.resealRest} {
		if err := pass(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

// resealer returns a resealer that uses the current primary key.
func resealer(op *core.Op) *seal.Resealer {
	return &seal.Resealer{Tenant: op.Tenant(), From: op.State.Ring, To: op.State.Ring}
}

func (r *rotation) report(n int) {
	r.done += n
	if r.Progress != nil {
		r.Progress(r.done, 0)
	}
}

// resealRows reseals rows page by page. It reads them with read, which continues
// after the rows of the call before, and skips rows that reseal reports as not due.
func resealRows[R, U any](ctx context.Context, r *rotation, op *core.Op, read func(limit int) ([]R, error),
	reseal func(*R) (update U, due bool, err error), put func(*storage.Change, []U)) error {
	walk := core.NewWalk(chunk)
	for {
		rows, _, err := core.NextPage(&walk, read)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := op.Refresh(ctx); err != nil { // looking for these rows may have taken long
			return err
		}
		var updates []U
		for i := range rows {
			u, due, err := reseal(&rows[i])
			if err != nil {
				return err
			}
			if due {
				updates = append(updates, u)
			}
		}
		// A row that has changed has the new key, or the last scan finds it.
		err = core.SkipStale(updates, func(some []U) error {
			ch := op.Change()
			put(ch, some)
			return untilFree(ctx, func() error { return op.Write(ctx, ch) })
		})
		if err != nil {
			return err
		}
		r.due += len(updates)
		r.report(len(updates))
	}
}

// resealTokens reseals tokens from the newest to the oldest. New tokens are
// already sealed with the new key.
func (r *rotation) resealTokens(ctx context.Context, op *core.Op) error {
	filter := storage.TokenFilter{Tenant: op.TenantID(), Where: storage.KeyBelow(op.State.Ring.Version()), MaxBytes: op.Vault.MaxPageBytes}
	return resealRows(ctx, r, op, func(limit int) ([]storage.Token, error) {
		filter.Limit = limit
		rows, _, err := op.Vault.Store.ListTokens(ctx, filter)
		if len(rows) > 0 {
			filter.Before = rows[len(rows)-1].Ord
		}
		return rows, err
	}, func(row *storage.Token) (storage.TokenUpdate, bool, error) {
		u := storage.TokenUpdate{Rev: row.Rev, OldSet: row.Set, KeepHashes: true, Token: *row}
		return u, true, resealer(op).Token(&u.Token)
	}, func(ch *storage.Change, some []storage.TokenUpdate) { ch.UpdateTokens = some })
}

// resealRecords reads records under any key, as resealRest does.
func (r *rotation) resealRecords(ctx context.Context, op *core.Op) error {
	filter := storage.RecordFilter{Tenant: op.TenantID(), MaxBytes: op.Vault.MaxPageBytes}
	return resealRows(ctx, r, op, func(limit int) ([]storage.Record, error) {
		filter.Limit = limit
		recs, _, err := op.Vault.Store.ListRecords(ctx, filter)
		if len(recs) > 0 {
			filter.Before = recs[len(recs)-1].ID
		}
		return recs, err
	}, func(rec *storage.Record) (u storage.RecordUpdate, due bool, err error) {
		if rec.KeyVersion >= op.State.Ring.Version() || slices.Contains(unsealed, rec.Kind) {
			return u, false, nil
		}
		err = resealer(op).Record(rec)
		return storage.RecordUpdate{Rev: rec.Rev, Record: *rec}, true, err
	}, func(ch *storage.Change, some []storage.RecordUpdate) { ch.UpdateRecords = some })
}

// unsealed are the kinds of records that no data key of a tenant seals.
var unsealed = []string{keyring.KindRing, keyring.KindTombstone, core.KindOwnKey}

// resealRest reseals claims and jobs. It reads rows under any key, because a filter
// on the key would make one statement look at all rows of the tenant.
func (r *rotation) resealRest(ctx context.Context, op *core.Op) error {
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		filter := storage.SealedFilter{Tenant: op.TenantID(), Kind: kind}
		err := resealRows(ctx, r, op, func(limit int) ([]storage.Sealed, error) {
			filter.Limit = limit
			rows, err := op.Vault.Store.SealedRows(ctx, filter)
			if len(rows) > 0 {
				filter.After = rows[len(rows)-1].Key
			}
			return rows, err
		}, func(row *storage.Sealed) (storage.Sealed, bool, error) {
			if row.KeyVersion >= op.State.Ring.Version() {
				return *row, false, nil
			}
			err := resealer(op).Row(row)
			return *row, true, err
		}, func(ch *storage.Change, some []storage.Sealed) { ch.Reseal = some })
		if err != nil {
			return err
		}
	}
	return nil
}

// SetKey puts the key of a URI around a tenant's ring, inside the vault's root, and
// rotates the data key. An empty URI removes the tenant's own key. The next call with the
// same URI continues after an interruption.
//
// One write changes the wrapping of the ring and adds the new data key. So no ring of
// an earlier backup has this data key, and the tenant opens at any time with the
// wrapping that is stored.
func SetKey(ctx context.Context, v *core.Vault, tenant uuid.UUID, uri string) error {
	message, own := "Key removed", (*seal.OwnKey)(nil)
	if uri != "" {
		var err error
		message = "Key set"
		if own, err = v.Own.Make(ctx, tenant, uri); err != nil {
			return fmt.Errorf("vault: the key of the tenant: %w", err)
		}
	}
	for {
		r := &rotation{v: v, tenant: tenant}
		set, unfinished := false, false
		err := r.enter(ctx, audit.Key, func(ring *seal.Ring) (string, *seal.Ring, error) {
			_, newest := ring.Newest()
			set, unfinished = ring.URI() == uri, newest == seal.Pending || ring.Retired()
			if set || unfinished {
				return "", nil, nil
			}
			next, err := ring.WithOwn(own)
			if err != nil {
				return "", nil, err
			}
			next, err = next.Add(v.Now())
			return message, next, err
		})
		if err != nil || set && !unfinished {
			return err
		}
		// If an earlier rotation was unfinished, its keys may be in an earlier backup, so
		// it ends before the key is set.
		if err := Rotate(ctx, v, tenant, Options{}); err != nil {
			return err
		}
		if set || !unfinished {
			return r.kept(ctx, func(ring *seal.Ring) bool { return ring.URI() == uri })
		}
	}
}
