package vault

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/webhook"
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

// ErrorLine returns the line of tenants' code at which an error of a run arose.
func ErrorLine(err error) (line int, ok bool) { return runs.ErrorLine(err) }

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

// ListJobs returns jobs of the tenant, newest first; fewer than asked for when
// they would take much memory. Only the tenant itself may list them: see
// [Vault.Tenant].
func (c *Client) ListJobs(ctx context.Context, p ListJobsParams) ([]JobInfo, error) {
	return run(ctx, c, &verbListJobs, func(ctx context.Context, op *operation) ([]JobInfo, error) {
		found, err := runs.List(ctx, op.Op, runs.Filter(p))
		if err != nil {
			return nil, err
		}
		list := make([]JobInfo, len(found))
		for i, j := range found {
			list[i] = JobInfo{ID: j.ID, ReactorID: j.Reactor, State: JobState(j.State), Step: j.Step, Attempts: j.Attempts,
				RunAt: j.RunAt, CreatedAt: j.CreatedAt, Ran: RunOutcome(j.Ran)}
		}
		return list, nil
	})
}

// RetryJob makes a dead job due again: its result is sent as if for the first
// time. When tokens that it was made of are gone or changed, or those who used
// them may no longer see them, the callback says so instead, as a stored answer
// would. Of several who retry or discard a job, one succeeds, and the others get
// ErrNotFound. Only the tenant itself may do it, and the log has an entry.
func (c *Client) RetryJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbRetryJob, func(ctx context.Context, op *operation) error { return c.v.runs.Retry(ctx, op.Op, id) })
}

// DiscardJob deletes a dead job with its result. See [Client.RetryJob] about who
// may, and about others who do the same.
func (c *Client) DiscardJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbDiscardJob, func(ctx context.Context, op *operation) error { return c.v.runs.Discard(ctx, op.Op, id) })
}

// Work carries out the jobs that are due (asynchronous runs and their
// callbacks) and returns when none is left. The vault does so by itself every
// Config.WorkEvery; any node may do any job.
func (v *Vault) Work(ctx context.Context) error { return v.runs.Worker.Work(ctx) }

// VerifyWebhook is for the receivers of callbacks: it returns nil when a request
// with this header and body was signed with the tenant's webhook secret within
// the last 5 minutes, and else an error that matches [ErrWebhook]. The body must
// be the bytes as they arrived.
//
// While a secret is being rotated callbacks carry two signatures, and either of
// the two secrets does. A callback may arrive more than once: its webhook-id, which
// is the ID of the [Job], stays the same.
func VerifyWebhook(secret string, header http.Header, body []byte) error {
	if err := webhook.Verify(secret, header, body, time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	return nil
}
