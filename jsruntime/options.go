package jsruntime

import (
	"log/slog"
	"time"
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
