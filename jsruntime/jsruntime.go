// Package jsruntime runs the JavaScript of tenants: the code of reactors and
// proxy transforms, written for Node 16.
//
//	v, err := vault.Open(ctx, store, key, &vault.Config{Runtime: jsruntime.New(nil)})
//
// [New] runs the code in worker processes. Tenants do not share them, and they
// have no keys, environment, files or network. On Linux the kernel also rejects
// every system call that they do not need; see [Workers.Seccomp].
//
// A worker is the embedding program, started again. Importing this package is
// enough, and main does not change. Init functions also run in a worker, unless
// it is a separate program; see [WorkerMain].
//
// A run has a deadline and limits on memory, output, console and timers. It
// ends when it has returned its result. Code that loops, exhausts memory or
// crashes the engine takes down only its own worker.
//
// [NewInProcess] runs the code in the embedding process. It is for tests, and
// for code that you trust like your own.
//
// Package script describes the argument of the code and the operations it may
// call. If Host.Call returns an error that is not a [*script.HostError], the
// code learns only that the operation failed.
package jsruntime

import (
	"context"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/workers"
	"github.com/seed-72ea4aab/vault/script"
)

var (
	// ErrWorker means that no worker process could be started. The text gives
	// the reason.
	ErrWorker = workers.ErrWorker
	// ErrModules means that the folder of [Options.Modules] cannot be used.
	ErrModules = modules.ErrModules
)

// Workers runs tenant code in worker processes. It implements script.Runtime. Its
// method Close ends all workers, and runs in progress fail.
type Workers struct {
	runtime
	pool *workers.Pool
}

// runtime keeps the runtime in a struct from being changed.
type runtime = script.Runtime

var _ script.Reporter = (*Workers)(nil)

// New returns a runtime that isolates code in worker processes, and starts the
// first of them in the background. [Workers.Ready] and every call report an
// error if that fails. Code never runs in the embedding process instead.
func New(opts *Options) *Workers {
	pool := workers.New((*workers.Options)(opts))
	return &Workers{pool, pool}
}

// Ready starts a worker if none is idle. It returns an error if no worker can
// be started, or if the folder of [Options.Modules] cannot be read. Call it
// early to detect this before the first request.
func (w *Workers) Ready(ctx context.Context) error { return w.pool.Ready(ctx) }

// Seccomp returns nil if workers run under a filter of system calls. Otherwise
// the error names what the operating system lacks. Workers also start without a
// filter, so a program that requires one, or wants to log its absence, must
// check. Seccomp starts a worker if none is idle.
func (w *Workers) Seccomp(ctx context.Context) error { return w.pool.Seccomp(ctx) }

// Stats counts the workers and the runs that wait for one.
func (w *Workers) Stats() script.Stats { return w.pool.Stats() }

// InProcess runs tenant code in the embedding process. It implements
// script.Runtime. Its method Close rejects new runs.
type InProcess struct{ runtime }

// NewInProcess returns a runtime without worker processes. It stops JavaScript
// code at its deadline, but cannot interrupt built-in functions, and does not
// limit memory. About one in three of the attacks that [New] contains hangs or
// ends the process. Dates are in the time zone of the process, whereas workers
// use UTC. Use it in tests, and for code that you trust like the program
// itself.
func NewInProcess(opts *Options) *InProcess {
	return &InProcess{workers.NewInProcess((*workers.Options)(opts))}
}
