package node

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// loop is the event loop of one run: callbacks that wait for their turn. It
// ends with the run; nothing continues in the background.
type loop struct {
	ticks      []goja.Callable
	immediates []*timer
	timers     []*timer // in the order in which they are due
	byID       map[int]*timer
	lastID     int
	pending    map[int]goja.Callable // host calls without a reply
	calls      int
	replies    chan Reply
	rejected   []*goja.Promise // without a handler
}

// timer is a callback of setTimeout, setInterval or setImmediate.
type timer struct {
	id    int
	at    time.Time
	every time.Duration // 0 for once
	f     goja.Callable
	weak  bool // unref: does not keep the loop alive
	gone  bool
}

// compareTimers orders timers by time, then by age.
func compareTimers(a, b *timer) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) }

var errDeadlock = errors.New("the function waits for a promise that nothing can settle")

// settle returns a value, or waits for it if it is a promise.
func (c *Execution) settle(v goja.Value) (goja.Value, error) {
	p, ok := asPromise(v)
	if !ok {
		wrapped, err := c.adopt(v)
		if err != nil || wrapped == nil {
			return v, err
		}
		p = wrapped
	}
	for p.State() == goja.PromiseStatePending {
		if err := c.reportRejections(); err != nil {
			return nil, err
		}
		progress, err := c.step()
		if err != nil {
			return nil, err
		}
		if !progress && p.State() == goja.PromiseStatePending {
			return nil, errDeadlock
		}
	}
	if p.State() == goja.PromiseStateRejected {
		return nil, &rejection{p.Result()}
	}
	return p.Result(), nil
}

// trackRejection keeps the rejected promises without a handler.
func (c *Execution) trackRejection(p *goja.Promise, op goja.PromiseRejectionOperation) {
	if op == goja.PromiseRejectionReject {
		c.loop.rejected = append(c.loop.rejected, p)
		return
	}
	c.loop.rejected = slices.DeleteFunc(c.loop.rejected, func(other *goja.Promise) bool { return other == p })
}

// reportRejections reports rejections that still have no handler after
// everything due has run, to the code or to the log.
func (c *Execution) reportRejections() error {
	if len(c.loop.rejected) == 0 {
		return nil
	}
	var pairs []any
	for _, p := range c.loop.rejected {
		pairs = append(pairs, c.VM.NewArray(p.Result(), c.VM.ToValue(p)))
	}
	c.loop.rejected = nil
	return c.macrotask(func() error {
		report, _ := goja.AssertFunction(c.module("rejections"))
		_, err := report(goja.Undefined(), c.VM.NewArray(pairs...))
		return err
	})
}

// rejection is the reason of a rejected promise.
type rejection struct{ reason goja.Value }

func (*rejection) Error() string { return "promise rejected" }

// promiseType distinguishes promises from other objects without running any
// code.
var promiseType = reflect.TypeFor[*goja.Promise]()

func asPromise(v goja.Value) (*goja.Promise, bool) {
	o, ok := v.(*goja.Object)
	if !ok || o.ExportType() != promiseType {
		return nil, false
	}
	p, ok := o.Export().(*goja.Promise)
	return p, ok
}

// adopt returns a promise that follows a thenable of another kind, or nil for
// any other value.
func (c *Execution) adopt(v goja.Value) (*goja.Promise, error) {
	o, ok := v.(*goja.Object)
	if !ok {
		return nil, nil
	}
	var p *goja.Promise
	err := c.macrotask(func() error {
		then, err := c.get(o, "then")
		if err != nil {
			return err
		}
		if _, ok := goja.AssertFunction(then); !ok {
			return nil
		}
		promise, resolve, _ := c.VM.NewPromise()
		p = promise
		return resolve(o)
	})
	return p, err
}

// step runs what is due, or waits for the next event. It returns false if
// nothing more can happen.
func (c *Execution) step() (bool, error) {
	if c.stopped.Load() != nil {
		return false, ErrStopped
	}
	if ran, err := c.runDue(); ran || err != nil {
		return ran, err
	}
	if len(c.loop.pending) == 0 && !c.loop.holdsTimer() {
		return false, nil
	}
	var wake <-chan time.Time
	if next := c.loop.next(); next != nil {
		t := time.NewTimer(time.Until(next.at))
		defer t.Stop()
		wake = t.C
	}
	select {
	case r := <-c.loop.replies:
		return true, c.answer(r)
	case <-wake:
		return true, nil
	case <-c.done:
		return false, ErrStopped
	}
}

// ErrStopped means that the run was stopped.
var ErrStopped = errors.New("stopped")

// runDue runs the due timers, then the immediates, and reports whether there
// were any.
func (c *Execution) runDue() (bool, error) {
	ran := false
	now := time.Now()
	for {
		t := c.loop.next()
		if t == nil || t.at.After(now) {
			break
		}
		c.loop.timers = c.loop.timers[1:]
		if t.every > 0 {
			t.at = now.Add(t.every)
			c.loop.schedule(t)
		} else {
			c.loop.forget(t)
		}
		ran = true
		if err := c.fire(t.f); err != nil {
			return true, err
		}
	}
	if !ran && len(c.loop.pending) == 0 && !c.loop.holdsTimer() {
		return false, nil // immediates without a reference do not keep the loop alive
	}
	batch := c.loop.immediates
	c.loop.immediates = nil
	for _, t := range batch {
		if t.gone {
			continue
		}
		c.loop.forget(t)
		ran = true
		if err := c.fire(t.f); err != nil {
			return true, err
		}
	}
	return ran, nil
}

// fire runs a callback as a separate macrotask.
func (c *Execution) fire(f goja.Callable, args ...goja.Value) error {
	err := c.macrotask(func() error {
		_, err := f(goja.Undefined(), args...)
		return err
	})
	for err != nil && c.uncaught(err) {
		err = c.macrotask(func() error { return nil })
	}
	return err
}

// uncaught passes an error of a callback to the listeners that the code has
// registered for uncaught exceptions. It returns false if the code has no
// listener.
func (c *Execution) uncaught(err error) bool {
	var thrown *goja.Exception
	if _, loaded := c.modules["process"]; !loaded || !errors.As(err, &thrown) {
		return false
	}
	handled := false
	failed := c.macrotask(func() error {
		report, _ := goja.AssertFunction(c.module("rejections").(*goja.Object).Get("uncaught"))
		v, err := report(goja.Undefined(), thrown.Value())
		handled = err == nil && v.ToBoolean()
		return err
	})
	return failed == nil && handled
}

// answer passes the reply to a host call to its callback.
func (c *Execution) answer(r Reply) error {
	f, ok := c.loop.pending[r.ID]
	if !ok {
		return nil
	}
	delete(c.loop.pending, r.ID)
	if r.Err != nil {
		return c.fire(f, c.hostError(r.Err))
	}
	v, err := native.BuildJSON(c.VM, r.Result)
	if err != nil {
		return c.fire(f, c.hostError(FailedOperation()))
	}
	return c.fire(f, goja.Null(), v)
}

// runTicks runs the callbacks of process.nextTick, including callbacks that
// they add.
func (c *Execution) runTicks() error {
	for len(c.loop.ticks) > 0 {
		f := c.loop.ticks[0]
		c.loop.ticks = c.loop.ticks[1:]
		if _, err := f(goja.Undefined()); err != nil {
			return err
		}
	}
	return nil
}

// next returns the earliest timer.
func (l *loop) next() *timer {
	if len(l.timers) == 0 {
		return nil
	}
	return l.timers[0]
}

// holdsTimer reports whether a timer keeps the loop alive.
func (l *loop) holdsTimer() bool {
	for _, t := range l.byID {
		if !t.weak {
			return true
		}
	}
	return false
}

// add schedules a callback and returns its timer, or nil if there are too many.
func (l *loop) add(f goja.Callable, delay time.Duration, repeat, atOnce bool) *timer {
	if len(l.byID) >= maxTimers {
		return nil
	}
	if l.byID == nil {
		l.byID = map[int]*timer{}
	}
	l.lastID++
	t := &timer{id: l.lastID, f: f}
	l.byID[t.id] = t
	if atOnce {
		l.immediates = append(l.immediates, t)
		return t
	}
	t.at = time.Now().Add(delay)
	if repeat {
		t.every = delay
	}
	l.schedule(t)
	return t
}

// schedule adds a timer to the timers that wait for their time.
func (l *loop) schedule(t *timer) {
	i, _ := slices.BinarySearchFunc(l.timers, t, compareTimers)
	l.timers = slices.Insert(l.timers, i, t)
}

// forget removes a timer.
func (l *loop) forget(t *timer) {
	t.gone = true
	delete(l.byID, t.id)
	if i, found := slices.BinarySearchFunc(l.timers, t, compareTimers); found {
		l.timers = slices.Delete(l.timers, i, i+1)
	}
}
