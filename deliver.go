package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/webhook"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// carryOut does the next step of a job: the run, or the delivery of its result.
func (v *Vault) carryOut(ctx context.Context, owner storage.ID, job *storage.Job) error {
	op := v.system(job.Tenant)
	var err error
	op.state, err = v.tenants.get(ctx, op.tenant)
	if errors.Is(err, ErrNotFound) {
		return nil // the tenant is being deleted, and its jobs with it
	}
	if err != nil {
		return err
	}
	place := jobPlace(job.ID)
	plain, err := op.open(ctx, &place, job.KeyVersion, job.Payload)
	if err != nil {
		return err
	}
	j := &leasedJob{call: op, owner: owner, row: *job}
	if err := json.Unmarshal(plain, &j.react); err != nil {
		return errors.New("vault: the payload of a job is not what this version writes")
	}
	if j.react.Result == nil {
		return j.run(ctx)
	}
	return j.deliver(ctx)
}

// leasedJob is a job that this node holds.
type leasedJob struct {
	*call
	owner storage.ID
	row   storage.Job
	react reactJob
}

// run runs the reactor and stores its result, to be delivered, together with
// the tokens that it made.
func (j *leasedJob) run(ctx context.Context) error {
	client, err := j.react.Caller.client(j.v, j.tenant)
	if err != nil {
		return err
	}
	client.held = &held{leased: true}
	result, err := client.runJob(withLineage(ctx, lineage{depth: j.react.Depth}), &j.react)
	if ctx.Err() != nil {
		return ctx.Err() // the node stops, or has lost the job
	}
	if errors.Is(err, ErrBusy) && j.row.Attempts+1 < maxRunTries {
		j.row.Attempts++
		delay, _ := webhook.Delay(j.row.Attempts, rand.Float64())
		return j.put(ctx, nil, delay)
	}
	made := client.held
	var answer any = result
	if err != nil {
		made, answer = nil, callbackError(err)
	}
	if j.react.Result, err = json.Marshal(answer); err != nil {
		return err
	}
	j.react.Args = nil // nobody needs them any more
	j.row.Attempts = 0
	return j.put(ctx, made, 0)
}

// runJob runs the reactor of a job as its caller.
func (c *Client) runJob(ctx context.Context, job *reactJob) (*ReactResult, error) {
	op, err := c.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	r, err := op.reactor(ctx, job.Reactor)
	if err != nil {
		return nil, err
	}
	var args any
	if job.Args != nil {
		args = job.Args
	}
	doc, err := parseJSON("args", args)
	if err != nil {
		return nil, err
	}
	return op.runReactor(ctx, r, doc, job.Timeout)
}

// put stores the job as it is now, together with what its run wrote, and gives
// it up until the delay has passed.
func (j *leasedJob) put(ctx context.Context, made *held, delay time.Duration) error {
	if err := j.refresh(ctx); err != nil {
		return err
	}
	j.row.RunAt = j.v.now().Add(delay)
	row, err := j.job(j.row, &j.react)
	if err != nil {
		return err
	}
	ch := j.change()
	if made != nil {
		if ch, err = made.change(ctx, j.call); err != nil {
			return err
		}
		defer made.committed()
	}
	ch.UpdateJobs = []storage.JobUpdate{{Owner: j.owner, Job: row}}
	defer j.v.wake()
	return j.v.store.Write(ctx, ch)
}

// callbackTimeout bounds one try of a callback.
const callbackTimeout = 15 * time.Second

// deliver sends the result to the callback URL. A callback that fails is sent
// again later; one that has failed too often is given up.
func (j *leasedJob) deliver(ctx context.Context) error {
	sent := j.send(ctx)
	if sent == nil {
		ch := &storage.Change{Tenant: j.row.Tenant, Now: j.now} // seals nothing, so it is never too late
		ch.DeleteJobs = []storage.JobDelete{{Owner: j.owner, ID: j.row.ID}}
		return j.v.store.Write(ctx, ch)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.row.Attempts++
	delay, again := webhook.Delay(j.row.Attempts, rand.Float64())
	if again {
		return j.put(ctx, nil, delay)
	}
	return j.giveUp(ctx)
}

// giveUp marks the job as dead and deletes its payload, which nobody will ask
// for any more. The log tells of it.
func (j *leasedJob) giveUp(ctx context.Context) error {
	row := j.row
	row.Dead, row.Payload = true, nil
	row.RunAt = j.v.now().Add(keepDeadJobs)
	entry := j.entry(opReact, kindReactor, j.react.Reactor.String())
	entry.Message = "Reactor callback given up"
	return j.v.store.Write(ctx, &storage.Change{
		Tenant: row.Tenant, Now: j.now, // seals nothing, so it is never too late
		UpdateJobs: []storage.JobUpdate{{Owner: j.owner, Job: row}},
		Logs:       []storage.Log{entry},
	})
}

// errNotTaken means that a receiver did not acknowledge a callback.
var errNotTaken = errors.New("vault: the callback was not acknowledged")

// send posts the callback once. Every status from 200 to 299 acknowledges it.
func (j *leasedJob) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.react.CallbackURL, bytes.NewReader(j.react.Result))
	if err != nil {
		return err
	}
	secrets := j.state.doc.webhookSecrets(j.now)
	if req.Header, err = webhook.Sign(secrets, uuid.UUID(j.row.ID).String(), time.Now(), j.react.Result); err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "vault")
	if j.react.TraceHeader != "" {
		req.Header.Set(j.react.TraceHeader, j.react.TraceID)
	}
	res, err := j.v.egress.Do(req, j.tenant.String())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return errNotTaken
	}
	return nil
}

// failedRun is the body of a callback about a run that failed.
type failedRun struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors,omitempty"`
	// Response is what the code chose to answer with, if it did.
	Response *chosenResponse `json:"response,omitempty"`
}

type chosenResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    JSON              `json:"body"`
}

// callbackError describes why a run failed: the same error that a synchronous
// run answers with. An answer that the code chose in full is a part of it, so
// that receivers can tell it from a result.
func callbackError(err error) failedRun {
	known := hostError(err)
	out := failedRun{Title: http.StatusText(known.Status), Status: known.Status, Detail: known.Message, Errors: known.Errors}
	var failed *script.Error
	var bad *InvalidError
	switch {
	case errors.As(err, &failed):
		out.Title, out.Detail = failed.Title, failed.Error()
		if r := failed.Response; r != nil {
			out.Response = &chosenResponse{r.Status, r.Headers, JSON(r.Body)}
			if r.Body != nil && !json.Valid(r.Body) { // a job that cannot be written would be run for ever
				out.Response.Body = jsonx.StringValue(string(r.Body)).JSON()
			}
		}
	case errors.As(err, &bad):
		out.Title, out.Detail = known.Message, "The request breaks the rules that are listed under errors."
	}
	return out
}
