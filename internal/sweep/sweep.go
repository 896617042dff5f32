// Package sweep deletes expired data: tokens, cvcs and sessions that have
// expired, log entries past their retention, and the rows of deleted tenants.
//
// It promises that a row is opened before it is deleted as expired, so that a changed
// time in the database does not make the vault delete a row. A row that does not open
// stays, and is counted. Each deletion of a token has its log entry.
// Several nodes may sweep at once, and an error in one tenant does not stop the others.
//
// It rests on package core for changes and on package ledger, which enters what was
// deleted from the log. Expired rows are invisible to every call before they are swept.
//
// Begin with [Run]. The deletion of a tenant is in tenant.go: its keys go first, and
// its rows afterwards.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/storage"
)

// Swept counts the deletions of a sweep.
type Swept struct {
	Tokens   int // expired
	CVCs     int // expired after an hour
	Sessions int // expired
	Logs     int // entries of the audit log past their retention
	Unopened int // rows that stay, because they do not open
}

// chunk is the maximum number of rows in one change.
const chunk = 200

// sweep is a sweep in progress.
type sweep struct {
	v      *core.Vault
	r      Retention
	ledger *ledger.Ledger // while log entries are deleted; may be nil
	swept  Swept
	errs   []error // of tenants, while expired rows are deleted
	purges int     // pieces of deleted tenants that may still be deleted
	// locked are tenants whose keys cannot be read. The value is false for a
	// tenant that is being deleted.
	locked map[storage.ID]bool
}

// Retention is how long log entries are kept.
type Retention struct {
	Keep time.Duration // zero for forever
	// Before, if not nil, returns the time before which entries of a tenant
	// may be deleted: the given time, or an earlier one.
	Before func(ctx context.Context, tenant storage.ID, before time.Time) (time.Time, error)
	// Ledger, if set, returns the ledger that deletions are entered in, which may be
	// nil, and a function that ends its use.
	Ledger func(ctx context.Context) (*ledger.Ledger, func(), error)
}

// Run deletes expired rows, at most two million log entries past their retention,
// and at most five million rows of deleted tenants. Several nodes may sweep at the
// same time. A node whose clock is wrong only completes the deletion of
// tenants.
func Run(ctx context.Context, v *core.Vault, r Retention) (Swept, error) {
	s := &sweep{v: v, r: r, locked: map[storage.ID]bool{}, purges: maxPurges}
	if err := v.Skew.Err(); err != nil {
		return s.swept, errors.Join(err, s.tombstones(ctx))
	}
	// An error in one step does not stop the others. Deleted tenants come last,
	// because they may have many rows, and nothing can read those.
	err := errors.Join(s.expired(ctx), s.store(ctx), s.logs(ctx), s.tombstones(ctx))
	return s.swept, err
}

// store lets the storage delete rows that need no log entry.
func (s *sweep) store(ctx context.Context) error {
	for {
		more, err := s.v.Store.Sweep(ctx, s.v.Now(), chunk)
		if err != nil || !more {
			return err
		}
	}
}

// tombstones continues interrupted deletions of tenants. It also deletes rows
// that nodes wrote before they knew of the deletion.
func (s *sweep) tombstones(ctx context.Context) error {
	for rec, err := range storage.AllRecords(ctx, s.v.Store, storage.RecordFilter{Kind: keyring.KindTombstone, Limit: chunk}) {
		if err == nil {
			err = s.tombstone(ctx, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tombstone deletes the rows of a tenant whose keys no longer exist. A tenant that
// has its keys was not deleted, so its tombstone is invented.
func (s *sweep) tombstone(ctx context.Context, r *storage.Record) error {
	tenant := r.ID
	if !r.Tenant.IsZero() {
		tenant = r.Tenant
	}
	rings, err := s.v.Store.Records(ctx, tenant, keyring.KindRing, []storage.ID{tenant})
	if err != nil {
		return err
	}
	if len(rings) > 0 {
		_ = s.v.Alarm(ctx, core.AlarmAltered, uuid.UUID(tenant), core.Entity{Type: r.Kind, ID: uuid.UUID(r.ID).String()}, fault.ErrAltered)
		return nil
	}
	if !r.Tenant.IsZero() {
		return purge(ctx, s.v, r.Tenant, &s.purges)
	}
	if more, err := purgeRows(ctx, s.v, r.ID, &s.purges); err != nil || more || r.CreatedAt.Add(keyring.Horizon).After(s.v.Now()) {
		return err
	}
	err = s.v.Store.Write(ctx, &storage.Change{Now: s.v.Now(), DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}})
	if errors.Is(err, storage.ErrStale) {
		return nil // another node was faster
	}
	return err
}

const (
	// maxLogPieces limits the log entries that one sweep deletes to two
	// million, so that expired data does not wait for a large backlog.
	maxLogPieces = 10_000
	// maxPurges limits the rows of deleted tenants that one sweep deletes to five
	// million, so that the next sweep does not wait for long.
	maxPurges = 1000
	// maxFailures is the number of tenants that may fail before a sweep leaves
	// the others to the next one.
	maxFailures = 10
)

// logs deletes log entries past their retention, tenant by tenant. A failure
// for one tenant does not stop the others.
func (s *sweep) logs(ctx context.Context) error {
	if s.r.Keep == 0 {
		return nil
	}
	if s.r.Ledger != nil {
		l, done, err := s.r.Ledger(ctx)
		if err != nil {
			return err
		}
		defer done()
		s.ledger = l
	}
	before := s.v.Now().Add(-s.r.Keep)
	pieces := maxLogPieces
	var errs []error
	for after := (storage.ID{}); ; {
		tenants, err := s.v.Store.LogTenants(ctx, before, after, chunk)
		if err != nil || len(tenants) == 0 {
			return errors.Join(append(errs, err)...)
		}
		for _, tenant := range tenants {
			if err := s.deleteLogs(ctx, tenant, before, &pieces); err != nil {
				errs = append(errs, fmt.Errorf("deleting log entries of tenant %s: %w", uuid.UUID(tenant), err))
			}
			if pieces == 0 || len(errs) == maxFailures {
				return errors.Join(errs...)
			}
		}
		after = tenants[len(tenants)-1]
	}
}

// deleteLogs deletes the entries of a tenant, in at most the remaining
// pieces.
func (s *sweep) deleteLogs(ctx context.Context, tenant storage.ID, before time.Time, pieces *int) error {
	if s.r.Before != nil {
		var err error
		if before, err = s.r.Before(ctx, tenant, before); err != nil {
			return err
		}
	}
	if l := s.ledger; l != nil {
		allowed, err := l.Retain(ctx, uuid.UUID(tenant), before)
		if err != nil {
			return err
		}
		if allowed.Before(before) {
			before = allowed
		}
	}
	for *pieces > 0 {
		*pieces--
		n, err := s.v.Store.DeleteLogs(ctx, tenant, before, chunk)
		s.swept.Logs += n
		if err != nil || n < chunk {
			return err
		}
	}
	return nil
}
