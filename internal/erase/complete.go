package erase

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// KindReminder is the kind of the records with the ids of erased tokens.
var KindReminder = seal.RecordKind("erasure")

// reminderLife is how long a reminder is kept. It is longer than a run of code can
// take.
const reminderLife = 15 * time.Minute

// rowsAtOnce is the maximum number of rows of one read, and reminderBytes their
// maximum size.
const (
	rowsAtOnce    = 200
	reminderBytes = 16 << 20
)

// reminder lists erased tokens.
type reminder struct {
	Tokens []erased `json:"tokens"`
	// Erasure is not nil while the vault's tree lacks the erasure, because it
	// was part of a transaction of the application.
	Erasure *recorded `json:"erasure,omitempty"`
}

// recorded is an erasure as the vault's tree records it.
type recorded struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
}

type erased struct {
	ID  string    `json:"id"`
	Ord uuid.UUID `json:"ord"`
}

// Complete completes the erasures of all tenants. It deletes stored responses,
// results and jobs that depend on erased tokens.
func Complete(ctx context.Context, v *core.Vault) error {
	seen := map[storage.ID]bool{}
	var errs []error
	for rec, err := range storage.AllRecords(ctx, v.Store, reminders(storage.ID{})) {
		if err == nil && !seen[rec.Tenant] {
			seen[rec.Tenant] = true
			err = completeTenant(ctx, v, rec.Tenant)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// reminders selects the reminders of a tenant, or of all tenants.
func reminders(tenant storage.ID) storage.RecordFilter {
	return storage.RecordFilter{Tenant: tenant, Kind: KindReminder, Limit: rowsAtOnce, MaxBytes: reminderBytes}
}

func completeTenant(ctx context.Context, v *core.Vault, tenant storage.ID) error {
	op := v.System(tenant)
	err := op.Refresh(ctx)
	if errors.Is(err, fault.ErrNotFound) {
		return nil // the tenant and its reminders are being deleted
	}
	if core.KeyDenied(err) && v.Own.Status(uuid.UUID(tenant)) != nil {
		return nil // until the tenant's own key is available again
	}
	if err != nil {
		return err
	}
	return complete(ctx, op, time.Time{})
}

// completion completes the erasures of one tenant.
type completion struct {
	op *core.Op
	// ids are the ids of erased tokens, with the time from which another token may have
	// the id. A job that is newer does not depend on the erased token.
	ids  map[string]time.Time
	ords map[uuid.UUID]bool
	old  []storage.RecordDelete // expired reminders
	// until is when to stop. Zero means never.
	until time.Time
}

// errLater means that the time was over. A sweep continues.
var errLater = errors.New("vault: the rest is left to a sweep")

// complete deletes everything that depends on the erased tokens of the
// operation's tenant. If until is not zero, it stops at that time.
func complete(ctx context.Context, op *core.Op, until time.Time) error {
	s := &completion{op: op, ids: map[string]time.Time{}, ords: map[uuid.UUID]bool{}, until: until}
	err := s.run(ctx)
	if errors.Is(err, errLater) {
		return nil
	}
	return err
}

func (s *completion) run(ctx context.Context) error {
	if err := s.readReminders(ctx); err != nil || len(s.ids) == 0 {
		return err
	}
	if err := s.claims(ctx); err != nil {
		return err
	}
	for _, dead := range []bool{false, true} {
		if err := s.jobs(ctx, dead); err != nil {
			return err
		}
	}
	return s.dropReminders(ctx)
}

// goOn returns errLater if the time is over. It reloads keys that are too
// old.
func (s *completion) goOn(ctx context.Context) error {
	if !s.until.IsZero() && !s.op.Vault.Now().Before(s.until) {
		return errLater
	}
	return s.op.Refresh(ctx)
}

func (s *completion) readReminders(ctx context.Context) error {
	for rec, err := range storage.AllRecords(ctx, s.op.Vault.Store, reminders(s.op.TenantID())) {
		var n reminder
		if err == nil {
			err = s.op.OpenRecord(ctx, rec, &n)
		}
		if core.Unreadable(err) {
			continue // there was an alarm; the other reminders count
		}
		if err != nil {
			return err
		}
		free := rec.CreatedAt.Add(reminderLife)
		for _, t := range n.Tokens {
			s.ords[t.Ord] = true
			if free.After(s.ids[t.ID]) {
				s.ids[t.ID] = free
			}
		}
		if err := s.record(ctx, rec, &n); err != nil {
			return err
		}
		if !free.After(s.op.Vault.Now()) {
			s.old = append(s.old, storage.RecordDelete{Kind: KindReminder, ID: rec.ID, Rev: rec.Rev})
		}
	}
	return nil
}

// record enters the erasure of a committed transaction in the vault's tree. If
// several nodes complete at the same time, only one of them enters it. A reminder that a
// database writer puts back enters nothing, because the tree has its part of the erasure.
func (s *completion) record(ctx context.Context, rec *storage.Record, n *reminder) error {
	e := n.Erasure
	if e == nil {
		return nil
	}
	n.Erasure = nil
	rec.Rev++
	if err := s.op.SealRecord(rec, n); err != nil {
		return err
	}
	ch := s.op.Change()
	ch.UpdateRecords = []storage.RecordUpdate{{Rev: rec.Rev - 1, Record: *rec}}
	err := s.op.Write(ctx, ch)
	if errors.Is(err, storage.ErrStale) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.op.RecordErasure(ctx, &core.RecordedErasure{ID: e.ID, Reason: e.Reason, Count: int64(e.Count), Part: uuid.UUID(rec.ID), Since: rec.CreatedAt})
}

// dropReminders deletes expired reminders. If several nodes complete at the same time,
// only one of them deletes a reminder.
func (s *completion) dropReminders(ctx context.Context) error {
	for _, one := range s.old {
		ch := &storage.Change{Tenant: s.op.TenantID(), Now: s.op.Now, DeleteRecords: []storage.RecordDelete{one}}
		if err := s.op.Vault.Store.Write(ctx, ch); err != nil && !errors.Is(err, storage.ErrStale) {
			return err
		}
	}
	return nil
}

// claims empties stored responses. The key of a claim stays taken, because a
// repeated request must not create the token again.
func (s *completion) claims(ctx context.Context) error {
	filter := storage.SealedFilter{Tenant: s.op.TenantID(), Kind: storage.SealedClaims, Limit: rowsAtOnce}
	for {
		if err := s.goOn(ctx); err != nil {
			return err
		}
		rows, err := s.op.Vault.Store.SealedRows(ctx, filter)
		if err != nil || len(rows) == 0 {
			return err
		}
		filter.After = rows[len(rows)-1].Key
		ch := s.op.Change()
		for i := range rows {
			withdrawn, err := s.withdraw(ctx, &rows[i])
			if err != nil {
				return err
			}
			if withdrawn {
				ch.Reseal = append(ch.Reseal, rows[i])
			}
		}
		if len(ch.Reseal) == 0 {
			continue
		}
		if err := s.op.Write(ctx, ch); err != nil {
			return err
		}
	}
}

// withdraw replaces a stored response that depends on an erased token by an
// empty response, which is never replayed. One that does not open is never replayed
// either, and does not keep the others.
func (s *completion) withdraw(ctx context.Context, row *storage.Sealed) (bool, error) {
	location := seal.ClaimLocation(row.Key)
	plain, err := s.op.OpenSealed(ctx, &location, row.KeyVersion, row.Body)
	if core.Unreadable(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var a core.StoredResponse
	if err := a.Decode(plain); err != nil {
		return false, err
	}
	if !a.On(s.ords) && !s.names(a.Body) && (!a.TooMany || len(a.Body) == 0) {
		return false, nil
	}
	empty, err := json.Marshal(&core.StoredResponse{Status: a.Status, Depends: core.Depends{TooMany: true}})
	if err != nil {
		return false, err
	}
	row.KeyVersion, row.Replace = s.op.State.Ring.Version(), true
	row.Body, err = s.op.Seal(&location, empty)
	return true, err
}

// names reports whether a string in a JSON document is the id of an erased
// token.
func (s *completion) names(text []byte) bool {
	var doc any
	return json.Unmarshal(text, &doc) == nil && s.has(doc)
}

func (s *completion) has(doc any) bool {
	switch x := doc.(type) {
	case string:
		return !s.ids[x].IsZero()
	case []any:
		return slices.ContainsFunc(x, s.has)
	case map[string]any:
		for _, item := range x {
			if s.has(item) {
				return true
			}
		}
	}
	return false
}

// jobs deletes jobs that will use an erased token, or whose result depends on
// one. A node that is running such a job loses it.
func (s *completion) jobs(ctx context.Context, dead bool) error {
	filter := storage.JobFilter{Tenant: s.op.TenantID(), Dead: dead, Limit: rowsAtOnce}
	for {
		if err := s.goOn(ctx); err != nil {
			return err
		}
		rows, err := s.op.Vault.Store.Jobs(ctx, filter)
		if err != nil || len(rows) == 0 {
			return err
		}
		filter.Before = rows[len(rows)-1].ID
		for i := range rows {
			if err := s.job(ctx, &rows[i]); err != nil {
				return err
			}
		}
	}
}

// job deletes a job if it depends on an erased token. If another node has
// just taken the job, it is read again. One that does not open never runs.
func (s *completion) job(ctx context.Context, row *storage.Job) error {
	for range core.MaxAttempts {
		job, err := runs.OpenJob(ctx, s.op, row)
		if core.Unreadable(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if job == nil || !job.On(s.ords) && !s.expressed(row, job.Args) {
			return nil
		}
		ch := s.op.Change()
		ch.DeleteJobs = []storage.JobDelete{{Owner: row.Owner, ID: row.ID}}
		entry := s.op.Entry(audit.React, audit.Reactor, job.Reactor.String())
		entry.Message = audit.JobErased
		ch.Logs = []storage.Log{entry}
		if err = s.op.Write(ctx, ch); !errors.Is(err, storage.ErrStale) {
			return err
		}
		rows, err := s.op.Vault.Store.Jobs(ctx, storage.JobFilter{Tenant: row.Tenant, ID: row.ID, Dead: row.Dead, Limit: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		row = &rows[0]
	}
	return fault.ErrFaster
}

// expressed reports whether the arguments of a job have an expression with an erased
// token.
func (s *completion) expressed(row *storage.Job, args json.RawMessage) bool {
	if args == nil {
		return false
	}
	doc, err := jsonx.Parse(args, runs.Returned)
	if err != nil {
		return false
	}
	tree, err := expr.CompileTokenTree(doc)
	if err != nil {
		return false
	}
	queued := time.Unix(uuid.UUID(row.ID).Time().UnixTime())
	return slices.ContainsFunc(tree.Refs(), func(r expr.Ref) bool { return s.ids[r.ID].After(queued) })
}
