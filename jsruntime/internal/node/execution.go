// Package node runs programs in goja as Node 16 would. It has the event loop,
// the modules and globals of Node, and the operations that a run may request
// from its host. An [Engine] compiles and runs programs, with one runtime for
// each run.
package node

import (
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/crypto"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// maxStack limits the depth of calls, about as Node 16 does; beyond it a run ends.
// If generators call each other, goja needs time quadratic in the depth to unwind.
// At this depth that is a minute, so such a run ends by its timeout first.
const maxStack = 10_000

// Limits on what one run may have pending.
const (
	maxTimers      = 10_000
	maxHostPending = 64
	maxHostCalls   = 10_000
)

// Limits are the limits of one run. They are sent to the worker with it.
type Limits struct {
	Timeout   time.Duration
	MaxSource int
	MaxOutput int
	MaxLog    int
}

// Job is a piece of work for an engine: running code, or only loading it.
type Job struct {
	Check    bool
	Packages bool // the operator offers packages
	Hash     compile.Hash
	Source   string // empty in a worker if the parent has sent it before
	Input    json.RawMessage
	Limits   Limits
}

// port connects a run to the outside. Replies to calls come back through
// [Execution.Deliver].
type port interface {
	Call(id int, op string, args json.RawMessage)
	Log(level, line string)
	// Crashed reports a panic of the engine, with its text and stack.
	Crashed(text, stack string)
	// Ask sends a question about packages and returns the reply, unless done is
	// closed first.
	Ask(done <-chan struct{}, question string, args ...string) ([]string, error)
}

// Reply is the reply to a host call.
type Reply struct {
	ID     int
	Result json.RawMessage
	Err    *script.HostError
}

// Engine compiles and runs code. It is safe for concurrent use.
type Engine struct {
	cache compile.Cache
	Units modules.Units
}

// Execution is one run of a program, with its own runtime. It belongs to one
// goroutine, except for Deliver and Stop.
type Execution struct {
	native.Context
	code   *compile.Code
	units  *modules.Units // nil without packages
	port   port
	limits Limits
	brand  *goja.Symbol // marks the error classes that choose a response

	loop     loop
	regexps  regexps
	texts    texts
	natives  map[string]goja.Value
	modules  map[string]goja.Value   // of the prelude
	packages map[string]*goja.Object // the module object of each required unit
	used     map[string]bool         // units that the tenant's code has required
	crypto   crypto.State
	zlibs    map[int]zlibState
	lastZlib int
	logged   int
	taskErr  error         // the error of the task of a turn
	enter    goja.Callable // calls the trampoline, then runs promise jobs
	started  time.Time

	trampoline *goja.Object
	turn       func() // called by the trampoline
	jobs       jobFrames
	overflow   *goja.Object // the last error about too many calls
	counting   bool         // frames are being counted
	broken     bool         // too many calls left goja in the middle of a call

	mu      sync.Mutex
	stopped atomic.Pointer[script.ErrorKind]
	done    chan struct{} // closed by Stop
}

// newExecution prepares a runtime for a program.
func newExecution(code *compile.Code, p port, l Limits) *Execution {
	c := &Execution{
		code:    code,
		port:    p,
		limits:  l,
		natives: map[string]goja.Value{},
		modules: map[string]goja.Value{},
		used:    map[string]bool{},
		done:    make(chan struct{}),
		started: time.Now(),
	}
	c.VM = goja.New()
	c.crypto.Context = c.Context
	c.loop.replies = make(chan Reply, maxHostPending)
	c.VM.SetMaxCallStackSize(maxStack)
	c.VM.SetParserOptions(parser.WithDisableSourceMaps)
	c.VM.SetRandSource(rand.Float64)
	c.VM.SetPromiseRejectionTracker(c.trackRejection)
	c.newTrampoline()
	c.jobs.c = c
	c.VM.SetAsyncContextTracker(&c.jobs)
	return c
}

// Stop ends the run for a reason, from any goroutine, as soon as the runtime
// can be interrupted.
func (c *Execution) Stop(reason script.ErrorKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped.Load() != nil {
		return
	}
	c.stopped.Store(&reason)
	c.VM.Interrupt(string(reason))
	close(c.done)
}

// Deliver passes on the reply to a host call. There is room for every call that
// can be pending.
func (c *Execution) Deliver(r Reply) {
	select {
	case c.loop.replies <- r:
	case <-c.done:
	}
}

// Run does the job and returns the result as JSON. It calls started before any
// code of the tenant runs.
func (e *Engine) Run(j Job, p port, started func(*Execution)) (json.RawMessage, *script.Error) {
	begin := time.Now()
	code, bad := e.cache.Get(j.Hash, j.Limits.MaxSource, func() (string, *script.Error) { return sourceOf(j, p) })
	if bad != nil {
		return nil, bad
	}
	c := newExecution(code, p, j.Limits)
	if j.Packages {
		c.units = &e.Units
	}
	timer := time.AfterFunc(j.Limits.Timeout-time.Since(begin), func() { c.Stop(script.Timeout) })
	defer timer.Stop()
	defer c.jobs.close()
	defer c.closeStreams()
	defer c.Stop(script.Timeout)
	started(c)
	return c.do(j)
}

// AskSource is the question for the source of a run.
const AskSource = "source"

// sourceOf returns the source of a job. The parent does not send it again if it
// believes that the worker still has it compiled.
func sourceOf(j Job, p port) (string, *script.Error) {
	if j.Source != "" || j.Hash == sha256.Sum256(nil) {
		return j.Source, nil
	}
	answer, err := p.Ask(nil, AskSource)
	if err != nil || len(answer) != 1 {
		return "", StopError(script.Crash)
	}
	return answer[0], nil
}

// do loads the code, calls its function and waits for the result. A panic of
// the engine becomes an error of this run only.
func (c *Execution) do(j Job) (out json.RawMessage, bad *script.Error) {
	defer func() {
		if p := recover(); p != nil {
			out, bad = nil, c.panicked(p)
		}
	}()
	c.installGlobals()
	return c.perform(j)
}

// panicked returns the error of a run that a panic of the engine ended. If the
// run was stopped or called too deep, that is the reason.
func (c *Execution) panicked(p any) *script.Error {
	switch kind := c.stopped.Load(); {
	case kind != nil:
		return StopError(*kind)
	case c.overflow != nil:
		return c.tooDeep(nil)
	}
	c.port.Crashed(panicText(p), panicStack())
	return StopError(script.Crash)
}

// perform is do without the prelude and without recovering from panics.
func (c *Execution) perform(j Job) (json.RawMessage, *script.Error) {
	if j.Check {
		if bad := c.checkNames(); bad != nil {
			return nil, bad
		}
	}
	main, bad := c.load(j.Check)
	if bad != nil || j.Check {
		return nil, bad
	}
	req, err := c.request(j.Input)
	if err != nil {
		return nil, c.failure(err)
	}
	var result goja.Value
	if err := c.microtask(func() error {
		result, err = main(goja.Undefined(), req)
		return err
	}); err != nil {
		return nil, c.failure(err)
	}
	if result, err = c.settle(result); err != nil {
		return nil, c.failure(err)
	}
	return c.output(result)
}

// macrotask runs f as one turn of the event loop: f, then process.nextTick
// callbacks, then promise jobs, then the ticks that those added.
func (c *Execution) macrotask(f func() error) error {
	return c.microtask(func() error {
		if err := f(); err != nil {
			return err
		}
		return c.runTicks()
	})
}

// microtask runs f as a promise job. Other jobs run before the callbacks of
// process.nextTick.
func (c *Execution) microtask(f func() error) error {
	if err := c.enterTask(f); err != nil {
		return err
	}
	for len(c.loop.ticks) > 0 {
		if err := c.enterTask(c.runTicks); err != nil {
			return err
		}
	}
	return nil
}

// enterTask runs f, then the promise jobs.
func (c *Execution) enterTask(f func() error) error {
	c.taskErr = nil
	c.turn = func() { c.taskErr = f() }
	if _, err := c.enter(goja.Undefined(), c.trampoline); err != nil && c.taskErr == nil {
		return err
	}
	return c.taskErr
}

// native returns a function of the registry as a JavaScript function. A Go
// panic in it becomes an error of the calling code.
func (c *Execution) native(name string) goja.Value {
	if v, ok := c.natives[name]; ok {
		return v
	}
	f, ok := natives[name]
	if !ok {
		panic(c.VM.NewTypeError("no native " + name))
	}
	v := c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return f(c, fc.Arguments)
	})
	c.natives[name] = v
	return v
}

// recoverNative turns panics of Go into JavaScript errors. It passes on the
// panics with which goja throws.
func (c *Execution) recoverNative() {
	switch p := recover().(type) {
	case nil:
	case runtime.Error, string:
		c.port.Crashed(panicText(p), panicStack())
		panic(c.NewError("Error", "ERR_INTERNAL", "internal error"))
	default:
		panic(p)
	}
}
