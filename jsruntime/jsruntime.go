// Package jsruntime runs the JavaScript of tenants: the code of reactors and
// proxy transforms, written for Node 16.
//
//	v, err := vault.Open(ctx, store, key, &vault.Config{Runtime: jsruntime.New(nil)})
//
// [New] keeps the code in worker processes, which hold no keys, no
// environment, no files and no network. The worker is the embedding program
// itself, started again: importing this package is all it takes, and main
// stays as it is. A run has a deadline, bounds on memory, output, console and
// timers, and cannot outlive its answer. Code that loops, exhausts memory or
// crashes the engine takes its own worker down and nothing else.
//
// [NewInProcess] runs the code in the embedding process, for tests and for
// code that one trusts as much as one's own.
//
// # The argument
//
// The input of Run is a JSON object
//
//	{"args": ..., "configuration": {...}, "application": true}
//
// and the exported function is called with {args, configuration, bt, client}.
// bt and client are the same object: the vault's client, or null unless
// application is true.
//
// # Operations of the host
//
// What the code asks for arrives at Host.Call as an operation and a JSON
// object, and is answered in JSON:
//
//	tokens.create     {type, data, ...}            a token
//	tokens.retrieve   {id}                         a token
//	tokens.update     {id, patch}                  a token
//	tokens.delete     {id}                         null
//	tokens.list       {id, type, metadata, page, size}  a page
//	tokens.search     {query, page, size}          a page
//	tokenize          any JSON                     the same structure
//	detokenize        any JSON                     the same structure
//	reactors.react    {id, body: {args, ...}}      {tokens, raw}
//	proxy.get ... proxy.delete  {path, query, headers, body, proxyKey, proxyUrl, ...}  as the host defines
//	logs.list         {entity_type, ..., page, size}  a page
//	sessions.create   {}                           {session_key, nonce, expires_at}
//	sessions.authorize {nonce, permissions, rules, expires_at}  null
//	fetch             {method, url, headers: [[name, value], ...], body}
//	                  {status, status_text, url, headers: [[name, value], ...], body}
//
// Names are snake_case in JSON and camelCase in JavaScript, where data and
// metadata are left as they are. The body of fetch is base64 both ways, and
// absent when empty. An error of Host.Call rejects the promise in the code;
// see [vault.HostError] for what the code gets to know.
package jsruntime

import (
	"context"
	"encoding/json"
	"runtime"
	"time"

	vault "github.com/seed-72ea4aab/vault"
)

// Options adjust a runtime. The zero value of every field is a default that
// is safe.
type Options struct {
	// Workers is how many runs may go on at a time. Each has a process of its
	// own, started when it is needed. Runs that other runs wait for, down to the
	// third in a row, have as many places again on each level, so that there are
	// at most three times as many processes, and two spare ones. The default is 4
	// for each CPU, at least 8.
	Workers int
	// TenantWorkers is how many of them one tenant may have, on each level. The
	// default is half of Workers, so that one tenant cannot keep the others out.
	TenantWorkers int
	// Queue is how many runs may wait for a place, half of them of one tenant.
	// Beyond it they are refused with vault.ErrBusy. The default is 8 for each
	// of Workers; a negative number means none.
	Queue int
	// Timeout is the time of a run whose context has no deadline. The default
	// is 10 seconds.
	Timeout time.Duration
	// MemoryLimit is how many bytes of heap a run may use. A worker process is
	// given twice as much before the operating system ends it. The default is
	// 128 MiB.
	MemoryLimit int64
	// MaxSource, MaxOutput and MaxLog bound, in bytes, the code (200,000), the
	// result (5 MiB) and the console output of a run (64 KiB).
	MaxSource, MaxOutput, MaxLog int
	// WorkerPath is a program to start as a worker instead of the embedding
	// one. It needs to import this package and to do nothing. A program whose
	// init functions are slow or open things is better off with one.
	WorkerPath string
}

// withDefaults returns the options with every field set.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	setDefault(&out.Workers, max(8, 4*runtime.GOMAXPROCS(0)))
	setDefault(&out.TenantWorkers, max(1, out.Workers/2))
	setDefault(&out.Queue, 8*out.Workers)
	setDefault(&out.Timeout, 10*time.Second)
	setDefault(&out.MemoryLimit, 128<<20)
	setDefault(&out.MaxSource, 200_000)
	setDefault(&out.MaxOutput, 5<<20)
	setDefault(&out.MaxLog, 64<<10)
	return out
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// gates returns the gates that the options describe. Runs within runs are
// never too many to wait: each outermost one has a few.
func (o Options) gates() *gates {
	queue := max(0, o.Queue)
	g := gates{{max: o.Workers, perTenant: o.TenantWorkers, queue: queue, perQueue: (queue + 1) / 2}}
	for depth := 1; depth < maxNested; depth++ {
		most := nestedWidth * o.Workers
		g[depth] = &gate{max: o.Workers, perTenant: o.TenantWorkers, queue: most, perQueue: most}
	}
	return &g
}

// job returns the job for a program. Its time is what is left of the context's.
func (o Options) job(ctx context.Context, p vault.Program, input json.RawMessage, check bool) job {
	l := limits{Timeout: o.Timeout, MaxSource: o.MaxSource, MaxOutput: o.MaxOutput, MaxLog: o.MaxLog}
	if deadline, ok := ctx.Deadline(); ok {
		l.Timeout = max(time.Millisecond, time.Until(deadline))
	}
	return job{check: check, source: p.Source, input: input, limits: l}
}

// noHost is the host of code that is only checked.
type noHost struct{}

// Call refuses.
func (noHost) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &vault.HostError{Message: "not available while the code is loaded"}
}

// Log drops the line.
func (noHost) Log(string, string) {}

// callHost carries out an operation for a run. A panic of the host is an
// error of the operation.
func callHost(ctx context.Context, host vault.Host, id int, op string, args []byte) (r reply) {
	defer func() {
		if p := recover(); p != nil {
			r = reply{id: id, err: &vault.HostError{Status: 500, Message: "the operation failed"}}
		}
	}()
	result, err := host.Call(ctx, op, args)
	if err != nil {
		return reply{id: id, err: vault.AsHostError(err)}
	}
	if len(result) == 0 {
		result = []byte("null")
	}
	return reply{id: id, result: result}
}

// logHost hands a line of the console to the host. A panic there loses the
// line, and not the run.
func logHost(host vault.Host, level, line string) {
	defer func() { _ = recover() }()
	host.Log(level, line)
}
