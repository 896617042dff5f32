// Package jsruntime runs the JavaScript of tenants: the code of reactors and
// proxy transforms, written for Node 16.
//
//	v, err := vault.Open(ctx, store, key, &vault.Config{Runtime: jsruntime.New(nil)})
//
// [New] keeps the code in worker processes, which hold no keys, no
// environment, no files and no network, and which tenants do not share. On
// Linux the kernel also refuses them every system call that they do not need;
// see [Pool.Seccomp]. The worker is the embedding program itself, started
// again: importing this package is all it takes, and main stays as it is. Init
// functions run in a worker, too, unless it is a program of its own; see
// [WorkerMain]. A run has a deadline, bounds on memory, output, console and
// timers, and cannot outlive its answer. Code that loops, exhausts memory or
// crashes the engine takes its own worker down and nothing else.
//
// [NewInProcess] runs the code in the embedding process, for tests and for
// code that one trusts as much as one's own.
//
// Package script says which argument the code gets and what it may ask for. Of
// an error of Host.Call that is not a [*script.HostError] the code learns only
// that the operation failed.
package jsruntime

import (
	"context"
	"encoding/json"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/workers"
	"github.com/seed-72ea4aab/vault/script"
)

var (
	// ErrWorker means that no worker process could be started. The text says what
	// the attempt ended with.
	ErrWorker = workers.ErrWorker
	// ErrModules means that the folder of [Options.Modules] cannot be used.
	ErrModules = modules.ErrModules
)

// Workers runs tenant code in worker processes. It is a script.Runtime.
type Workers struct {
	pool *workers.Pool
}

var (
	_ script.Runtime  = (*Workers)(nil)
	_ script.Reporter = (*Workers)(nil)
	_ script.Runtime  = (*InProcess)(nil)
)

// New returns a runtime that isolates code in worker processes, and begins to
// start the first of them. [Workers.Ready] and every call report whether that
// works; code never runs in the embedding process instead.
func New(opts *Options) *Workers { return &Workers{workers.New((*workers.Options)(opts))} }

// Ready starts a worker if none is idle, and returns the error if it cannot be
// started, or if the folder of [Options.Modules] cannot be read. A program that
// calls it early finds out before its first request.
func (w *Workers) Ready(ctx context.Context) error { return w.pool.Ready(ctx) }

// Seccomp returns nil if workers run under a filter of system calls, and else an
// error that says what the operating system lacks. Workers start without a
// filter, too, where there is none: a program that insists on it, or wants to log
// it, asks here. It starts a worker if none is idle.
func (w *Workers) Seccomp(ctx context.Context) error { return w.pool.Seccomp(ctx) }

// Check loads the code without calling its function.
func (w *Workers) Check(ctx context.Context, p script.Program) error { return w.pool.Check(ctx, p) }

// Run calls the function that the code exports, in a worker.
func (w *Workers) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return w.pool.Run(ctx, p, input, host)
}

// Stats counts the workers, and the runs that wait for one.
func (w *Workers) Stats() script.Stats { return w.pool.Stats() }

// Close ends all workers. Runs in progress fail.
func (w *Workers) Close() error { return w.pool.Close() }

// InProcess runs tenant code in the embedding process. It is a script.Runtime.
type InProcess struct {
	runs *workers.InProcess
}

// NewInProcess returns a runtime without worker processes. It stops code at
// its deadline wherever JavaScript itself runs, but it cannot interrupt
// built-in functions and has no bound on memory: about one in three of the
// attacks that [New] contains hangs or ends the process. Dates are in the time
// zone of the process, where workers have UTC. Use it in tests, and for code
// that is trusted like the program itself.
func NewInProcess(opts *Options) *InProcess {
	return &InProcess{workers.NewInProcess((*workers.Options)(opts))}
}

// Check loads the code without calling its function.
func (r *InProcess) Check(ctx context.Context, p script.Program) error { return r.runs.Check(ctx, p) }

// Run calls the function that the code exports.
func (r *InProcess) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return r.runs.Run(ctx, p, input, host)
}

// Close turns new runs away.
func (r *InProcess) Close() error { return r.runs.Close() }
