// Package jsruntime runs the JavaScript of tenants: the code of reactors and
// proxy transforms, written for Node 16.
//
//	v, err := vault.Open(ctx, store, key, &vault.Config{Runtime: jsruntime.New(nil)})
//
// [New] keeps the code in worker processes, which hold no keys, no
// environment, no files and no network, and which tenants do not share. On
// Linux the kernel also refuses them every system call that they do not need;
// see [Workers.Seccomp]. The worker is the embedding program itself, started
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
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/seed-72ea4aab/vault/script"
)

// Options adjust a runtime. The zero value of every field is a default that
// is safe.
type Options struct {
	// Workers is how many runs may go on at a time. Each has a process of its
	// own, which waits for the next run of its tenant as long as no other needs
	// its place. Runs that other runs wait for, down to the third in a row, have
	// as many places again on each level, so that there are at most three times as
	// many processes, and two spare ones. The default is 4 for each CPU, at least
	// 8.
	Workers int
	// TenantWorkers is how many of them one tenant may have, on each level. The
	// default is half of Workers, so that one tenant cannot keep the others out.
	TenantWorkers int
	// Queue is how many runs may wait for a place, half of them of one tenant.
	// Beyond it they are refused with script.ErrBusy. The default is 8 for each
	// of Workers; a negative number means none.
	Queue int
	// Timeout is the time of a run whose context has no deadline. The default
	// is 10 seconds.
	Timeout time.Duration
	// CheckTimeout is the time that Check has to compile and load code, however
	// much its context leaves. The default is 10 seconds.
	CheckTimeout time.Duration
	// MemoryLimit is how many bytes of heap a run may use. A worker process is
	// given twice as much before the operating system ends it. The default is
	// 128 MiB.
	MemoryLimit int64
	// MaxSource, MaxOutput and MaxLog bound, in bytes, the code (4,000,000), the
	// result (5 MiB) and the console output of a run (64 KiB).
	MaxSource, MaxOutput, MaxLog int
	// Modules is a folder with a node_modules in it, from which code may require
	// packages. Whoever may write there decides what runs beside the data of all
	// tenants, within the bounds of a worker: put there what was vetted. The names
	// are read when the runtime is made; the files of a package when it is first
	// asked for, and then no more. Nothing outside of the folder is read, and no
	// symbolic link leads out of it. By default there are no packages.
	Modules string
	// ShareWorkers lets a worker that has run code of one tenant run that of
	// another. By default each tenant has processes of its own: a run of a tenant
	// that has none takes a spare one, and waits for a process to start when there
	// is none left. Shared workers save that wait where many tenants take turns.
	// In return, code that breaks out of the interpreter can read what other
	// tenants have left in the memory of its process.
	ShareWorkers bool
	// WorkerPath is a program to start as a worker instead of the embedding one,
	// whose init functions otherwise run in every worker, with the secrets that
	// they read. [WorkerMain] is all that it needs.
	WorkerPath string
	// Logger gets the panics of the JavaScript engine, with the function and line
	// where they happened and the names of the tenant and the program. Nothing that
	// code was given is in them. The default is [slog.Default].
	Logger *slog.Logger
}

// defaultTimeout is the time of a run or a check whose context has no deadline.
// Tests that must pass on a busy machine raise it.
var defaultTimeout = 10 * time.Second

// withDefaults returns the options with every field set.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	setDefault(&out.Workers, max(8, 4*runtime.GOMAXPROCS(0)))
	setDefault(&out.TenantWorkers, max(1, out.Workers/2))
	setDefault(&out.Queue, 8*out.Workers)
	setDefault(&out.Timeout, defaultTimeout)
	setDefault(&out.CheckTimeout, defaultTimeout)
	setDefault(&out.MemoryLimit, 128<<20)
	setDefault(&out.MaxSource, 4_000_000)
	setDefault(&out.MaxOutput, 5<<20)
	setDefault(&out.MaxLog, 64<<10)
	return out
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// gates returns the gates that the options describe. The
// queues of nested runs are large enough for all of them: each outermost run has
// a few.
func (o Options) gates() *gates {
	queue := max(0, o.Queue)
	g := gates{{max: o.Workers, perTenant: o.TenantWorkers, queue: queue, perQueue: (queue + 1) / 2}}
	for depth := 1; depth < maxNested; depth++ {
		most := nestedWidth * o.Workers
		g[depth] = &gate{max: o.Workers, perTenant: o.TenantWorkers, queue: most, perQueue: most}
	}
	return &g
}

// job returns the job for a program. Its time is what is left of the context's; a
// check has no more than its own.
func (o Options) job(ctx context.Context, p script.Program, input json.RawMessage, check bool) job {
	l := limits{Timeout: o.Timeout, MaxSource: o.MaxSource, MaxOutput: o.MaxOutput, MaxLog: o.MaxLog}
	deadline, ok := ctx.Deadline()
	left := max(time.Millisecond, time.Until(deadline))
	switch {
	case check && ok:
		l.Timeout = min(left, o.CheckTimeout)
	case check:
		l.Timeout = o.CheckTimeout
	case ok:
		l.Timeout = left
	}
	return job{check: check, packages: o.Modules != "", hash: sha256.Sum256([]byte(p.Source)), source: p.Source, input: input, limits: l}
}

// noHost is the host of code that is only checked.
type noHost struct{}

// Call refuses.
func (noHost) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &script.HostError{Message: "not available while the code is loading"}
}

// Log drops the line.
func (noHost) Log(script.Line) {}

// callHost carries out an operation for a run. A panic of the host is an
// error of the operation.
func callHost(ctx context.Context, host script.Host, id int, op string, args json.RawMessage) (r reply) {
	defer func() {
		if p := recover(); p != nil {
			r = reply{id: id, err: failedOperation()}
		}
	}()
	result, err := host.Call(ctx, op, args)
	if err != nil {
		return reply{id: id, err: hostError(err)}
	}
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	return reply{id: id, result: result}
}

// hostError returns what the code may know of an error of the host.
func hostError(err error) *script.HostError {
	if known, ok := errors.AsType[*script.HostError](err); ok {
		return known
	}
	return failedOperation()
}

// failedOperation is the error of an operation whose cause is not the code's to
// know.
func failedOperation() *script.HostError {
	return &script.HostError{Status: http.StatusInternalServerError, Message: "the operation failed"}
}

// logHost hands a line of the console to the host. A panic there loses the
// line, and not the run.
func logHost(host script.Host, level, line string) {
	defer func() { _ = recover() }()
	host.Log(script.Line{Level: level, Text: line})
}
