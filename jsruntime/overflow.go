package jsruntime

import (
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/script"
)

// Goja ends a run that calls too deep with an error that no catch sees. On the way
// it captures the stack, for which it reads the names of the native functions in it.
// Every turn of the event loop and every job of a promise begins in such a function,
// the trampoline, and its name is a getter: when it is read because there are too
// many calls, it throws the RangeError that code expects.

// trampolineName marks the trampoline's frame while frames are counted.
const trampolineName = "(trampoline)"

// trampoline makes an object whose property calls a native function: only a function
// that JavaScript calls has a frame, and reading a property runs no jobs of promises.
var trampoline = goja.MustCompile("vault:turn", "(turn) => ({ get turn() { turn(); } })", true)

// newTrampoline returns a function that calls c.turn in a frame whose name
// c.turnName gives.
func (c *execution) newTrampoline() func() {
	native := c.vm.ToValue(func(goja.FunctionCall) goja.Value {
		c.turn()
		return goja.Undefined()
	}).ToObject(c.vm)
	name := c.vm.ToValue(c.turnName)
	if err := native.DefineAccessorProperty("name", name, nil, goja.FLAG_FALSE, goja.FLAG_FALSE); err != nil {
		panic(err)
	}
	made, err := c.vm.RunProgram(trampoline)
	if err != nil {
		panic(err)
	}
	wrap, _ := goja.AssertFunction(made)
	holder, err := wrap(goja.Undefined(), native)
	if err != nil {
		panic(err)
	}
	return func() { holder.ToObject(c.vm).Get("turn") }
}

// jobFrames puts the trampoline under the jobs of promises. Goja says when one begins
// and ends, but runs it itself: so a coroutine waits within the trampoline meanwhile.
type jobFrames struct {
	c    *execution
	next func() (struct{}, bool)
	stop func()
}

// Grab implements [goja.AsyncContextTracker].
func (*jobFrames) Grab() any { return nil }

// Resumed implements [goja.AsyncContextTracker].
func (j *jobFrames) Resumed(any) {
	if j.next == nil {
		j.next, j.stop = iter.Pull(j.wait)
	}
	j.next()
}

// Exited implements [goja.AsyncContextTracker].
func (j *jobFrames) Exited() { j.next() }

// wait yields in turns within the trampoline and outside of it.
func (j *jobFrames) wait(yield func(struct{}) bool) {
	more := true
	for more {
		j.c.turn = func() { more = yield(struct{}{}) }
		j.c.jump()
		more = more && yield(struct{}{})
	}
}

// close ends the coroutine. A run that was stopped leaves it within the trampoline.
func (j *jobFrames) close() {
	if j.stop == nil {
		return
	}
	defer func() { _ = recover() }()
	j.stop()
}

// turnName is the name of the trampoline. It throws if it is read because there are
// too many calls.
func (c *execution) turnName(goja.FunctionCall) goja.Value {
	if c.counting {
		return c.vm.ToValue(trampolineName)
	}
	tooMany, starting := overflowing()
	if !tooMany {
		return c.vm.ToValue("")
	}
	c.broken = c.broken || starting
	c.counting = true
	defer func() { c.counting = false }()
	c.overflow = c.newRangeError(stopTexts[script.Stack])
	panic(c.overflow)
}

// newRangeError makes a RangeError without a call of JavaScript, and whatever code has
// made of the global of that name: it is the error of an array that cannot be.
func (c *execution) newRangeError(text string) *goja.Object {
	_, err := c.vm.New(c.vm.Get("Array"), c.vm.ToValue(-1))
	if thrown, ok := errors.AsType[*goja.Exception](err); ok {
		if o, ok := thrown.Value().(*goja.Object); ok && o.ClassName() == "Error" {
			c.set(o, "message", text)
			return o
		}
	}
	return c.vm.NewTypeError(text)
}

// overflowing reports whether goja is about to end the run because of too many calls.
// It captures stacks for other reasons, too; in this one it is about to make a call.
// starting means that the call is of an asynchronous function or a generator, which
// goja leaves half started.
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

// pushesCall is the method of goja that counts calls, and startsCall are those that
// start functions which can pause.
const pushesCall = "/goja.(*vm).pushCtx"

var startsCall = []string{"goja.(*asyncRunner).start", "goja.(*generatorObject).init", "goja.(*generator).enter", "goja.(*generator).next"}

// overflowed tells whether a value is the error of the last overflow.
func (c *execution) overflowed(v goja.Value) bool {
	return c.overflow != nil && c.overflow.SameAs(v)
}

// tooDeep is the error of a run that too many calls ended.
func (c *execution) tooDeep(stack []goja.StackFrame) *script.Error {
	e := stopError(script.Stack)
	e.Name = "RangeError"
	e.Frames = c.frames(stack)
	return e
}
