package jsruntime

import (
	"crypto/sha256"
	"encoding/json"
	"hash"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/seed-72ea4aab/vault/script"
)

// maxStack bounds calls within calls; beyond it a run ends. Where functions of Go
// and of JavaScript call each other in turns, goja needs time quadratic in the depth
// to unwind, more than a second for as many, so that this is about the most it can
// take.
const maxStack = 4000

// Bounds on what one run may have pending.
const (
	maxTimers      = 10_000
	maxHostPending = 64
	maxHostCalls   = 10_000
)

// limits bound one run. They travel to the worker with it.
type limits struct {
	Timeout   time.Duration
	MaxSource int
	MaxOutput int
	MaxLog    int
}

// job is one piece of work for an engine: to run code, or only to load it.
type job struct {
	check    bool
	packages bool // the operator offers some
	hash     codeHash
	source   string // in a worker empty if the parent has sent it before
	input    json.RawMessage
	limits   limits
}

// port is how a run reaches the world. Answers to calls come back through
// [execution.deliver].
type port interface {
	call(id int, op string, args json.RawMessage)
	log(level, line string)
	// crashed takes a panic of the engine: its text and its stack.
	crashed(text, stack string)
	// ask has a question about packages answered, unless done is closed first.
	ask(done <-chan struct{}, question string, args ...string) ([]string, error)
}

// reply answers a host call.
type reply struct {
	id     int
	result json.RawMessage
	err    *script.HostError
}

// engine compiles and runs code. It may be used by several goroutines.
type engine struct {
	cache programCache
	units unitCache
}

// execution is one run of one program in a runtime of its own. It belongs to one
// goroutine, but for deliver and stop.
type execution struct {
	vm     *goja.Runtime
	code   *compiled
	units  *unitCache // nil without packages
	port   port
	limits limits
	brand  *goja.Symbol // marks the error classes that choose an answer

	loop     loop
	regexps  regexps
	natives  map[string]goja.Value
	modules  map[string]goja.Value   // of the prelude
	packages map[string]*goja.Object // the module object of each unit that was required
	used     map[string]bool         // units that the tenant's code has required
	hashes   []hash.Hash
	ciphers  []*cipherState
	zlibs    map[int]zlibState
	lastZlib int
	logged   int
	task     func()        // what the trampoline runs
	taskErr  error         // what it ended with
	enter    goja.Callable // runs the task, then the jobs of promises
	started  time.Time

	jump     func() // calls turn within the trampoline
	turn     func()
	jobs     jobFrames
	overflow *goja.Object // the last error of too many calls
	counting bool         // of frames is under way
	broken   bool         // too many calls left goja half way through a call

	mu      sync.Mutex
	stopped atomic.Pointer[script.ErrorKind]
	done    chan struct{} // closed by stop
}

// newExecution prepares a runtime for a program.
func newExecution(code *compiled, p port, l limits) *execution {
	c := &execution{
		vm:      goja.New(),
		code:    code,
		port:    p,
		limits:  l,
		natives: map[string]goja.Value{},
		modules: map[string]goja.Value{},
		used:    map[string]bool{},
		done:    make(chan struct{}),
		started: time.Now(),
	}
	c.loop.replies = make(chan reply, maxHostPending)
	c.vm.SetMaxCallStackSize(maxStack)
	c.vm.SetParserOptions(parser.WithDisableSourceMaps)
	c.vm.SetRandSource(rand.Float64)
	c.vm.SetPromiseRejectionTracker(c.trackRejection)
	c.jump = c.newTrampoline()
	c.jobs.c = c
	c.vm.SetAsyncContextTracker(&c.jobs)
	c.enter, _ = goja.AssertFunction(c.vm.ToValue(func(goja.FunctionCall) goja.Value {
		c.turn = c.task
		c.jump()
		return goja.Undefined()
	}))
	return c
}

// stop ends the run for a reason, from any goroutine, as soon as the runtime
// can be interrupted.
func (c *execution) stop(reason script.ErrorKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped.Load() != nil {
		return
	}
	c.stopped.Store(&reason)
	c.vm.Interrupt(string(reason))
	close(c.done)
}

// deliver passes on the answer to a host call. There is room for every call that
// can be pending.
func (c *execution) deliver(r reply) {
	select {
	case c.loop.replies <- r:
	case <-c.done:
	}
}

// run does the job and returns the result as JSON. It calls
// started before any code of the tenant runs.
func (e *engine) run(j job, p port, started func(*execution)) (json.RawMessage, *script.Error) {
	begin := time.Now()
	code, bad := e.cache.get(j.hash, j.limits.MaxSource, func() (string, error) { return sourceOf(j, p) })
	if bad != nil {
		return nil, bad
	}
	c := newExecution(code, p, j.limits)
	if j.packages {
		c.units = &e.units
	}
	timer := time.AfterFunc(j.limits.Timeout-time.Since(begin), func() { c.stop(script.Timeout) })
	defer timer.Stop()
	defer c.jobs.close()
	defer c.closeStreams()
	defer c.stop(script.Timeout)
	started(c)
	return c.do(j)
}

// sourceOf returns the source of a job. The parent does not send it again when it
// believes that the worker still has it compiled.
func sourceOf(j job, p port) (string, error) {
	if j.source != "" || j.hash == sha256.Sum256(nil) {
		return j.source, nil
	}
	answer, err := p.ask(nil, askSource)
	if err != nil || len(answer) != 1 {
		return "", errFrame
	}
	return answer[0], nil
}

// do loads the code, calls its function and waits for the outcome. A panic of
// the engine is an error of this run and of nothing else.
func (c *execution) do(j job) (out json.RawMessage, bad *script.Error) {
	defer func() {
		if p := recover(); p != nil {
			out, bad = nil, c.panicked(p)
		}
	}()
	c.installGlobals()
	return c.perform(j)
}

// panicked is the error of a run that a panic of the engine ended. A run that was
// stopped meanwhile, or that called too deep, ended for that reason.
func (c *execution) panicked(p any) *script.Error {
	switch kind := c.stopped.Load(); {
	case kind != nil:
		return stopError(*kind)
	case c.overflow != nil:
		return c.tooDeep(nil)
	}
	c.port.crashed(panicText(p), panicStack())
	return stopError(script.Crash)
}

// perform is do without the prelude and without recovering from panics.
func (c *execution) perform(j job) (json.RawMessage, *script.Error) {
	if j.check {
		if bad := c.checkNames(); bad != nil {
			return nil, bad
		}
	}
	main, bad := c.load(j.check)
	if bad != nil || j.check {
		return nil, bad
	}
	req, err := c.request(j.input)
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
func (c *execution) macrotask(f func() error) error {
	return c.microtask(func() error {
		if err := f(); err != nil {
			return err
		}
		return c.runTicks()
	})
}

// microtask runs f as a job of a promise: other jobs go before the callbacks of
// process.nextTick.
func (c *execution) microtask(f func() error) error {
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

// enterTask runs f, then the jobs of promises.
func (c *execution) enterTask(f func() error) error {
	c.taskErr = nil
	c.task = func() { c.taskErr = f() }
	if _, err := c.enter(goja.Undefined()); err != nil && c.taskErr == nil {
		return err
	}
	return c.taskErr
}

// native returns a function of the registry as a JavaScript function. A Go
// panic in it is an error of the code that called it.
func (c *execution) native(name string) goja.Value {
	if v, ok := c.natives[name]; ok {
		return v
	}
	f, ok := natives[name]
	if !ok {
		panic(c.vm.NewTypeError("no native " + name))
	}
	v := c.vm.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return f(c, fc.Arguments)
	})
	c.natives[name] = v
	return v
}

// recoverNative turns Go's own panics into JavaScript errors. Those by which
// goja throws pass.
func (c *execution) recoverNative() {
	switch p := recover().(type) {
	case nil:
	case runtime.Error, string:
		c.port.crashed(panicText(p), panicStack())
		panic(c.newError("Error", "ERR_INTERNAL", "internal error"))
	default:
		panic(p)
	}
}
