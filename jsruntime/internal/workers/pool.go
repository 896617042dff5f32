// Package workers implements package jsruntime, which documents it. It manages
// the processes in which code runs, one tenant in each, and both sides of the
// link to them.
package workers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/script"
)

// ErrWorker means that no worker process could be started. The text gives the
// reason.
var ErrWorker = errors.New("jsruntime: a worker process cannot be started")

// workerRuns is how many runs a worker serves before it is replaced.
const workerRuns = 20_000

// Pool runs tenant code in worker processes. It implements script.Runtime.
type Pool struct {
	options  Options
	gates    *gates
	starter  *starter
	packages *modules.Store
	crashes  crashes

	mu       sync.Mutex
	closed   bool
	spare    []*worker // have not run anything yet
	idle     []*worker // have run code of their tenant; most recently used last
	trimmer  *time.Timer
	busy     map[*worker]bool
	starting chan struct{} // not nil while a spare is starting; closed when it is ready
	spares   sync.WaitGroup
	started  int // workers started so far
}

var (
	_ script.Runtime  = (*Pool)(nil)
	_ script.Reporter = (*Pool)(nil)
)

// New returns a runtime that isolates code in worker processes. Unless the options
// are lazy, it starts the first of them in the background. [Pool.Ready] and every call report an error
// if that fails. Code never runs in the embedding process instead.
func New(opts *Options) *Pool {
	options := opts.withDefaults()
	w := &Pool{
		options:  options,
		gates:    options.gates(),
		starter:  newStarter(options),
		packages: modules.Open(options.Modules),
		busy:     map[*worker]bool{},
		crashes:  crashes{log: options.Logger},
	}
	if !options.Lazy {
		w.keepSpare()
	}
	return w
}

// Ready starts a worker if none is idle. It returns an error if no worker can
// be started, or if the folder of [Options.Modules] cannot be read.
func (r *Pool) Ready(ctx context.Context) error {
	if r.packages.Err != nil {
		return r.packages.Err
	}
	w, err := r.take(ctx, "")
	if err != nil {
		return err
	}
	r.put(w, true)
	return nil
}

// Seccomp returns nil if workers run under a filter of system calls. Otherwise
// the error names what the operating system lacks. It starts a worker if none
// is idle.
func (r *Pool) Seccomp(ctx context.Context) error {
	w, err := r.take(ctx, "")
	if err != nil {
		return err
	}
	defer r.put(w, true)
	if w.unfiltered != "" {
		return errors.New("jsruntime: system calls of workers are not filtered: " + w.unfiltered)
	}
	return nil
}

// Check loads the code without calling its function.
func (r *Pool) Check(ctx context.Context, p script.Program) error {
	_, err := r.do(ctx, p, nil, noHost{}, true)
	return err
}

// Run calls the function that the code exports, in a worker.
func (r *Pool) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return r.do(ctx, p, input, host, false)
}

func (r *Pool) do(ctx context.Context, p script.Program, input json.RawMessage, host script.Host, check bool) (json.RawMessage, error) {
	if len(p.Source) > r.options.MaxSource {
		_, bad := compile.Compile(p.Source, r.options.MaxSource)
		return nil, bad
	}
	if r.packages.Err != nil {
		return nil, r.packages.Err
	}
	ctx, leave, err := r.gates.enter(ctx, &p)
	if err != nil {
		return nil, err
	}
	defer leave()
	w, err := r.take(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	r.keepSpare()
	healthy := false
	defer func() { r.put(w, healthy) }() // also if the host ends this goroutine
	out, healthy, err := w.run(ctx, r.options.job(ctx, p, input, check), host, r.packages, func(text, stack string) {
		r.crashes.report(p.Tenant, p.Name, text, stack)
	})
	return out, err
}

// Stats counts the workers and the runs that wait for one.
func (r *Pool) Stats() script.Stats {
	waiting := r.gates.waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = slices.DeleteFunc(r.spare, (*worker).isDead)
	r.idle = slices.DeleteFunc(r.idle, (*worker).isDead)
	return script.Stats{
		Workers: r.options.Workers, Busy: len(r.busy), Idle: len(r.idle), Spare: len(r.spare),
		Waiting: waiting, Started: r.started, Crashes: int(r.crashes.count.Load()),
	}
}

// Close ends all workers. Runs in progress fail.
func (r *Pool) Close() error {
	r.gates.close()
	r.mu.Lock()
	r.closed = true
	if r.trimmer != nil {
		r.trimmer.Stop()
	}
	all := slices.Concat(r.spare, r.idle)
	for w := range r.busy {
		all = append(all, w)
	}
	r.spare, r.idle = nil, nil
	r.mu.Unlock()
	for _, w := range all {
		w.kill()
	}
	r.spares.Wait()
	r.starter.close()
	for _, w := range all {
		<-w.dead
	}
	return r.packages.Close()
}

// take returns a worker for one run. It prefers a worker that has run this
// tenant's code, because it has compiled it. Otherwise it returns a spare or a
// new one. It does not use a worker of another tenant, unless workers are
// shared.
func (r *Pool) take(ctx context.Context, tenant string) (*worker, error) {
	w, starting := r.takeWaiting(tenant)
	if w == nil && starting != nil {
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w, _ = r.takeWaiting(tenant)
	}
	if w != nil {
		return w, nil
	}
	w, err := r.starter.start(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.started++
	closed := r.closed
	if !closed {
		r.assign(w, tenant)
	}
	r.mu.Unlock()
	if closed {
		w.kill()
		return nil, script.ErrClosed
	}
	return w, nil
}

// takeWaiting returns a worker that waits for a run of the tenant. If there is
// none, it returns the channel of the spare that is starting.
func (r *Pool) takeWaiting(tenant string) (*worker, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = slices.DeleteFunc(r.spare, (*worker).isDead)
	r.idle = slices.DeleteFunc(r.idle, (*worker).isDead)
	w := r.pick(tenant)
	if w == nil {
		return nil, r.starting
	}
	r.assign(w, tenant)
	return w, nil
}

// pick removes a worker from its list: the tenant's most recently used one, or
// a spare. Shared workers take turns once there are as many as allowed. It
// needs the lock.
func (r *Pool) pick(tenant string) (w *worker) {
	for i, w := range slices.Backward(r.idle) {
		if w.tenant == tenant {
			r.idle = slices.Delete(r.idle, i, i+1)
			return w
		}
	}
	shared := r.options.ShareWorkers && len(r.idle) > 0
	switch {
	case shared && (len(r.spare) == 0 || len(r.idle)+len(r.busy) >= r.options.Workers):
		w, r.idle = r.idle[0], r.idle[1:]
	case len(r.spare) > 0:
		w, r.spare = r.spare[0], r.spare[1:]
	}
	return w
}

// assign assigns a worker to a run of a tenant. It needs the lock.
func (r *Pool) assign(w *worker, tenant string) {
	w.tenant = tenant
	r.busy[w] = true
	r.evict()
}

// evict ends idle workers, least recently used first, while there are more idle
// and busy ones than Workers. It needs the lock.
func (r *Pool) evict() {
	for len(r.idle) > 0 && len(r.idle)+len(r.busy) > r.options.Workers {
		r.idle[0].kill()
		r.idle = r.idle[1:]
	}
}

// put takes a worker back. It ends and replaces a worker that was stopped by
// force or has served long.
func (r *Pool) put(w *worker, healthy bool) {
	r.mu.Lock()
	delete(r.busy, w)
	keep := healthy && !r.closed && w.runs < workerRuns && (w.runs > 0 || len(r.spare) < maxSpare)
	switch {
	case keep && w.runs == 0:
		r.spare = append(r.spare, w)
	case keep:
		r.idle = append(r.idle, w)
		w.since = time.Now()
		if len(r.idle) > 1 && r.trimmer == nil {
			r.trimmer = time.AfterFunc(idleTime, r.trim)
		}
	}
	r.evict()
	r.mu.Unlock()
	if !keep {
		w.kill()
	}
	r.keepSpare()
}

// idleTime is how long a worker may stay idle before it is ended.
const idleTime = time.Minute

// trim ends the workers that have been idle for long, except the most recently
// used one.
func (r *Pool) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trimmer = nil
	if r.closed {
		return
	}
	for len(r.idle) > 1 && time.Since(r.idle[0].since) >= idleTime {
		r.idle[0].kill()
		r.idle = r.idle[1:]
	}
	if len(r.idle) > 1 {
		r.trimmer = time.AfterFunc(idleTime, r.trim)
	}
}

// maxSpare is how many workers are started ahead, for tenants that have none
// and for when code takes one down.
const maxSpare = 2

// keepSpare starts a worker in the background if there are too few spare ones,
// so that the next run finds one. Shared workers count as spare while they are
// idle.
func (r *Pool) keepSpare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready := len(r.spare)
	if r.options.ShareWorkers {
		ready += len(r.idle)
	}
	if r.closed || r.starting != nil || ready >= maxSpare || len(r.busy) > r.options.Workers {
		return
	}
	r.startSpare()
}

// startSpare starts a worker in the background. It needs the lock.
func (r *Pool) startSpare() {
	started := make(chan struct{})
	r.starting = started
	r.spares.Add(1)
	go func() {
		defer r.spares.Done()
		w, err := r.starter.start(context.Background())
		if err == nil {
			w.preload(r.packages.Favourites())
		}
		r.mu.Lock()
		r.starting = nil
		close(started)
		if err == nil {
			r.started++
		}
		if err == nil && !r.closed && len(r.spare) < maxSpare {
			r.spare = append(r.spare, w)
			w = nil
		}
		r.mu.Unlock()
		switch {
		case err != nil: // the next run will report it
		case w != nil:
			w.kill()
		default:
			r.keepSpare()
		}
	}()
}
