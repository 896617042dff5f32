package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/once"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Limits on background work.
const (
	maxRunTries = 10 // attempts of a run without a free slot

	// keepDeadJobs is how long a dead job can be retried.
	keepDeadJobs = 30 * 24 * time.Hour
)

// Kind is the kind of jobs for asynchronous runs.
const Kind = "react"

// Job is the sealed payload of an asynchronous run. Its arguments are
// detokenized only when it runs.
type Job struct {
	Reactor     uuid.UUID       `json:"reactor"`
	Args        json.RawMessage `json:"args,omitempty"`
	CallbackURL string          `json:"callback_url"`
	Timeout     time.Duration   `json:"timeout"`
	Trace       trace.Trace     `json:"trace,omitzero"`
	Caller      core.Stored     `json:"caller"`
	// Depth is the number of runs above it.
	Depth int `json:"depth,omitempty"`
	// Workload is as in [core.Lineage].
	Workload bool `json:"workload,omitempty"`
	// Result is the body of the callback after the run, and Ended is the end
	// of the run. Withdrawn means that an error has replaced the result,
	// because the caller or a token no longer exists, or rights were reduced.
	Result    json.RawMessage `json:"result,omitempty"`
	Ended     time.Time       `json:"ended,omitzero"`
	Withdrawn bool            `json:"withdrawn,omitempty"`
	// Depends are the tokens that the result depends on.
	core.Depends
	// Retried means that the job was dead before.
	Retried bool `json:"retried,omitempty"`
	// Ran is the outcome of the run.
	Ran Outcome `json:"ran,omitzero"`
}

// leave stores an asynchronous run.
func (r *Runs) leave(ctx context.Context, op *core.Op, reactor *Reactor, args jsonx.Value, p *Params) (uuid.UUID, error) {
	from := core.LineageOf(ctx)
	if err := leaveRun(from); err != nil {
		return uuid.UUID{}, err
	}
	if err := tryExpressions(ctx, op, args); err != nil {
		return uuid.UUID{}, fault.Under("args", err)
	}
	j := Job{Reactor: reactor.ID, Args: textOf(args), CallbackURL: p.CallbackURL, Timeout: cmp.Or(p.Timeout, minTimeout), Caller: op.Stored(), Depth: from.Depth, Workload: from.Workload, Trace: trace.Of(ctx)}
	job, err := Seal(op, storage.Job{ID: storage.ID(op.NewID()), Kind: Kind, RunAt: op.Now}, &j)
	if err != nil {
		return uuid.UUID{}, err
	}
	ch := op.Change()
	ch.InsertJobs = []storage.Job{job}
	ch.Logs = []storage.Log{op.Entry(audit.React, audit.Reactor, reactor.ID.String())}
	defer op.Afterwards(r.Worker.Wake)
	if err := op.Write(ctx, ch); err != nil {
		return uuid.UUID{}, err
	}
	return uuid.UUID(job.ID), nil
}

// leaveRun counts an asynchronous run that another run creates.
func leaveRun(from core.Lineage) error {
	err := from.Leave()
	switch {
	case errors.Is(err, core.ErrRunDepth):
		return &script.Error{Kind: script.Depth, Status: http.StatusInternalServerError, Title: script.DefaultTitle,
			Messages: map[string][]string{"error": {"reactors and proxies call each other more than 3 levels deep"}}}
	case errors.Is(err, core.ErrRunJobs):
		return fault.New(fault.ErrBusy, "a run may start at most %d asynchronous runs", core.MaxRunJobs)
	}
	return err
}

// tryExpressions checks whether arguments can be detokenized now, and are
// then an object. The result is dropped, because the job detokenizes them
// when it runs, and the uses are logged then. But an error reveals something
// about their data, so it is logged as a use of the tokens, like an error of
// a run.
func tryExpressions(ctx context.Context, op *core.Op, args jsonx.Value) error {
	tree, err := expr.CompileTokenTree(args)
	if err != nil {
		return fault.Input(err)
	}
	if !tree.HasExpressions() {
		return nil
	}
	used, err := reveal.Find(ctx, op, tree, "", access.Target{})
	if err != nil {
		return err
	}
	out, err := tree.Eval(used.Env(ctx, args.Size()))
	if err != nil {
		err = fault.Input(err)
	} else if err = checkDetokenized(out); err == nil {
		return nil
	}
	return cmp.Or(used.Log(ctx, op), err)
}

// Seal returns the row of a job with its sealed payload.
func Seal(op *core.Op, job storage.Job, payload *Job) (storage.Job, error) {
	plain, err := json.Marshal(payload)
	if err != nil {
		return job, err
	}
	location := seal.JobLocation(job.ID)
	job.KeyVersion = op.State.Ring.Version()
	job.Payload, err = op.Seal(&location, plain)
	return job, err
}

// Extend extends a lease. The payload is written with it and must be sealed
// with the primary key, because a rotation may be about to destroy its key.
// If the key is already destroyed, Extend lets the lease end and keeps the
// row as the rotation sealed it.
func (r *Runs) Extend(ctx context.Context, job *storage.Job) error {
	op := r.Vault.System(job.Tenant)
	if err := op.Refresh(ctx); err != nil {
		return err
	}
	if version := op.State.Ring.Version(); version != job.KeyVersion {
		location := seal.JobLocation(job.ID)
		plain, err := op.Open(ctx, &location, job.KeyVersion, job.Payload)
		if err != nil {
			return err
		}
		if job.Payload, err = op.Seal(&location, plain); err != nil {
			return err
		}
		job.KeyVersion = op.State.Ring.Version()
	}
	ch := op.Change()
	ch.UpdateJobs = []storage.JobUpdate{{Owner: job.Owner, Job: *job, Until: op.Now.Add(JobLease)}}
	return op.Write(ctx, ch)
}

// CarryOut performs the next step of a job: the run, or the delivery of its
// result.
func (r *Runs) CarryOut(ctx context.Context, job *storage.Job) error {
	op := r.Vault.System(job.Tenant)
	var err error
	op.State, err = r.Vault.Tenants.Get(ctx, op.Tenant())
	if errors.Is(err, fault.ErrNotFound) {
		return nil // the tenant and its jobs are being deleted
	}
	if err != nil {
		return err
	}
	payload, err := OpenJob(ctx, op, job)
	if err != nil {
		return err
	}
	if payload == nil {
		return errJobFormat
	}
	j := &leased{Op: op, runs: r, row: *job, react: *payload}
	ctx = trace.With(ctx, j.react.Trace)
	step, name := j.deliver, "deliver"
	if j.react.Result == nil {
		step, name = j.run, "run"
	}
	ctx, end := r.Vault.Tell(ctx, core.Event{Kind: KindJob, Name: name, TenantID: j.Tenant()})
	err = step(ctx)
	end(err)
	return err
}

var errJobFormat = errors.New("vault: the payload of a job has a format that this version does not know")

// leased is a job that this node has leased.
type leased struct {
	*core.Op
	runs  *Runs
	row   storage.Job
	react Job
}

// run runs the reactor. It stores the result for delivery, together with the
// tokens that the run created.
func (j *leased) run(ctx context.Context) error {
	caller, err := j.react.Caller.Identity(j.Tenant())
	if err != nil {
		return err
	}
	writes := &core.Pending{Leased: true}
	began := time.Now()
	result, err := j.runAs(core.Lineage{Depth: j.react.Depth, Workload: j.react.Workload}.In(ctx), j.At(caller).Collecting(writes))
	if ctx.Err() != nil {
		return ctx.Err() // the node stops, or has lost the job
	}
	if errors.Is(err, fault.ErrKeyDenied) || errors.Is(err, fault.ErrKeyUnavailable) {
		return err // it runs again when the key is available
	}
	if errors.Is(err, fault.ErrBusy) && j.row.Attempts+1 < maxRunTries {
		j.row.Attempts++
		delay, _ := WebhookDelay(j.row.Attempts, pace.Jitter())
		return j.put(ctx, nil, delay)
	}
	j.react.Ran = outcomeOf(err, time.Since(began))
	var answer any = result
	done := writes
	if err != nil {
		done, answer = nil, callbackError(err)
		j.react.Withdrawn = errors.Is(err, fault.ErrUnauthenticated)
	}
	if j.react.Result, err = json.Marshal(answer); err != nil {
		return err
	}
	j.react.Depends = writes.Uses.Depends()
	j.react.Args, j.react.Ended = nil, j.Vault.Now() // no longer needed
	j.row.Attempts = 0
	return j.put(ctx, done, 0)
}

// work is the verb of a job's steps, which needs no permission.
var work = core.Verb{Name: "Work"}

// runAs runs the reactor of the job as its caller.
func (j *leased) runAs(ctx context.Context, caller core.Caller) (*Result, error) {
	return core.Do(ctx, caller.Under(j.State), &work, func(ctx context.Context, op *core.Op) (*Result, error) {
		reactor, err := readToRun(ctx, op, j.react.Reactor)
		if err != nil {
			return nil, err
		}
		var args any
		if j.react.Args != nil {
			args = j.react.Args
		}
		doc, err := core.ParseJSON("args", args)
		if err != nil {
			return nil, err
		}
		return j.runs.react(ctx, op, reactor, doc, j.react.Timeout)
	})
}

// put stores the current state of the job, together with the writes of its
// run, and releases it until the delay has passed. If the run took longer than
// keys may be used, the write seals everything again.
func (j *leased) put(ctx context.Context, writes *core.Pending, delay time.Duration) error {
	j.row.RunAt = j.Vault.Now().Add(delay)
	row, err := Seal(j.Op, j.row, &j.react)
	if err != nil {
		return err
	}
	ch := j.Change()
	if writes != nil {
		if ch, err = writes.Change(j.Op); err != nil {
			return err
		}
		defer writes.Committed()
	}
	ch.UpdateJobs = []storage.JobUpdate{{Owner: j.row.Owner, Job: row}}
	defer j.runs.Worker.Wake()
	return j.Write(ctx, ch)
}

// callbackTimeout is the time limit of one attempt of a callback.
const callbackTimeout = 15 * time.Second

// deliver sends the result to the callback URL. A failed callback is sent
// again later, and given up after too many failures. A result that must not
// be sent is replaced by an error.
func (j *leased) deliver(ctx context.Context) error {
	if !j.react.Withdrawn {
		switch err := j.maySend(ctx); {
		case errors.Is(err, fault.ErrUnauthenticated), errors.Is(err, fault.ErrForbidden), errors.Is(err, fault.ErrWithdrawn):
			return j.withdraw(ctx, err)
		case err != nil:
			return err
		}
	}
	sent := j.send(ctx)
	if sent == nil {
		ch := &storage.Change{Tenant: j.row.Tenant, Now: j.Now} // seals nothing, so it is never late
		ch.DeleteJobs = []storage.JobDelete{{Owner: j.row.Owner, ID: j.row.ID}}
		return j.Vault.Store.Write(ctx, ch)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.row.Attempts++
	delay, again := WebhookDelay(j.row.Attempts, pace.Jitter())
	if again {
		return j.put(ctx, nil, delay)
	}
	return j.giveUp(ctx)
}

// promptly is how soon after the run the first attempt counts as part of the
// run.
const promptly = time.Minute

// isPrompt reports whether this is the first attempt, right after the run.
// Its result does not depend on the tokens, because a run may delete the
// tokens that it used.
func (j *leased) isPrompt() bool {
	return j.row.Attempts == 0 && !j.react.Retried && j.Now.Sub(j.react.Ended) < promptly
}

// maySend checks whether the result may be sent. Its caller must exist, and
// every further attempt is checked like the replay of a stored response.
func (j *leased) maySend(ctx context.Context) error {
	caller, err := j.react.Caller.Identity(j.Tenant())
	if err != nil {
		return err
	}
	_, err = core.Do(ctx, j.At(caller).Under(j.State), &work, func(ctx context.Context, op *core.Op) (none struct{}, err error) {
		if j.isPrompt() {
			return none, nil
		}
		return none, once.Judge(ctx, op, &j.react.Depends)
	})
	return err
}

// withdraw replaces the result by an error with the reason. The attempts of
// its delivery start again.
func (j *leased) withdraw(ctx context.Context, why error) error {
	failed := callbackError(why)
	if !errors.Is(why, fault.ErrUnauthenticated) {
		failed.Title = fault.Detail(fault.ErrWithdrawn)
	}
	var err error
	if j.react.Result, err = json.Marshal(failed); err != nil {
		return err
	}
	j.react.Withdrawn, j.react.Depends = true, core.Depends{}
	j.row.Attempts = 0
	return j.put(ctx, nil, 0)
}

// errNotTaken means that a receiver did not acknowledge a callback.
var errNotTaken = errors.New("vault: the callback was not acknowledged")

// send posts the callback once. Every status from 200 to 299 acknowledges it.
func (j *leased) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.react.CallbackURL, bytes.NewReader(j.react.Result))
	if err != nil {
		return err
	}
	secrets := j.State.Doc.WebhookSecrets(j.Now)
	if req.Header, err = SignWebhook(secrets, uuid.UUID(j.row.ID).String(), time.Now(), j.react.Result); err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "vault")
	j.react.Trace.SetHeaders(req.Header)
	res, err := j.runs.Egress.Do(req, j.Tenant().String())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be reused
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return errNotTaken
	}
	return nil
}

// textOf returns a value as JSON, or nil if it is absent.
func textOf(v jsonx.Value) json.RawMessage {
	if v.IsZero() {
		return nil
	}
	return v.JSON()
}
