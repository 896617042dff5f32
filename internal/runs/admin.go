package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// State is the state of a job.
type State string

// The states of a job.
const (
	Waiting State = "waiting" // for its time, or for a worker
	Running State = "running" // leased by a node
	Dead    State = "dead"    // given up
	// Unreadable is the state of a row that does not open. It never runs.
	Unreadable State = "unreadable"
)

// Info describes a job. It contains nothing of its arguments or result.
type Info struct {
	ID, Reactor uuid.UUID
	State       State
	Step        string // next step: run or deliver
	Attempts    int    // attempts of that step so far
	RunAt       time.Time
	CreatedAt   time.Time
	Ran         Outcome
}

// Filter selects jobs.
type Filter struct {
	Dead   bool      // only dead jobs, or only others
	Before uuid.UUID // only jobs older than this one; zero for the newest
	Size   int       // at most 100; zero means 20
}

// maxPage is the maximum size of a list of jobs, and page the default.
const (
	maxPage = 100
	page    = 20
)

// List returns jobs of the tenant, newest first. It returns fewer than
// requested if they would take much memory.
func List(ctx context.Context, op *core.Op, p Filter) ([]Info, error) {
	p.Size = cmp.Or(p.Size, page)
	if p.Size < 1 || p.Size > maxPage {
		return nil, fault.Field("size", "must be between 1 and %d", maxPage)
	}
	rows, err := op.Vault.Store.Jobs(ctx, storage.JobFilter{Tenant: op.TenantID(), Dead: p.Dead, Before: storage.ID(p.Before), Limit: p.Size})
	if err != nil {
		return nil, err
	}
	list := make([]Info, len(rows))
	for i := range rows {
		if list[i], _, err = info(ctx, op, &rows[i]); core.Unreadable(err) {
			list[i].State = Unreadable
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Retry makes a dead job due again. If several callers retry or discard a
// job, one succeeds and the others get ErrNotFound.
func (r *Runs) Retry(ctx context.Context, op *core.Op, id uuid.UUID) error {
	return r.changeDead(ctx, op, id, func(row *storage.Job, job *Job, ch *storage.Change) (string, error) {
		if job == nil {
			return "", fault.New(fault.ErrConflict, "the job keeps nothing that could be sent again")
		}
		holder := row.Owner
		row.Dead, row.Attempts, row.RunAt, job.Retried = false, 0, op.Now, true
		sealed, err := Seal(op, *row, job)
		ch.UpdateJobs = []storage.JobUpdate{{Owner: holder, Job: sealed}}
		return "Reactor callback retried", err
	})
}

// Discard deletes a dead job with its result.
func (r *Runs) Discard(ctx context.Context, op *core.Op, id uuid.UUID) error {
	return r.changeDead(ctx, op, id, func(row *storage.Job, _ *Job, ch *storage.Change) (string, error) {
		if row.Owner.IsZero() {
			return "", fault.New(fault.ErrConflict, "the job keeps nothing, and is deleted by itself")
		}
		ch.DeleteJobs = []storage.JobDelete{{Owner: row.Owner, ID: row.ID}}
		return "Reactor callback discarded", nil
	})
}

var errNoDead = fault.New(fault.ErrNotFound, "dead job not found")

// change sets the new state of a dead job, and returns the message of its log
// entry.
type change func(*storage.Job, *Job, *storage.Change) (string, error)

func (r *Runs) changeDead(ctx context.Context, op *core.Op, id uuid.UUID, change change) error {
	rows, err := op.Vault.Store.Jobs(ctx, storage.JobFilter{Tenant: op.TenantID(), ID: storage.ID(id), Dead: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 || id == (uuid.UUID{}) {
		return errNoDead
	}
	info, job, err := info(ctx, op, &rows[0])
	if err != nil {
		return err
	}
	ch := op.Change()
	message, err := change(&rows[0], job, ch)
	if err != nil {
		return err
	}
	entry := op.Entry(audit.React, audit.Reactor, info.Reactor.String())
	entry.Message = message
	ch.Logs = []storage.Log{entry}
	defer r.Worker.Wake()
	err = op.Write(ctx, ch)
	if errors.Is(err, storage.ErrStale) {
		return errNoDead // another caller was faster
	}
	return err
}

// info describes a row, and returns its payload, or nil if it was dropped.
func info(ctx context.Context, op *core.Op, row *storage.Job) (Info, *Job, error) {
	id := uuid.UUID(row.ID)
	info := Info{ID: id, State: Waiting, Attempts: row.Attempts, RunAt: row.RunAt}
	sec, nsec := id.Time().UnixTime()
	info.CreatedAt = time.Unix(sec, nsec).UTC()
	switch {
	case row.Dead:
		info.State = Dead
	case row.LeaseUntil.After(op.Now):
		info.State = Running
	}
	job, err := OpenJob(ctx, op, row)
	if err != nil || job == nil {
		return info, nil, err
	}
	info.Reactor, info.Ran, info.Step = job.Reactor, job.Ran, "run"
	if job.Result != nil {
		info.Step = "deliver"
	}
	return info, job, nil
}

// OpenJob returns the payload of a row, or nil if it was dropped.
func OpenJob(ctx context.Context, op *core.Op, row *storage.Job) (*Job, error) {
	if len(row.Payload) == 0 {
		return nil, nil
	}
	location := seal.JobLocation(row.ID)
	plain, err := op.OpenSealed(ctx, &location, row.KeyVersion, row.Payload)
	if err != nil {
		return nil, err
	}
	job := &Job{}
	if err := json.Unmarshal(plain, job); err != nil {
		return nil, errJobFormat
	}
	return job, nil
}

// giveUp marks the job as dead. This node keeps owning it, so that only one
// of several callers can revive or discard it: see [Runs.Retry]. It writes a
// log entry.
func (j *leased) giveUp(ctx context.Context) error {
	if err := j.Refresh(ctx); err != nil {
		return err
	}
	j.row.Dead, j.row.RunAt = true, j.Vault.Now().Add(keepDeadJobs)
	update, err := j.abandoned()
	if err != nil {
		return err
	}
	ch := j.Change()
	ch.UpdateJobs = []storage.JobUpdate{update}
	entry := j.Entry(audit.React, audit.Reactor, j.react.Reactor.String())
	entry.Message = "Reactor callback abandoned"
	ch.Logs = []storage.Log{entry}
	return j.Write(ctx, ch)
}

// abandoned returns the row of a dead job. A result that may contain a cvc,
// or that depends on too many tokens, could not be sent again, so it is
// dropped.
func (j *leased) abandoned() (storage.JobUpdate, error) {
	sawCVC := func(u core.TokenUse) bool { return !u.CVCEnds.IsZero() }
	if j.react.TooMany || slices.ContainsFunc(j.react.Uses, sawCVC) {
		j.row.Payload = nil
		return storage.JobUpdate{Owner: j.row.Owner, Job: j.row}, nil
	}
	row, err := Seal(j.Op, j.row, &j.react)
	return storage.JobUpdate{Owner: j.row.Owner, Job: row, Until: row.RunAt}, err
}
