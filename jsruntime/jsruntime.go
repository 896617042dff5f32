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
	"log/slog"
	"time"

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

// New returns a runtime that isolates code in worker processes. Unless
// [Options.Lazy] is set, it starts the first of them in the background. [Workers.Ready] and every call report an
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

// Options configure a runtime. The zero value of every field is a safe default.
type Options struct {
	// Workers is the number of concurrent runs. Each run has its own process,
	// which is kept for the next run of its tenant until another tenant needs
	// its slot. The default is 4 per CPU, and at least 8.
	//
	// Runs may be nested three deep. Each level has as many slots, so there
	// are at most three times as many processes, and two spare ones.
	Workers int
	// TenantWorkers is how many of these slots one tenant may use, on each
	// level. The default is half of Workers, so that one tenant cannot block
	// the others. Runs of proxies that are called without an API key may use
	// half of a tenant's slots.
	TenantWorkers int
	// Queue is how many runs may wait for a slot. One tenant may use half of
	// it. Further runs are rejected with script.ErrBusy. The default is 8 times
	// Workers; a negative number means none.
	Queue int
	// Timeout is the time limit of a run whose context has no deadline. The
	// default is 10 seconds.
	Timeout time.Duration
	// CheckTimeout is the time limit for Check to compile and load code, even
	// if its context allows more. The default is 10 seconds.
	CheckTimeout time.Duration
	// MemoryLimit is the heap size of a run in bytes. The operating system ends
	// a worker process that uses more than twice as much. The default is 128
	// MiB.
	MemoryLimit int64
	// MaxSource, MaxOutput and MaxLog limit the code, the result, and the
	// console output of a run, in bytes. The defaults are 4,000,000, 5 MiB and
	// 64 KiB.
	MaxSource, MaxOutput, MaxLog int
	// Modules is a folder with a node_modules folder, from which code may
	// require packages. Its code runs beside the data of all tenants, within
	// the limits of a worker, so install only packages that you have vetted. By
	// default there are no packages.
	//
	// The runtime reads the names of packages when it is created. It reads the
	// files of a package once, when the package is first required. It reads
	// nothing outside of the folder and follows no symbolic link that leads out
	// of it.
	Modules string
	// ShareWorkers lets a worker run the code of several tenants, one after the
	// other. By default each tenant has separate processes. A run of a tenant
	// without a process takes a spare one, or waits for a new process to start.
	// Sharing saves that wait if many tenants take turns. In return, code that
	// breaks out of the interpreter can read what other tenants have left in
	// the memory of its process.
	ShareWorkers bool
	// WorkerPath is a program to start as a worker instead of the embedding
	// one. Otherwise the init functions of the embedding program run in every
	// worker, with the secrets that they read. The program only needs to call
	// [WorkerMain].
	WorkerPath string
	// Lazy starts no worker before the first run. It is for programs that seldom
	// run code.
	Lazy bool
	// Logger receives the panics of the JavaScript engine, with the function
	// and line, and the names of the tenant and the program. They contain no
	// data that the code was given. The default is [slog.Default].
	Logger *slog.Logger
}
