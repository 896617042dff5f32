package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/script"
)

// Reactor is tenant code that runs with detokenized arguments. Printed or logged it
// shows neither code nor configuration: see the package comment.
type Reactor struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Name     string    `json:"name,omitempty"`
	Code     string    `json:"code,omitempty"`
	// Configuration holds names and values for the code. It is sealed at rest.
	Configuration map[string]string `json:"configuration,omitzero"`
	// ApplicationID is the application that the code's client acts as. In JSON it is
	// the field id of an object.
	ApplicationID uuid.UUID `json:"application,omitzero"`
	CreatedBy     uuid.UUID `json:"created_by,omitzero"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	ModifiedBy    uuid.UUID `json:"modified_by,omitzero"`
	ModifiedAt    time.Time `json:"modified_at,omitzero"`
	// Suspended means that a restore brought back an older state, which has not been
	// confirmed: see [Vault.EraseAgain]. Uses are ErrForbidden.
	Suspended bool `json:"suspended,omitempty"`
	// Unreadable is set in lists for a reactor whose row was altered or does not
	// open. Only ID, TenantID and CreatedAt are set then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// MarshalJSON returns the reactor as the REST API shows it.
func (r Reactor) MarshalJSON() ([]byte, error) {
	return json.Marshal(&runs.Reactor{
		ID: r.ID, TenantID: r.TenantID, Name: r.Name, Code: r.Code, Configuration: r.Configuration, ApplicationID: runs.Application(r.ApplicationID),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, ModifiedBy: r.ModifiedBy, ModifiedAt: r.ModifiedAt, Unreadable: r.Unreadable, Suspended: r.Suspended,
	})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (r *Reactor) UnmarshalJSON(data []byte) error {
	var in runs.Reactor
	err := json.Unmarshal(data, &in)
	*r = *reactorOf(&in)
	return err
}

// ReactorParams describes a reactor. Name and Code are required. Printed or logged
// it shows only its name: see the package comment.
type ReactorParams struct {
	Name          string            `json:"name"`
	Code          string            `json:"code"`
	Configuration map[string]string `json:"configuration"`
	ApplicationID uuid.UUID         `json:"application,omitzero"` // as in [Reactor]
}

// MarshalJSON returns the parameters as the REST API takes them.
func (p ReactorParams) MarshalJSON() ([]byte, error) { return json.Marshal(p.inside()) }

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is. It requires the field
// configuration, which may be empty.
func (p *ReactorParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in runs.ReactorParams
		in.Read(r)
		if r.Value("configuration").IsZero() {
			for _, field := range []string{"name", "code", "configuration"} {
				if r.Value(field).IsZero() {
					r.Problem(field, "is required")
				}
			}
		}
		*p = ReactorParams{in.Name, in.Code, in.Configuration, uuid.UUID(in.ApplicationID)}
	})
}

// Params returns the parameters of the reactor, for a change with
// [Client.ReplaceReactor].
func (r *Reactor) Params() ReactorParams {
	return ReactorParams{r.Name, r.Code, maps.Clone(r.Configuration), r.ApplicationID}
}

// inside returns the parameters in the type of the internal package.
func (p *ReactorParams) inside() *runs.ReactorParams {
	in := &runs.ReactorParams{Name: p.Name, Code: p.Code, Configuration: p.Configuration, ApplicationID: runs.Application(p.ApplicationID)}
	if in.Configuration == nil {
		in.Configuration = map[string]string{}
	}
	return in
}

// Same reports whether p and q describe the same reactor.
func (p ReactorParams) Same(q ReactorParams) bool { return p.inside().Same(q.inside()) }

// reactorOf converts a reactor of the internal package.
func reactorOf(r *runs.Reactor) *Reactor {
	return &Reactor{
		ID: r.ID, TenantID: r.TenantID, Name: r.Name, Code: r.Code, Configuration: r.Configuration, ApplicationID: uuid.UUID(r.ApplicationID),
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, ModifiedBy: r.ModifiedBy, ModifiedAt: r.ModifiedAt, Unreadable: r.Unreadable, Suspended: r.Hold.Suspended(),
	}
}

// CreateReactor adds a reactor (permission reactor:create). If the code is
// unusable, the error matches ErrCode and is a [*script.Error] whose Messages
// describe the problem.
func (c *Client) CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return runTo(ctx, c, &core.ReactorVerbs.Create, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.Reactors.Create(ctx, op, p.inside())
	})
}

// EnsureReactor returns the reactor with the name in p, and creates it if it does
// not exist. It needs the permission reactor:read, and reactor:create to create the
// reactor. Programs that start concurrently get the same reactor. An existing
// reactor is returned unchanged even if it differs from p; [Client.ApplyReactor]
// changes it.
func (c *Client) EnsureReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	item, _, err := c.ensureReactor(ctx, &core.ReactorVerbs.Ensure, p)
	return item, err
}

func (c *Client) ensureReactor(ctx context.Context, verb *core.Verb, p ReactorParams) (item *Reactor, created bool, err error) {
	item, err = runTo(ctx, c, verb, reactorOf, func(ctx context.Context, op *core.Op) (item *runs.Reactor, err error) {
		item, created, err = c.v.runs.Reactors.Ensure(ctx, op, p.inside())
		return item, err
	})
	return item, created, err
}

// ApplyReactor creates or changes the reactor with the name in p so that it matches
// p, as [Client.ApplyApplication] does for applications. It needs the permission
// reactor:read, and reactor:create or reactor:update if it writes.
func (c *Client) ApplyReactor(ctx context.Context, p ReactorParams) (*Applied[Reactor], error) {
	item, created, err := c.ensureReactor(ctx, &core.ReactorVerbs.Apply, p)
	if err != nil || created || item.Params().Same(p) {
		return applied(item, created, false, err)
	}
	item, err = c.ReplaceReactor(ctx, item.ID, p)
	return applied(item, false, true, err)
}

// GetReactor returns a reactor (permission reactor:read).
func (c *Client) GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error) {
	return runTo(ctx, c, &core.ReactorVerbs.Get, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return runs.Reactors.Get(ctx, op, id)
	})
}

// ListReactors returns a page of reactors, newest first (permission
// reactor:read).
func (c *Client) ListReactors(ctx context.Context, p ListParams) (*Page[Reactor], error) {
	return listRecords(ctx, c, &core.ReactorVerbs.List, &runs.Reactors, listOf[runs.Reactor](&p), p.PageParams, reactorOf)
}

// AllReactors iterates over all reactors that match the filters, newest first
// (permission reactor:read). See [Client.AllTokens].
func (c *Client) AllReactors(ctx context.Context, p ListParams) iter.Seq2[*Reactor, error] {
	return allRecords(ctx, c, &core.ReactorVerbs.All, &runs.Reactors, listOf[runs.Reactor](&p), reactorOf)
}

// ReplaceReactor replaces all parameters of a reactor (permission reactor:update).
func (c *Client) ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error) {
	return runTo(ctx, c, &core.ReactorVerbs.Replace, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.Reactors.Replace(ctx, op, id, p.inside())
	})
}

// PatchReactor applies a JSON merge patch (RFC 7386) to the parameters of a reactor
// (permission reactor:update). The patch is read as by [EncodeJSON].
func (c *Client) PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*Reactor, error) {
	return runTo(ctx, c, &core.ReactorVerbs.Patch, reactorOf, func(ctx context.Context, op *core.Op) (*runs.Reactor, error) {
		return c.v.runs.Reactors.Patch(ctx, op, id, plainJSON(patch))
	})
}

// DeleteReactor deletes a reactor (permission reactor:delete).
func (c *Client) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, c, &core.ReactorVerbs.Delete, func(ctx context.Context, op *core.Op) error {
		return c.v.runs.Reactors.Delete(ctx, op, id)
	})
}

// ReactParams are the parameters of a reactor's run. Printed or logged they show no
// values: see the package comment.
type ReactParams struct {
	// Args is an object that may hold detokenization expressions, or a single
	// expression whose value is an object.
	Args any `json:"args,omitempty"`
	// CallbackURL is the URL that receives the result of [Client.ReactAsync]. It
	// must be empty for [Client.React].
	CallbackURL string `json:"callback_url,omitempty"`
	// Timeout limits a run of ReactAsync: 10 to 210 seconds, by default 10. In JSON
	// it is timeout_ms, in milliseconds. It must be zero for React.
	Timeout time.Duration `json:"timeout_ms,omitempty"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is. The spellings
// callbackUrl and timeoutMs, which clients of similar APIs send, are read as
// callback_url and timeout_ms. Only one of the two spellings may be present.
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

// ReactResult is the result of a reactor. Like [ReactParams], it shows no values
// when it is printed.
type ReactResult struct {
	// Tokens is the tokenize part of the result, tokenized as the caller.
	Tokens JSON `json:"tokens,omitempty"`
	// Raw is the raw part of the result, in plaintext.
	Raw JSON `json:"raw,omitempty"`
}

// React runs a reactor with detokenized arguments. It needs the permission
// token:use, also on each container of the tokens that args name. The tokenize part
// of the code's result is tokenized as the caller, who needs token:create for it.
// An error that the code throws is a [*script.Error], whose Messages hold its text.
//
// A run takes at most 10 seconds. [Client.ReactAsync] is for longer runs, and for
// callers that do not wait.
func (c *Client) React(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error) {
	return run(ctx, c, &core.VerbReact, func(ctx context.Context, op *core.Op) (*ReactResult, error) {
		out, err := c.v.runs.Now(ctx, op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &ReactResult{JSON(out.Tokens), JSON(out.Raw)}, nil
	})
}

// internal returns the parameters in the type of package runs.
func (p *ReactParams) internal() runs.Params {
	return runs.Params{Args: plainJSON(p.Args), CallbackURL: p.CallbackURL, Timeout: p.Timeout}
}

// Job is a run that [Client.ReactAsync] has queued.
type Job struct {
	// ID is also the webhook-id of the callback.
	ID uuid.UUID `json:"id"`
}

// ReactAsync queues a run of a reactor, whose result is sent to p.CallbackURL. It
// needs the same permissions as React. When ReactAsync returns, the run is stored,
// and some node will run it even if this one dies. The run has only the rights that
// the caller holds both now and when it runs. If the caller no longer exists by
// then, the callback reports that.
//
// The result, or the error that React would return, is sent to the URL at least
// once, signed with the tenant's webhook secret: see [VerifyWebhook].
func (c *Client) ReactAsync(ctx context.Context, id uuid.UUID, p ReactParams) (*Job, error) {
	return run(ctx, c, &core.VerbReactAsync, func(ctx context.Context, op *core.Op) (*Job, error) {
		id, err := c.v.runs.Later(ctx, op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &Job{id}, nil
	})
}

// TestRunParams selects the code of a reactor or a proxy for a test run.
type TestRunParams struct {
	ReactorID uuid.UUID // or a proxy
	ProxyID   uuid.UUID
	// Response selects the response transform of a proxy instead of the request
	// transform.
	Response bool
	// Args is passed to the code unchanged as args. Detokenization expressions in
	// it are refused.
	Args any
}

// TestRun is the outcome of a test run. It holds no data of the vault: see
// [Owner.TestRun].
type TestRun struct {
	Result JSON          // what the code returned; nil when it failed
	Lines  []script.Line // what it wrote to its console, up to 1,000 lines
	Took   time.Duration
	Err    *script.Error // how the code failed; nil when it did not
}

// TestRun runs the code of a reactor or proxy on plain arguments, to check that it
// works. The code gets no data of the vault: no token is read, and its client
// instance is null. Each configuration value is its own name in angle brackets,
// such as <api_key>. The code cannot send requests, and its result is neither
// tokenized nor sent. So the result may be shown to people who may not see data.
// The run is entered in the log. Only the tenant itself may test code.
func (o *Owner) TestRun(ctx context.Context, p TestRunParams) (*TestRun, error) {
	return run(ctx, o.Client, &core.VerbTestRun, func(ctx context.Context, op *core.Op) (*TestRun, error) {
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

// JobInfo describes an asynchronous run: see [Client.ReactAsync]. It holds neither
// arguments nor results.
type JobInfo struct {
	ID        uuid.UUID `json:"id"`
	ReactorID uuid.UUID `json:"reactor_id,omitzero"`
	// State is waiting (until it is due, or for a worker), running (a node has it),
	// dead (failed for good; it can be retried for 30 days), or unreadable (it does not
	// open, so it never runs).
	State string `json:"state"`
	// Step is the next step: run or deliver.
	Step     string `json:"step,omitempty"`
	Attempts int    `json:"attempts"` // of that step, so far
	// RunAt is when the step is due. For a dead job it is when the job is deleted.
	RunAt     time.Time `json:"run_at"`
	CreatedAt time.Time `json:"created_at"`
	// Ran is the outcome of the run, once it has ended. It holds nothing that the
	// code received or wrote.
	Ran struct {
		// Status is the HTTP status that a REST call would have returned: 200, or the
		// status of the error. Zero means that the code has not run.
		Status int           `json:"status,omitempty"`
		Took   time.Duration `json:"took,omitempty"`
		Line   int           `json:"line,omitempty"` // of the code that caused the error, or 0
	} `json:"ran,omitzero"`
}

// ListJobsParams selects jobs.
type ListJobsParams struct {
	Dead   bool      // list dead jobs instead of waiting and running ones
	Before uuid.UUID // list jobs older than this one; zero starts with the newest
	Size   int       // at most 100; zero means 20
}

// ListJobs returns jobs of the tenant, newest first. It returns fewer than p.Size
// when they would take much memory. Only the tenant itself may list jobs: see
// [Vault.Tenant].
func (o *Owner) ListJobs(ctx context.Context, p ListJobsParams) ([]JobInfo, error) {
	return run(ctx, o.Client, &core.VerbListJobs, func(ctx context.Context, op *core.Op) ([]JobInfo, error) {
		found, err := runs.List(ctx, op, runs.Filter(p))
		if err != nil {
			return nil, err
		}
		list := make([]JobInfo, len(found))
		for i, j := range found {
			list[i] = JobInfo{ID: j.ID, ReactorID: j.Reactor, State: string(j.State), Step: j.Step, Attempts: j.Attempts,
				RunAt: j.RunAt, CreatedAt: j.CreatedAt, Ran: j.Ran}
		}
		return list, nil
	})
}

// RetryJob makes a dead job due again, and its result is sent as if for the first
// time. The callback reports an error instead if tokens in the result were deleted
// or changed, or if the callers who used them may no longer see them. If several
// callers retry or discard a job, one succeeds, and the others get ErrNotFound.
// Only the tenant itself may retry jobs. The retry is entered in the log.
func (o *Owner) RetryJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, o.Client, &core.VerbRetryJob, func(ctx context.Context, op *core.Op) error { return o.v.runs.Retry(ctx, op, id) })
}

// DiscardJob deletes a dead job with its result. Permissions and concurrent calls
// are as for [Owner.RetryJob].
func (o *Owner) DiscardJob(ctx context.Context, id uuid.UUID) error {
	return runErr(ctx, o.Client, &core.VerbDiscardJob, func(ctx context.Context, op *core.Op) error { return o.v.runs.Discard(ctx, op, id) })
}

// Work runs the jobs that are due, which are asynchronous runs and their callbacks,
// and returns when none is left. The vault calls it every Config.WorkEvery; any
// node may run any job.
func (v *Vault) Work(ctx context.Context) error { return v.runs.Worker.Work(ctx) }

// VerifyWebhook checks a callback on behalf of its receiver. It returns nil if a
// request with this header and body was signed with the tenant's webhook secret
// within the last 5 minutes. Otherwise it returns an error that matches
// [ErrWebhook]. The body must be the unchanged bytes of the request.
//
// During the rotation of a secret, callbacks have two signatures, and either secret
// verifies them. A callback may arrive more than once: its webhook-id, which is the
// ID of the [Job], stays the same.
func VerifyWebhook(secret string, header http.Header, body []byte) error {
	if err := runs.VerifyWebhook(secret, header, body, time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	return nil
}
