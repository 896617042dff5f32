package node

import (
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/script"
)

// If a run calls too deep, goja ends it with an error that no catch sees. On
// the way it captures the stack, and for that it reads the names of the native
// functions in it. Every turn of the event loop and every promise job begins in
// such a function, the trampoline. Its name is a getter: if it is read because
// there are too many calls, it throws the RangeError that code expects.

// trampolineName marks the trampoline's frame while frames are counted.
const trampolineName = "(trampoline)"

// callsTurn calls the trampoline, because only a function that JavaScript calls
// has a frame. readsTurn makes an object whose property calls it, because
// reading a property does not run promise jobs.
var (
	callsTurn = goja.MustCompile("vault:turn", "(turn) => { turn(); }", true)
	readsTurn = goja.MustCompile("vault:turn", "(turn) => ({ get turn() { turn(); } })", true)
)

// newTrampoline sets c.trampoline, a function that calls c.turn, and c.enter,
// which calls the trampoline and then runs the promise jobs. The getter of the
// function's name is the function itself, which saves the objects of a second
// function.
func (c *Execution) newTrampoline() {
	c.trampoline = c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		if !goja.IsUndefined(fc.This) {
			return c.turnName()
		}
		c.turn()
		return goja.Undefined()
	}).(*goja.Object)
	c.Must(c.trampoline.DefineAccessorProperty("name", c.trampoline, nil, goja.FLAG_FALSE, goja.FLAG_FALSE))
	made, err := c.VM.RunProgram(callsTurn)
	c.Must(err)
	c.enter, _ = goja.AssertFunction(made)
}

// newJump returns a function that calls the trampoline and does not run promise
// jobs.
func (c *Execution) newJump() func() {
	made, err := c.VM.RunProgram(readsTurn)
	c.Must(err)
	wrap, _ := goja.AssertFunction(made)
	holder, err := wrap(goja.Undefined(), c.trampoline)
	c.Must(err)
	return func() { holder.(*goja.Object).Get("turn") }
}

// jobFrames puts the trampoline under the promise jobs. goja reports when a job
// begins and ends, but runs it itself. So a coroutine waits within the
// trampoline in the meantime.
type jobFrames struct {
	c    *Execution
	jump func()
	next func() (struct{}, bool)
	stop func()
}

// Grab implements [goja.AsyncContextTracker].
func (*jobFrames) Grab() any { return nil }

// Resumed implements [goja.AsyncContextTracker].
func (j *jobFrames) Resumed(any) {
	if j.next == nil {
		j.jump = j.c.newJump()
		j.next, j.stop = iter.Pull(j.wait)
	}
	j.next()
}

// Exited implements [goja.AsyncContextTracker].
func (j *jobFrames) Exited() { j.next() }

// wait yields alternately inside and outside of the trampoline.
func (j *jobFrames) wait(yield func(struct{}) bool) {
	more := true
	for more {
		j.c.turn = func() { more = yield(struct{}{}) }
		j.jump()
		more = more && yield(struct{}{})
	}
}

// close ends the coroutine. A run that was stopped leaves it within the
// trampoline.
func (j *jobFrames) close() {
	if j.stop == nil {
		return
	}
	defer func() { _ = recover() }()
	j.stop()
}

// turnName returns the name of the trampoline. It throws if it is read because
// there are too many calls.
func (c *Execution) turnName() goja.Value {
	if c.counting {
		return c.VM.ToValue(trampolineName)
	}
	tooMany, starting := overflowing()
	if !tooMany {
		return c.VM.ToValue("")
	}
	c.broken = c.broken || starting
	c.counting = true
	defer func() { c.counting = false }()
	c.overflow = c.newRangeError(stopTexts[script.Stack])
	panic(c.overflow)
}

// newRangeError makes a RangeError without calling JavaScript, whatever code
// has done to the global of that name. It is the error of an impossible array.
func (c *Execution) newRangeError(text string) *goja.Object {
	_, err := c.VM.New(c.VM.Get("Array"), c.VM.ToValue(-1))
	if thrown, ok := errors.AsType[*goja.Exception](err); ok {
		if o, ok := thrown.Value().(*goja.Object); ok && o.ClassName() == "Error" {
			c.Set(o, "message", text)
			return o
		}
	}
	return c.VM.NewTypeError(text)
}

// overflowing reports whether goja is about to end the run because of too many
// calls. goja also captures stacks for other reasons, but in this case it is
// about to make a call. starting means that the call is of an asynchronous
// function or a generator, which goja leaves half started.
func overflowing() (tooMany, starting bool) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		tooMany = tooMany || strings.HasSuffix(f.Function, pushesCall)
		starting = starting || tooMany && slices.Contains(startsCall, f.Function[strings.LastIndexByte(f.Function, '/')+1:])
		if !more {
			return tooMany, starting
		}
	}
}

// pushesCall is the method of goja that counts calls. startsCall are the
// methods that start functions that can pause.
const pushesCall = "/goja.(*vm).pushCtx"

var startsCall = []string{"goja.(*asyncRunner).start", "goja.(*generatorObject).init", "goja.(*generator).enter", "goja.(*generator).next"}

// overflowed reports whether a value is the error of the last overflow.
func (c *Execution) overflowed(v goja.Value) bool {
	return c.overflow != nil && c.overflow.SameAs(v)
}

// tooDeep returns the error of a run that ended because of too many calls.
func (c *Execution) tooDeep(stack []goja.StackFrame) *script.Error {
	e := StopError(script.Stack)
	e.Name = "RangeError"
	e.Frames = c.frames(stack)
	return e
}
