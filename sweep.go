package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Swept counts what a sweep deleted.
type Swept struct {
	Tokens   int // expired
	CVCs     int // whose hour had passed
	Sessions int // expired
	Logs     int // entries of the audit log, older than Config.LogRetention
}

// sweepChunk bounds how many rows one change of a sweep touches.
const sweepChunk = 200

// Sweep deletes what has expired: tokens, cvcs, sessions, idempotency records,
// what is left of deleted tenants, and of callbacks that were given up 30 days
// ago; and then entries of the audit log that are older than Config.LogRetention,
// two million at most. The vault sweeps by itself every Config.SweepEvery;
// several nodes may do so at once. A node whose clock is more than 30 seconds from
// the database's only finishes the deletion of tenants: see [Vault.ClockAhead].
func (v *Vault) Sweep(ctx context.Context) (swept Swept, err error) {
	ctx, end := v.observe(ctx, WorkSweep, "sweep", uuid.UUID{}, uuid.UUID{})
	defer func() { end(err) }()
	if err := v.core.Skew.Err(); err != nil {
		return swept, errors.Join(err, v.sweepTombstones(ctx))
	}
	// What fails for one row does not keep the rest from being deleted.
	errs := []error{v.sweepExpired(ctx, &swept), v.sweepTombstones(ctx), v.sweepStore(ctx), v.sweepLogs(ctx, &swept)}
	return swept, errors.Join(errs...)
}

// sweepStore lets the storage delete what it can without the vault.
func (v *Vault) sweepStore(ctx context.Context) error {
	for {
		more, err := v.store.Sweep(ctx, v.core.Now(), sweepChunk)
		if err != nil || !more {
			return err
		}
	}
}

func (v *Vault) sweepExpired(ctx context.Context, swept *Swept) error {
	for {
		due, err := v.store.Expired(ctx, v.core.Now(), sweepChunk)
		if err != nil || len(due.Tokens)+len(due.CVCs)+len(due.Records) == 0 {
			return err
		}
		if err := v.sweepDue(ctx, due, swept); err != nil {
			return err
		}
	}
}

func (v *Vault) sweepDue(ctx context.Context, due storage.Expired, swept *Swept) error {
	if err := v.expireTokens(ctx, due.Tokens, v.store.Write); err != nil {
		return err
	}
	if err := v.dropCVCs(ctx, due.CVCs); err != nil {
		return err
	}
	if err := v.expireRecords(ctx, due.Records); err != nil {
		return err
	}
	swept.Tokens += len(due.Tokens)
	swept.CVCs += len(due.CVCs)
	swept.Sessions += len(due.Records)
	return nil
}

// system returns an operation of the vault itself for a tenant.
func (v *Vault) system(tenant storage.ID) *operation {
	return &operation{v.core.System(tenant), v}
}

// expireTokens deletes rows, with a log entry each.
func (v *Vault) expireTokens(ctx context.Context, rows []storage.Token, write writeFunc) error {
	return eachTenant(ctx, v, write, rows, func(r *storage.Token) storage.ID { return r.Tenant }, func(op *operation, ch *storage.Change, r *storage.Token) {
		ch.DeleteTokens = append(ch.DeleteTokens, tokens.Deletion(r))
		ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Type, r.ID))
	})
}

// dropCVCs removes cvcs from rows. The rest of a row stays sealed as it is, so
// no key is needed.
func (v *Vault) dropCVCs(ctx context.Context, rows []storage.Token) error {
	return eachTenant(ctx, v, v.store.Write, rows, func(r *storage.Token) storage.ID { return r.Tenant }, func(op *operation, ch *storage.Change, r *storage.Token) {
		row := *r
		row.CVC, row.CVCExpiresAt = nil, time.Time{}
		ch.UpdateTokens = append(ch.UpdateTokens, storage.TokenUpdate{Rev: r.Rev, OldSet: r.Set, Token: row, KeepHashes: true})
		e := op.Entry(audit.Expire, r.Type, r.ID)
		e.Message = "Card cvc expired"
		ch.Logs = append(ch.Logs, e)
	})
}

// expireRecords deletes records, with a log entry each.
func (v *Vault) expireRecords(ctx context.Context, recs []storage.Record) error {
	return eachTenant(ctx, v, v.store.Write, recs, func(r *storage.Record) storage.ID { return r.Tenant }, func(op *operation, ch *storage.Change, r *storage.Record) {
		ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: r.Kind, ID: r.ID, Rev: r.Rev})
		ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Kind, uuid.UUID(r.ID).String()))
	})
}

// writeFunc applies a change.
type writeFunc = func(context.Context, *storage.Change) error

// eachTenant writes one change for each tenant that has rows. If another node
// was faster with some of them, the rest is written row by row.
func eachTenant[T any](ctx context.Context, v *Vault, apply writeFunc, rows []T, tenant func(*T) storage.ID, add func(*operation, *storage.Change, *T)) error {
	groups := map[storage.ID][]*T{}
	for i := range rows {
		t := tenant(&rows[i])
		groups[t] = append(groups[t], &rows[i])
	}
	write := func(t storage.ID, rows []*T) error {
		op := v.system(t)
		ch := op.Change()
		for _, r := range rows {
			add(op, ch, r)
		}
		return apply(ctx, ch)
	}
	for t, group := range groups {
		err := write(t, group)
		if !errors.Is(err, storage.ErrStale) {
			if err != nil {
				return err
			}
			continue
		}
		for i := range group {
			if err := write(t, group[i:i+1]); err != nil && !errors.Is(err, storage.ErrStale) {
				return err
			}
		}
	}
	return nil
}

// sweepTombstones goes on with the deletion of tenants that was cut off, and
// deletes what was written to deleted ones by nodes that did not know.
func (v *Vault) sweepTombstones(ctx context.Context) error {
	filter := storage.RecordFilter{Kind: kindTombstone, Limit: sweepChunk}
	for {
		recs, _, err := v.store.ListRecords(ctx, filter)
		if err != nil || len(recs) == 0 {
			return err
		}
		for i := range recs {
			if err := v.sweepTombstone(ctx, &recs[i]); err != nil {
				return err
			}
		}
		filter.Before = recs[len(recs)-1].ID
	}
}

func (v *Vault) sweepTombstone(ctx context.Context, r *storage.Record) error {
	if !r.Tenant.IsZero() {
		return v.purge(ctx, r.Tenant)
	}
	if err := v.purgeRows(ctx, r.ID); err != nil || r.CreatedAt.Add(v.horizon).After(v.core.Now()) {
		return err
	}
	err := v.store.Write(ctx, &storage.Change{Now: v.core.Now(), DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}})
	if errors.Is(err, storage.ErrStale) {
		return nil // another node was faster
	}
	return err
}

// sweepLoop sweeps until the vault is closed.
func (v *Vault) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(v.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := v.Sweep(ctx); err != nil && ctx.Err() == nil {
				v.cfg.Logger.ErrorContext(ctx, "sweep failed", "error", err)
			}
		}
	}
}

// minLogRetention is the shortest Config.LogRetention. The newest entries are
// also how a write that lost its connection finds out whether it was committed.
const minLogRetention = 24 * time.Hour

func checkLogRetention(d time.Duration) error {
	if d != 0 && d < minLogRetention {
		return fmt.Errorf("vault: Config.LogRetention is %s; it must be 0, which keeps the log forever, or at least %s", d, minLogRetention)
	}
	return nil
}

const (
	// maxLogPieces bounds what one sweep deletes of the log, to two million
	// entries, so that what expires does not wait for a large backlog.
	maxLogPieces = 10_000
	// maxLogFailures is for how many tenants it may fail before a sweep leaves
	// the others to the next one.
	maxLogFailures = 10
)

// sweepLogs deletes the log entries whose retention is over, tenant by tenant.
// What fails for one tenant does not keep the others' from being deleted.
func (v *Vault) sweepLogs(ctx context.Context, swept *Swept) error {
	if v.cfg.LogRetention == 0 {
		return nil
	}
	before := v.core.Now().Add(-v.cfg.LogRetention)
	pieces := maxLogPieces
	var errs []error
	for after := (storage.ID{}); ; {
		tenants, err := v.store.LogTenants(ctx, before, after, sweepChunk)
		if err != nil || len(tenants) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for _, tenant := range tenants {
			if err := v.deleteLogs(ctx, tenant, before, &pieces, swept); err != nil {
				errs = append(errs, fmt.Errorf("deleting log entries of tenant %s: %w", uuid.UUID(tenant), err))
			}
			if pieces == 0 || len(errs) == maxLogFailures {
				return errors.Join(errs...)
			}
		}
		after = tenants[len(tenants)-1]
	}
}

// deleteLogs deletes the entries of a tenant, in no more pieces than are left.
func (v *Vault) deleteLogs(ctx context.Context, tenant storage.ID, before time.Time, pieces *int, swept *Swept) error {
	for *pieces > 0 {
		*pieces--
		n, err := v.store.DeleteLogs(ctx, tenant, before, sweepChunk)
		swept.Logs += n
		if err != nil || n < sweepChunk {
			return err
		}
	}
	return nil
}
