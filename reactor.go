package vault

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/internal/webhook"
	"github.com/seed-72ea4aab/vault/script"
)

// Reactor is code of a tenant that runs with detokenized arguments. Code and
// configuration are not shown when it is printed or logged, except as JSON and
// in unexported fields: see the package comment.
type Reactor struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name,omitempty"`
	Code     string    `json:"code,omitempty"`
	// Configuration holds names and values that the code is given. It is sealed
	// at rest.
	Configuration map[string]string `json:"configuration,omitzero"`
	// Application is the one that the code's client acts as.
	Application *ApplicationRef `json:"application,omitempty"`
	CreatedBy   uuid.UUID       `json:"created_by,omitzero"`
	CreatedAt   time.Time       `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID       `json:"modified_by,omitzero"`
	ModifiedAt  time.Time       `json:"modified_at,omitzero"`
	// Unreadable is set in lists for a reactor whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ApplicationRef names an application.
type ApplicationRef struct {
	ID uuid.UUID `json:"id"`
}

// ReactorParams describes a reactor. All but Application is required;
// Configuration may be empty, but not nil. Printed or logged it shows its name
// alone, except as JSON and in unexported fields: see the package comment.
type ReactorParams struct {
	Name          string            `json:"name"`
	Code          string            `json:"code"`
	Configuration map[string]string `json:"configuration"`
	Application   *ApplicationRef   `json:"application,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *ReactorParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in runs.ReactorParams
		in.Read(r)
		*p = ReactorParams{in.Name, in.Code, in.Configuration, (*ApplicationRef)(in.Application)}
	})
}

// Params returns what describes the reactor, to be changed and given to
// [Client.ReplaceReactor].
func (r *Reactor) Params() ReactorParams {
	p := ReactorParams{Name: r.Name, Code: r.Code, Configuration: maps.Clone(r.Configuration)}
	if r.Application != nil {
		p.Application = &ApplicationRef{r.Application.ID}
	}
	return p
}

// inside returns the parameters as rooms read them.
func (p *ReactorParams) inside() *runs.ReactorParams {
	return &runs.ReactorParams{Name: p.Name, Code: p.Code, Configuration: p.Configuration, Application: (*runs.Application)(p.Application)}
}

// Same reports whether p and q describe the same reactor.
func (p ReactorParams) Same(q ReactorParams) bool { return p.inside().Same(q.inside()) }

// reactorOf returns a reactor of a room.
func reactorOf(r *runs.Reactor) *Reactor {
	return &Reactor{
		ID: r.ID, TenantID: r.TenantID, Name: r.Name, Code: r.Code, Configuration: r.Configuration, Application: (*ApplicationRef)(r.Application),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, ModifiedBy: r.ModifiedBy, ModifiedAt: r.ModifiedAt, Unreadable: r.Unreadable,
	}
}

// CreateReactor adds a reactor (permission reactor:create). Code that cannot be
// used is ErrCode, and a [*script.Error] whose Messages say what is wrong with it.
func (c *Client) CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return runTo(ctx, c, &verbs.CreateReactor, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.CreateReactor(ctx, op, p.inside())
	})
}

// EnsureReactor returns the reactor that has the name of p, and creates it when
// there is none (permissions reactor:read, and reactor:create when it is
// missing). Programs that start together get the same one. A reactor that exists
// is returned as it is, whatever else p says: [Client.ApplyReactor] changes it.
func (c *Client) EnsureReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return runTo(ctx, c, &verbs.EnsureReactor, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		r, _, err := c.v.runs.EnsureReactor(ctx, op, p.inside())
		return r, err
	})
}

// ApplyReactor makes the reactor with the name of p what p says, as
// [Client.ApplyApplication] does for applications (permissions reactor:read, and
// reactor:create or reactor:update when something is to be done).
func (c *Client) ApplyReactor(ctx context.Context, p ReactorParams) (*Applied[Reactor], error) {
	return applied(ctx, c, &verbs.ApplyReactor, reactorOf,
		func(ctx context.Context, op *core.Op) (*runs.Reactor, bool, error) {
			return c.v.runs.EnsureReactor(ctx, op, p.inside())
		},
		func(r *Reactor) bool { return r.Params().Same(p) },
		func(r *Reactor) (*Reactor, error) { return c.ReplaceReactor(ctx, r.ID, p) })
}

// GetReactor returns a reactor (permission reactor:read).
func (c *Client) GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error) {
	return runTo(ctx, c, &verbs.GetReactor, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return runs.Reactors.Get(ctx, op, id)
	})
}

// ListReactorsParams filters reactors. Zero fields filter nothing.
type ListReactorsParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// ReactorFilter is [ListReactorsParams] without a page, for [Client.AllReactors].
type ReactorFilter struct {
	IDs  []uuid.UUID
	Name string
}

// ListReactors returns a page of reactors, newest first (permission
// reactor:read).
func (c *Client) ListReactors(ctx context.Context, p ListReactorsParams) (*Page[Reactor], error) {
	return listRecords(ctx, c, &verbs.ListReactors, &runs.Reactors, reactorOf, records.List[runs.Reactor]{IDs: p.IDs, Name: p.Name}, p.PageParams)
}

// AllReactors iterates over all reactors that meet the filter, newest first
// (permission reactor:read): see [Client.AllTokens].
func (c *Client) AllReactors(ctx context.Context, f ReactorFilter) iter.Seq2[*Reactor, error] {
	return allRecords(ctx, c, &verbs.AllReactors, &runs.Reactors, reactorOf, records.List[runs.Reactor]{IDs: f.IDs, Name: f.Name})
}

// ReplaceReactor replaces everything of a reactor (permission reactor:update).
func (c *Client) ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error) {
	return runTo(ctx, c, &verbs.ReplaceReactor, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.ReplaceReactor(ctx, op, id, p.inside())
	})
}

// PatchReactor changes a reactor by a JSON merge patch (RFC 7386) of its
// parameters, which [EncodeJSON] reads (permission reactor:update).
func (c *Client) PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*Reactor, error) {
	return runTo(ctx, c, &verbs.PatchReactor, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.PatchReactor(ctx, op, id, plainJSON(patch))
	})
}

// DeleteReactor deletes a reactor (permission reactor:delete).
func (c *Client) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &verbs.DeleteReactor, func(ctx context.Context, op *core.Op) error { return runs.Reactors.Delete(ctx, op, id, nil) })
}

// ReactParams invokes a reactor. What it holds is not shown when it is printed or
// logged, except as JSON and in unexported fields: see the package comment.
type ReactParams struct {
	// Args is an object that may hold detokenization expressions, or one
	// expression that gives an object.
	Args any `json:"args,omitempty"`
	// CallbackURL is where [Client.ReactAsync] has the result sent. [Client.React]
	// takes none.
	CallbackURL string `json:"callback_url,omitempty"`
	// Timeout bounds a run of ReactAsync: 10 to 210 seconds, by default 10. JSON
	// has it as timeout_ms, in milliseconds. React takes none.
	Timeout time.Duration `json:"timeout_ms,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError]. callbackUrl and timeoutMs, which other
// clients of this family of APIs send, are read as callback_url and timeout_ms;
// only one of the two may be given.
func (p *ReactParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		if v := r.Value("args"); !v.IsZero() {
			p.Args = v
		}
		p.CallbackURL = r.OptionalText(r.Spelling("callback_url", "callbackUrl"))
		if ms, ok := r.Int(r.Spelling("timeout_ms", "timeoutMs")); ok {
			p.Timeout = -1 // given, and out of bounds
			if most := int(runs.MaxTimeout / time.Millisecond); ms > 0 && ms <= most {
				p.Timeout = time.Duration(ms) * time.Millisecond
			}
		}
	})
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p ReactParams) MarshalJSON() ([]byte, error) {
	args, err := parseJSON("args", p.Args)
	if err != nil {
		return nil, public(err)
	}
	w := &form.Writer{}
	w.Value("args", args)
	w.Text("callback_url", p.CallbackURL)
	ms := int(p.Timeout / time.Millisecond)
	if ms == 0 && p.Timeout != 0 {
		ms = -1 // out of bounds, and not absent
	}
	w.Int("timeout_ms", ms)
	return w.JSON(), nil
}

// ReactResult is what a reactor gave. Like [ReactParams], it does not print.
type ReactResult struct {
	// Tokens is the tokenize part of the result, tokenized as the caller.
	Tokens JSON `json:"tokens,omitempty"`
	// Raw is the raw part of the result, in clear.
	Raw JSON `json:"raw,omitempty"`
}

// React runs a reactor with detokenized arguments (permission token:use, also
// on each container of the tokens that args name). What its code returns as
// tokenize is tokenized as the caller, who needs token:create for it. An error
// that the code throws is a [*script.Error], whose Messages have its text.
//
// A run takes at most 10 seconds. [Client.ReactAsync] is for longer ones, and for
// those whose caller does not wait.
func (c *Client) React(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error) {
	return run(ctx, c, &verbs.React, func(ctx context.Context, op *core.Op) (*ReactResult, error) {
		out, err := c.v.runs.Now(ctx, op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &ReactResult{JSON(out.Tokens), JSON(out.Raw)}, nil
	})
}

// internal returns the parameters as package runs takes them.
func (p *ReactParams) internal() runs.Params {
	return runs.Params{Args: plainJSON(p.Args), CallbackURL: p.CallbackURL, Timeout: p.Timeout}
}

// Job is a run that [Client.ReactAsync] has left for later.
type Job struct {
	// ID is also the webhook-id of the callback.
	ID uuid.UUID `json:"id"`
}

// ReactAsync is React for a run that is carried out later, and whose result is
// sent to p.CallbackURL (permissions as for React). When it returns, the run is
// stored, and some node will carry it out, even if this one dies. Its rights are
// those that the caller has when it runs, and no more than it has now; if the
// caller is gone by then, the callback says so.
//
// What the run gives, or the error that React would return, is sent to the URL
// at least once, signed with the tenant's webhook secret: see [VerifyWebhook].
func (c *Client) ReactAsync(ctx context.Context, id uuid.UUID, p ReactParams) (*Job, error) {
	return run(ctx, c, &verbs.ReactAsync, func(ctx context.Context, op *core.Op) (*Job, error) {
		id, err := c.v.runs.Later(ctx, op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &Job{id}, nil
	})
}

// TestRunParams asks for a test run of the code of a reactor or a proxy.
type TestRunParams struct {
	ReactorID uuid.UUID // or a proxy
	ProxyID   uuid.UUID
	// Response chooses the response transform of a proxy, not that of requests.
	Response bool
	// Args is what the code gets as args, as it is: detokenization expressions in
	// it are refused.
	Args any
}

// TestRun is what came of a test run. It holds nothing of the vault's: see
// [Owner.TestRun].
type TestRun struct {
	Result JSON          // what the code returned; nil when it failed
	Lines  []script.Line // what it wrote to its console, up to 1,000 lines
	Took   time.Duration
	Err    *script.Error // how the code failed; nil when it did not
}

// TestRun runs the code of a reactor or proxy on plain arguments, to see whether it
// works. The code gets nothing of the vault's: no token is read, its client
// instance is null, and each configuration value is its own name in angle
// brackets, as <api_key>. It can send no requests, and what it returns is neither
// tokenized nor sent. So the result may be shown to people who may not see data.
// The log has an entry for the run. Only the tenant itself may try code.
func (o *Owner) TestRun(ctx context.Context, p TestRunParams) (*TestRun, error) {
	return run(ctx, o.Client, &verbs.TestRun, func(ctx context.Context, op *core.Op) (*TestRun, error) {
		code, err := relay.TestCode(ctx, op, p.ReactorID, p.ProxyID, p.Response)
		if err != nil {
			return nil, err
		}
		out, err := o.v.runs.Try(ctx, op, code, plainJSON(p.Args))
		if err != nil {
			return nil, err
		}
		return &TestRun{JSON(out.Result), out.Lines, out.Took, out.Err}, nil
	})
}

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
func (o *Owner) ListJobs(ctx context.Context, p ListJobsParams) ([]JobInfo, error) {
	return run(ctx, o.Client, &verbs.ListJobs, func(ctx context.Context, op *core.Op) ([]JobInfo, error) {
		found, err := runs.List(ctx, op, runs.Filter(p))
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
func (o *Owner) RetryJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, o.Client, &verbs.RetryJob, func(ctx context.Context, op *core.Op) error { return o.v.runs.Retry(ctx, op, id) })
}

// DiscardJob deletes a dead job with its result. See [Owner.RetryJob] about who
// may, and about others who do the same.
func (o *Owner) DiscardJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, o.Client, &verbs.DiscardJob, func(ctx context.Context, op *core.Op) error { return o.v.runs.Discard(ctx, op, id) })
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
