package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/kept"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// RunOutcome says how a run of tenants' code went. It holds nothing that the code
// was given or wrote.
type RunOutcome struct {
	// Status is what a REST call would have been answered with: 200, or the status
	// of the error. Zero means that the code has not run.
	Status int `json:"status,omitempty"`
	// Took is how long it ran.
	Took time.Duration `json:"took,omitempty"`
	// Line is the line of the code at which the error arose; 0 for none.
	Line int `json:"line,omitempty"`
}

// outcomeOf describes a run that gave this error, or none.
func outcomeOf(err error, took time.Duration) RunOutcome {
	out := RunOutcome{Status: 200, Took: took}
	if err == nil {
		return out
	}
	out.Status = hostError(err).Status
	if line, ok := ErrorLine(err); ok {
		out.Line = line
	}
	return out
}

// ErrorLine returns the line of tenants' code at which an error of a run arose.
func ErrorLine(err error) (line int, ok bool) {
	var failed *script.Error
	if !errors.As(err, &failed) || len(failed.Frames) == 0 {
		return 0, false
	}
	return failed.Frames[0].Line, true
}

// JobInfo describes an asynchronous run: see [Client.ReactAsync]. It holds nothing
// of its arguments or its result.
type JobInfo struct {
	ID        uuid.UUID `json:"id"`
	ReactorID uuid.UUID `json:"reactor_id,omitzero"`
	State     JobState  `json:"state"`
	// Step is what is done next: run, or deliver.
	Step     string `json:"step,omitempty"`
	Attempts int    `json:"attempts"` // of that step, so far
	// RunAt is when the step is due, and for a dead job when it is deleted.
	RunAt     time.Time `json:"run_at"`
	CreatedAt time.Time `json:"created_at"`
	// Ran is how the run went, once it is over.
	Ran RunOutcome `json:"ran,omitzero"`
}

// JobState is where a job is in its life.
type JobState string

// The states of a job.
const (
	JobWaiting JobState = "waiting" // for its time, or for a worker
	JobRunning JobState = "running" // a node has it
	JobDead    JobState = "dead"    // given up; it can be retried for 30 days
)

// ListJobsParams asks for jobs.
type ListJobsParams struct {
	Dead   bool      // those that were given up, or those that were not
	Before uuid.UUID // jobs that are older than this one; zero for the newest
	Size   int       // at most 100; zero means 20
}

// maxJobPage bounds a list of jobs, and jobPage is its default.
const (
	maxJobPage = 100
	jobPage    = 20
)

// ListJobs returns jobs of the tenant, newest first; fewer than asked for when
// they would take much memory. Only the tenant itself may list them: see
// [Vault.Tenant].
func (c *Client) ListJobs(ctx context.Context, p ListJobsParams) ([]JobInfo, error) {
	return run(ctx, c, &verbListJobs, func(ctx context.Context, op *operation) ([]JobInfo, error) { return op.listJobs(ctx, p) })
}

func (op *operation) listJobs(ctx context.Context, p ListJobsParams) ([]JobInfo, error) {
	p.Size = cmp.Or(p.Size, jobPage)
	if p.Size < 1 || p.Size > maxJobPage {
		bad := &form.Problems{}
		bad.Add("size", "must be between 1 and %d", maxJobPage)
		return nil, fault.Of(bad)
	}
	rows, err := op.Vault.Store.Jobs(ctx, storage.JobFilter{Tenant: op.TenantID(), Dead: p.Dead, Before: storage.ID(p.Before), Limit: p.Size})
	if err != nil {
		return nil, err
	}
	list := make([]JobInfo, len(rows))
	for i := range rows {
		if list[i], _, err = op.jobInfo(ctx, &rows[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// RetryJob makes a dead job due again: its result is sent as if for the first
// time. When tokens that it was made of are gone or changed, or those who used
// them may no longer see them, the callback says so instead, as a stored answer
// would. Of several who retry or discard a job, one succeeds, and the others get
// ErrNotFound. Only the tenant itself may do it, and the log has an entry.
func (c *Client) RetryJob(ctx context.Context, id uuid.UUID) error {
	return c.changeDeadJob(ctx, &verbRetryJob, id, func(op *operation, row *storage.Job, job *reactJob, ch *storage.Change) (string, error) {
		if job == nil {
			return "", fault.New(ErrConflict, "The job keeps nothing that could be sent again.")
		}
		holder := row.Owner
		row.Dead, row.Attempts, row.RunAt, job.Retried = false, 0, op.Now, true
		sealed, err := op.job(*row, job)
		ch.UpdateJobs = []storage.JobUpdate{{Owner: holder, Job: sealed}}
		return "Reactor callback retried", err
	})
}

// DiscardJob deletes a dead job with its result. See [Client.RetryJob] about who
// may, and about others who do the same.
func (c *Client) DiscardJob(ctx context.Context, id uuid.UUID) error {
	return c.changeDeadJob(ctx, &verbDiscardJob, id, func(_ *operation, row *storage.Job, _ *reactJob, ch *storage.Change) (string, error) {
		if row.Owner.IsZero() {
			return "", fault.New(ErrConflict, "The job keeps nothing, and is deleted by itself.")
		}
		ch.DeleteJobs = []storage.JobDelete{{Owner: row.Owner, ID: row.ID}}
		return "Reactor callback discarded", nil
	})
}

var errNoDeadJob = fault.New(ErrNotFound, "There is no such dead job.")

// changeDeadJob lets change describe what becomes of a dead job, and the message
// of its entry in the log.
func (c *Client) changeDeadJob(ctx context.Context, verb *core.Verb, id uuid.UUID, change jobChange) error {
	return runErr(ctx, c, verb, func(ctx context.Context, op *operation) error { return op.changeDeadJob(ctx, id, change) })
}

// jobChange describes what becomes of a dead job, and the message of its entry in
// the log.
type jobChange func(*operation, *storage.Job, *reactJob, *storage.Change) (string, error)

func (op *operation) changeDeadJob(ctx context.Context, id uuid.UUID, change jobChange) error {
	rows, err := op.Vault.Store.Jobs(ctx, storage.JobFilter{Tenant: op.TenantID(), ID: storage.ID(id), Dead: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 || id == (uuid.UUID{}) {
		return errNoDeadJob
	}
	info, job, err := op.jobInfo(ctx, &rows[0])
	if err != nil {
		return err
	}
	ch := op.Change()
	message, err := change(op, &rows[0], job, ch)
	if err != nil {
		return err
	}
	entry := op.Entry(audit.React, kindReactor, info.ReactorID.String())
	entry.Message = message
	ch.Logs = []storage.Log{entry}
	defer op.v.worker.Wake()
	if err := op.Write(ctx, ch); errors.Is(err, storage.ErrStale) {
		return errNoDeadJob // another was faster
	} else if err != nil {
		return err
	}
	return nil
}

// jobInfo describes a row, and returns what it holds; nil when nothing is left.
func (op *operation) jobInfo(ctx context.Context, row *storage.Job) (JobInfo, *reactJob, error) {
	id := uuid.UUID(row.ID)
	info := JobInfo{ID: id, State: JobWaiting, Attempts: row.Attempts, RunAt: row.RunAt}
	sec, nsec := id.Time().UnixTime()
	info.CreatedAt = time.Unix(sec, nsec).UTC()
	switch {
	case row.Dead:
		info.State = JobDead
	case row.LeaseUntil.After(op.Now):
		info.State = JobRunning
	}
	if len(row.Payload) == 0 {
		return info, nil, nil
	}
	place := sealed.JobPlace(row.ID)
	plain, err := op.Open(ctx, &place, row.KeyVersion, row.Payload)
	if err != nil {
		return info, nil, err
	}
	job := &reactJob{}
	if err := json.Unmarshal(plain, job); err != nil {
		return info, nil, errJobFormat
	}
	info.ReactorID, info.Ran, info.Step = job.Reactor, job.Ran, "run"
	if job.Result != nil {
		info.Step = "deliver"
	}
	return info, job, nil
}

// giveUp marks the job as dead. It stays held, by this node, so that of several
// who revive or discard it one succeeds: see [Client.RetryJob]. It leaves an entry
// in the log.
func (j *leasedJob) giveUp(ctx context.Context) error {
	if err := j.Refresh(ctx); err != nil {
		return err
	}
	j.row.Dead, j.row.RunAt = true, j.v.core.Now().Add(keepDeadJobs)
	update, err := j.abandoned()
	if err != nil {
		return err
	}
	ch := j.Change()
	ch.UpdateJobs = []storage.JobUpdate{update}
	entry := j.Entry(audit.React, kindReactor, j.react.Reactor.String())
	entry.Message = "Reactor callback abandoned"
	ch.Logs = []storage.Log{entry}
	return j.Write(ctx, ch)
}

// abandoned is what is kept of a dead job. A result that may hold a cvc, or that
// depends on more tokens than are known, could not be sent again, so it goes.
func (j *leasedJob) abandoned() (storage.JobUpdate, error) {
	sawCVC := func(u kept.Use) bool { return !u.CVCEnds.IsZero() }
	if j.react.TooMany || slices.ContainsFunc(j.react.Uses, sawCVC) {
		j.row.Payload = nil
		return storage.JobUpdate{Owner: j.v.worker.Owner, Job: j.row}, nil
	}
	row, err := j.job(j.row, &j.react)
	return storage.JobUpdate{Owner: j.v.worker.Owner, Job: row, Until: row.RunAt}, err
}
