package vault

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// Bounds on work in the background.
const (
	jobLease      = 15 * time.Second // renewed while the node lives
	jobRenewEvery = 5 * time.Second
	maxJobs       = 16 // at a time on a node
	maxTenantJobs = 4  // of one tenant among them
	maxRunTries   = 10 // of a run for which there was no room

	// keepDeadJobs is how long a job that was given up can be counted.
	keepDeadJobs = 30 * 24 * time.Hour
)

// kindReact is the kind of the job of an asynchronous run.
const kindReact = "react"

// reactJob is an asynchronous run as it is sealed. Its arguments are not
// detokenized before it runs.
type reactJob struct {
	Reactor     uuid.UUID     `json:"reactor"`
	Args        JSON          `json:"args,omitempty"`
	CallbackURL string        `json:"callback_url"`
	Timeout     time.Duration `json:"timeout"`
	TraceHeader string        `json:"trace_header,omitempty"`
	TraceID     string        `json:"trace_id,omitempty"`
	Caller      caller        `json:"caller"`
	// Depth is how many runs it is below.
	Depth int `json:"depth,omitempty"`
	// Result is the body of the callback, when the run is over.
	Result JSON `json:"result,omitempty"`
}

// caller is a client and its rights at the time when it asked.
type caller struct {
	Trusted     bool         `json:"trusted,omitempty"`
	Permissions []string     `json:"permissions,omitempty"`
	Rules       []AccessRule `json:"rules,omitempty"`
	Creator     uuid.UUID    `json:"creator"`
	Actor       uuid.UUID    `json:"actor"`
	ActorType   string       `json:"actor_type,omitempty"`
}

func (op *operation) caller() caller {
	return caller{Trusted: op.grant == trusted, Permissions: op.permissions, Rules: op.rules,
		Creator: op.creator, Actor: op.actor, ActorType: op.actorType}
}

// client returns a client with the caller's rights.
func (k *caller) client(v *Vault, tenant uuid.UUID) (*Client, error) {
	c := &Client{v: v, tenant: tenant, grant: trusted, creator: k.Creator, actor: k.Actor, actorType: k.ActorType}
	if k.Trusted {
		return c, nil
	}
	var err error
	c.permissions, c.rules = k.Permissions, k.Rules
	c.grant, err = access.New(accessRules(k.Rules), k.Permissions)
	return c, err
}

// reactLater stores an asynchronous run. It is durable when this returns.
func (op *operation) reactLater(ctx context.Context, r *Reactor, args jsonx.Value, p *ReactParams) error {
	line := lineageOf(ctx)
	if err := line.leave(); err != nil {
		return err
	}
	if err := op.tryExpressions(ctx, args); err != nil {
		return underPath("args", err)
	}
	j := reactJob{Reactor: r.ID, Args: jsonOf(args), CallbackURL: p.CallbackURL, Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Caller: op.caller(), Depth: line.depth, TraceHeader: p.TraceHeader, TraceID: p.TraceID}
	if j.Timeout == 0 {
		j.Timeout = minTimeoutMS * time.Millisecond
	}
	job, err := op.job(storage.Job{ID: storage.ID(op.v.ids.At(op.now)), Kind: kindReact, RunAt: op.now}, &j)
	if err != nil {
		return err
	}
	ch := op.change()
	ch.InsertJobs = []storage.Job{job}
	ch.Logs = []storage.Log{op.entry(opReact, kindReactor, r.ID.String())}
	defer op.afterwards(op.v.wake)
	return op.write(ctx, ch)
}

// tryExpressions finds out whether arguments can be detokenized now, and are an
// object then. What they give is dropped: they are detokenized when the job
// runs, and the use of the tokens is logged then. But a refusal tells something
// of their data, so it is logged as a use of them, like that of a run.
func (op *operation) tryExpressions(ctx context.Context, args jsonx.Value) error {
	tree, err := expr.CompileTokenTree(args)
	if err != nil {
		return invalidErr(err)
	}
	if !tree.HasExpressions() {
		return nil
	}
	used, ids, err := op.findTokens(ctx, tree.Refs())
	if err != nil {
		return err
	}
	out, err := tree.Eval(used.env())
	if err != nil {
		err = invalidErr(err)
	} else if err = checkDetokenized(out); err == nil {
		return nil
	}
	return cmp.Or(op.logUses(ctx, used, ids), err)
}

// job seals a job's payload.
func (op *operation) job(job storage.Job, payload *reactJob) (storage.Job, error) {
	plain, err := json.Marshal(payload)
	if err != nil {
		return job, err
	}
	place := sealed.JobPlace(job.ID)
	job.KeyVersion = op.state.ring.Version()
	job.Payload, err = op.seal(&place, plain)
	return job, err
}

// worker carries out jobs on this node.
type worker struct {
	v     *Vault
	owner storage.ID
	woken chan struct{}

	mu      sync.Mutex
	running map[storage.ID]int // by tenant
	total   int
	served  storage.ID // the last tenant whose turn it was
	jobs    sync.WaitGroup
}

func newWorker(v *Vault) *worker {
	return &worker{v: v, owner: storage.ID(uuid.New()), woken: make(chan struct{}, 1), running: map[storage.ID]int{}}
}

// wake makes the loop look for jobs at once.
func (v *Vault) wake() {
	select {
	case v.worker.woken <- struct{}{}:
	default:
	}
}

// Work carries out the jobs that are due (asynchronous runs and their
// callbacks) and returns when none is left. The vault does so by itself every
// Config.WorkEvery; any node may do any job.
func (v *Vault) Work(ctx context.Context) error {
	for {
		started, err := v.worker.dispatch(ctx)
		v.worker.jobs.Wait()
		if err != nil || started == 0 {
			return err
		}
	}
}

// loop works until the vault is closed, and then waits for what is running.
func (w *worker) loop(ctx context.Context) {
	tick := time.NewTicker(w.v.cfg.WorkEvery)
	defer tick.Stop()
	defer w.jobs.Wait()
	for {
		if _, err := w.dispatch(ctx); err != nil && ctx.Err() == nil {
			w.v.cfg.Logger.ErrorContext(ctx, "looking for jobs failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.woken:
		}
	}
}

// dispatch leases due jobs, one tenant after the other and each in its turn,
// and starts them. It goes on behind the tenant that was served last, and round
// to it: whatever some have left, the others come before them. It returns how
// many jobs it started.
func (w *worker) dispatch(ctx context.Context) (int, error) {
	const atOnce = 100
	served, started := w.lastServed(), 0
	after, round := served, false
	for w.hasRoom() {
		tenants, err := w.v.store.DueTenants(ctx, w.v.now(), after, atOnce)
		if err != nil {
			return started, err
		}
		if len(tenants) == 0 {
			if round || served == (storage.ID{}) {
				break
			}
			after, round = storage.ID{}, true
			continue
		}
		for _, tenant := range tenants {
			if round && bytes.Compare(tenant[:], served[:]) > 0 {
				return started, nil
			}
			n, err := w.start(ctx, tenant)
			started += n
			if err != nil {
				return started, err
			}
		}
		after = tenants[len(tenants)-1]
	}
	return started, nil
}

// start leases as many jobs of a tenant as there is room for.
func (w *worker) start(ctx context.Context, tenant storage.ID) (int, error) {
	room := w.reserve(tenant)
	if room == 0 {
		return 0, nil
	}
	now := w.v.now()
	jobs, err := w.v.store.LeaseJobs(ctx, storage.Lease{Tenant: tenant, Owner: w.owner, Now: now, Until: now.Add(jobLease), Limit: room})
	w.release(tenant, room-len(jobs))
	w.serve(tenant)
	for i := range jobs {
		job := jobs[i]
		w.jobs.Go(func() {
			defer w.v.wake() // there is room for another
			defer w.release(tenant, 1)
			w.run(ctx, &job)
		})
	}
	return len(jobs), err
}

func (w *worker) lastServed() storage.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served
}

func (w *worker) serve(tenant storage.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served = tenant
}

func (w *worker) hasRoom() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total < maxJobs
}

func (w *worker) reserve(tenant storage.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := min(maxJobs-w.total, maxTenantJobs-w.running[tenant])
	if room > 0 {
		w.running[tenant] += room
		w.total += room
	}
	return room
}

func (w *worker) release(tenant storage.ID, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total -= n
	if w.running[tenant] -= n; w.running[tenant] == 0 {
		delete(w.running, tenant)
	}
}

// run carries out one job. Its outcome is written only while the lease is
// ours: a node that was thought dead changes nothing.
func (w *worker) run(ctx context.Context, job *storage.Job) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renew(ctx, cancel, *job) })
	err := w.carryOut(ctx, job)
	cancel()
	renewing.Wait()
	if err != nil && !errors.Is(err, storage.ErrStale) && !errors.Is(err, context.Canceled) {
		w.v.cfg.Logger.ErrorContext(ctx, "a job failed and is tried again later", "tenant", uuid.UUID(job.Tenant), "job", uuid.UUID(job.ID), "error", err)
	}
}

// carryOut does the next step of a job. A panic ends this job alone, and not the
// process: another node would take the job, and be next. What it panics with may
// hold anything, so only the type is told.
func (w *worker) carryOut(ctx context.Context, job *storage.Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("vault: panic with a %T\n%s", p, debug.Stack())
		}
	}()
	return w.v.carryOut(ctx, w.owner, job)
}

// renew keeps the lease while the job runs. When it is lost, the run is
// stopped: another node has it.
func (w *worker) renew(ctx context.Context, stop context.CancelFunc, job storage.Job) {
	tick := time.NewTicker(jobRenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.extend(ctx, &job); errors.Is(err, storage.ErrStale) {
			stop()
			return
		}
	}
}

// extend makes a lease longer. The payload is written with it, so it has to be
// sealed under the primary key: a rotation may be about to destroy the one that
// it came under. When that has happened already, the lease is left to end, and
// the row as the rotation sealed it.
func (w *worker) extend(ctx context.Context, job *storage.Job) error {
	op := w.v.system(job.Tenant)
	if err := op.refresh(ctx); err != nil {
		return err
	}
	if version := op.state.ring.Version(); version != job.KeyVersion {
		place := sealed.JobPlace(job.ID)
		plain, err := op.open(ctx, &place, job.KeyVersion, job.Payload)
		if err != nil {
			return err
		}
		if job.Payload, err = op.seal(&place, plain); err != nil {
			return err
		}
		job.KeyVersion = op.state.ring.Version()
	}
	ch := op.change()
	ch.UpdateJobs = []storage.JobUpdate{{Owner: w.owner, Job: *job, Until: op.now.Add(jobLease)}}
	return w.v.store.Write(ctx, ch)
}
