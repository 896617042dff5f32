package jsruntime

import (
	"log/slog"
	"time"
)

// Options configure a runtime. The zero value of every field is a safe default.
type Options struct {
	// Workers is the number of concurrent runs. Each run has its own process,
	// which is kept for the next run of its tenant until another tenant needs
	// its place. The default is 4 per CPU, and at least 8.
	//
	// Runs may be nested three deep. Each level has as many places, so there
	// are at most three times as many processes, and two spare ones.
	Workers int
	// TenantWorkers is how many of these places one tenant may use, on each
	// level. The default is half of Workers, so that one tenant cannot block
	// the others. Runs of proxies that are called without an API key may use
	// half of a tenant's places.
	TenantWorkers int
	// Queue is how many runs may wait for a place. One tenant may use half of
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
	// Logger receives the panics of the JavaScript engine, with the function
	// and line, and the names of the tenant and the program. They contain no
	// data that the code was given. The default is [slog.Default].
	Logger *slog.Logger
}
