package jsruntime

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/script"
)

// ErrWorker means that no worker process could be started. The text says what
// the attempt ended with.
var ErrWorker = errors.New("jsruntime: a worker process cannot be started")

// workerRuns is how many runs a worker serves before it makes room for a new
// one.
const workerRuns = 20_000

// Workers runs tenant code in worker processes. It is a script.Runtime.
type Workers struct {
	options Options
	gates   *gates
	starter *starter

	mu       sync.Mutex
	closed   bool
	idle     []*worker // latest used last
	trimmer  *time.Timer
	busy     map[*worker]bool
	starting chan struct{} // while a spare is being started; closed when it is there
	spares   sync.WaitGroup
}

var _ script.Runtime = (*Workers)(nil)

// New returns a runtime that isolates code in worker processes, and begins to
// start the first of them. [Workers.Ready] and every call report whether that
// works; code never runs in the embedding process instead.
func New(opts *Options) *Workers {
	options := opts.withDefaults()
	w := &Workers{
		options: options,
		gates:   options.gates(),
		starter: newStarter(options),
		busy:    map[*worker]bool{},
	}
	w.keepSpare()
	return w
}

// Ready starts a worker if none is idle, and returns the error if it cannot be
// started. A program that calls it early finds out before its first request.
func (r *Workers) Ready(ctx context.Context) error {
	w, err := r.take(ctx, "")
	if err != nil {
		return err
	}
	r.put(w, true)
	return nil
}

// Seccomp returns nil if workers run under a filter of system calls, and else an
// error that says what the operating system lacks. Workers start without a
// filter, too, where there is none: a program that insists on it, or wants to log
// it, asks here. It starts a worker if none is idle.
func (r *Workers) Seccomp(ctx context.Context) error {
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
func (r *Workers) Check(ctx context.Context, p script.Program) error {
	_, err := r.do(ctx, p, nil, noHost{}, true)
	return err
}

// Run calls the function that the code exports, in a worker.
func (r *Workers) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return r.do(ctx, p, input, host, false)
}

func (r *Workers) do(ctx context.Context, p script.Program, input json.RawMessage, host script.Host, check bool) (json.RawMessage, error) {
	if len(p.Source) > r.options.MaxSource {
		_, bad := compile(p.Source, r.options.MaxSource)
		return nil, bad
	}
	ctx, leave, err := r.gates.enter(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	defer leave()
	w, err := r.take(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	healthy := false
	defer func() { r.put(w, healthy) }() // also when the host ends this goroutine
	out, healthy, err := w.run(ctx, r.options.job(ctx, p, input, check), host)
	return out, err
}

// Close ends all workers. Runs in progress fail.
func (r *Workers) Close() error {
	r.gates.close()
	r.mu.Lock()
	r.closed = true
	if r.trimmer != nil {
		r.trimmer.Stop()
	}
	var all []*worker
	all = append(all, r.idle...)
	for w := range r.busy {
		all = append(all, w)
	}
	r.idle = nil
	r.mu.Unlock()
	for _, w := range all {
		w.kill()
	}
	r.spares.Wait()
	r.starter.close()
	for _, w := range all {
		<-w.dead
	}
	return nil
}

// take returns a worker for one run: one that served the tenant before if it
// can, since it has the code compiled, else one that served nobody, else any
// idle one, else a new one.
func (r *Workers) take(ctx context.Context, tenant string) (*worker, error) {
	w, spare := r.takeIdle(tenant)
	if w == nil && spare != nil {
		select {
		case <-spare:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w, _ = r.takeIdle(tenant)
	}
	if w != nil {
		r.keepSpare()
		return w, nil
	}
	w, err := r.starter.start(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.busy[w] = true
	}
	r.mu.Unlock()
	if closed {
		w.kill()
		return nil, script.ErrClosed
	}
	w.tenant = tenant
	r.keepSpare()
	return w, nil
}

// takeIdle returns an idle worker, or none and the spare to wait for.
func (r *Workers) takeIdle(tenant string) (*worker, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	living := r.idle[:0]
	for _, w := range r.idle {
		if !w.isDead() {
			living = append(living, w)
		}
	}
	r.idle = living
	if len(r.idle) == 0 {
		return nil, r.starting
	}
	best := 0
	for i, w := range r.idle {
		if w.tenant == tenant || w.tenant == "" && r.idle[best].tenant != tenant {
			best = i
		}
	}
	w := r.idle[best]
	r.idle = append(r.idle[:best], r.idle[best+1:]...)
	r.busy[w] = true
	w.tenant = tenant
	return w, nil
}

// put takes a worker back. One that was stopped by force, or that has served
// for long, is ended and replaced.
func (r *Workers) put(w *worker, healthy bool) {
	r.mu.Lock()
	delete(r.busy, w)
	keep := healthy && !r.closed && w.runs < workerRuns && len(r.idle) <= r.options.Workers
	if keep {
		r.idle = append(r.idle, w)
		w.since = time.Now()
		if len(r.idle) > minIdle && r.trimmer == nil {
			r.trimmer = time.AfterFunc(idleTime, r.trim)
		}
	}
	r.mu.Unlock()
	if !keep {
		w.kill()
		r.keepSpare()
	}
}

// idleTime is how long a worker may wait for work before it makes room.
const idleTime = time.Minute

// trim ends the workers that have waited for long, but for the few that are
// kept for the next run.
func (r *Workers) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trimmer = nil
	if r.closed {
		return
	}
	for len(r.idle) > minIdle && time.Since(r.idle[0].since) >= idleTime {
		r.idle[0].kill()
		r.idle = r.idle[1:]
	}
	if len(r.idle) > minIdle {
		r.trimmer = time.AfterFunc(idleTime, r.trim)
	}
}

// minIdle is how many workers are kept waiting: one to go on with, and a spare
// for when code takes that one down.
const minIdle = 2

// keepSpare starts a worker in the background when too few are idle, so that
// the next run finds one.
func (r *Workers) keepSpare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.starting != nil || len(r.idle) >= minIdle || len(r.busy) > r.options.Workers {
		return
	}
	ready := make(chan struct{})
	r.starting = ready
	r.spares.Add(1)
	go func() {
		defer r.spares.Done()
		w, err := r.starter.start(context.Background())
		r.mu.Lock()
		r.starting = nil
		close(ready)
		if err == nil && !r.closed {
			r.idle = append([]*worker{w}, r.idle...)
			w = nil
		}
		r.mu.Unlock()
		switch {
		case err != nil: // the next run will say so
		case w != nil:
			w.kill()
		default:
			r.keepSpare()
		}
	}()
}
