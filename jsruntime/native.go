package jsruntime

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/script"
)

// native is a function of Go that the prelude calls. It takes and returns
// plain values and bytes, nothing by which code could reach into Go.
type native func(c *execution, args []goja.Value) goja.Value

// natives is the registry, by the name that the prelude asks for. It is set by
// init, because natives refer to the modules that refer to it.
var natives map[string]native

func allNatives() map[string]native {
	all := map[string]native{}
	for _, part := range []map[string]native{
		coreNatives, regexpNatives, bufferNatives, cryptoNatives, keyNatives, zlibNatives, urlNatives, intlNatives,
		dhNatives, certificateNatives,
	} {
		maps.Copy(all, part)
	}
	return all
}

var coreNatives = map[string]native{
	"sys":          func(c *execution, args []goja.Value) goja.Value { return c.native(arg(args, 0).String()) },
	"module":       func(c *execution, args []goja.Value) goja.Value { return c.module(arg(args, 0).String()) },
	"require":      func(c *execution, args []goja.Value) goja.Value { return c.require(args) },
	"lazy":         (*execution).addLazy,
	"require.from": (*execution).requireAt,
	"module.names": func(c *execution, _ []goja.Value) goja.Value {
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(publicModules)) {
			if !standIns[name] && !ownModules[name] {
				names = append(names, name)
			}
		}
		return c.vm.NewArray(names...)
	},
	"json.parse": func(c *execution, args []goja.Value) goja.Value {
		v, err := buildJSON(c.vm, []byte(arg(args, 0).String()))
		if err != nil {
			return goja.Undefined()
		}
		return v
	},
	"brand":       (*execution).brandSymbol,
	"log":         (*execution).logLine,
	"host":        (*execution).hostCall,
	"tick":        (*execution).addTick,
	"timer":       (*execution).addTimer,
	"timer.clear": (*execution).clearTimer,
	"timer.weak":  (*execution).weakenTimer,
	"hrtime":      (*execution).hrtime,
	"classOf":     (*execution).classOf,
	"promise":     (*execution).promiseState,
}

// arg returns an argument, or undefined.
func arg(args []goja.Value, i int) goja.Value {
	if i < len(args) {
		return args[i]
	}
	return goja.Undefined()
}

// bytesOf returns the bytes of a Uint8Array (a Buffer included) or an
// ArrayBuffer, shared with the code. The prelude makes sure of the type.
func (c *execution) bytesOf(v goja.Value) []byte {
	switch b := v.Export().(type) {
	case []byte:
		return b
	case goja.ArrayBuffer:
		return b.Bytes()
	}
	panic(c.newError("TypeError", "ERR_INVALID_ARG_TYPE", "The argument must be an instance of Buffer, TypedArray or ArrayBuffer"))
}

// buffer hands bytes over to the code, as an ArrayBuffer.
func (c *execution) buffer(b []byte) goja.Value {
	return c.vm.ToValue(c.vm.NewArrayBuffer(b))
}

// newError makes an error of one of the standard classes, with a code like
// Node's.
func (c *execution) newError(class, code, text string) *goja.Object {
	ctor := c.vm.GlobalObject().Get(class)
	if _, ok := goja.AssertConstructor(ctor); !ok {
		return c.vm.NewTypeError(text)
	}
	o, err := c.vm.New(ctor, c.vm.ToValue(text))
	if err != nil {
		panic(err)
	}
	if code != "" {
		c.set(o, "code", code)
	}
	return o
}

// hostError makes the error with which a host call rejects.
func (c *execution) hostError(e *script.HostError) goja.Value {
	o := c.newError("Error", e.Code, e.Message)
	if e.Status != 0 {
		c.set(o, "status", e.Status)
	}
	if e.Errors != nil {
		fields := c.vm.NewObject()
		for name, list := range e.Errors {
			items := make([]any, len(list))
			for i, text := range list {
				items[i] = text
			}
			c.set(fields, name, c.vm.NewArray(items...))
		}
		c.set(o, "errors", fields)
	}
	return o
}

// brandSymbol returns the symbol by which thrown errors are known as ours.
func (c *execution) brandSymbol([]goja.Value) goja.Value {
	if c.brand == nil {
		c.brand = goja.NewSymbol("vault.error")
	}
	return c.brand
}

// logLine takes a line of console output, up to the bound of the run.
func (c *execution) logLine(args []goja.Value) goja.Value {
	level, line := arg(args, 0).String(), arg(args, 1).String()
	room := c.limits.MaxLog - c.logged
	if room <= 0 {
		return goja.Undefined()
	}
	c.logged += len(line) + 1
	if len(line) > room {
		line = clipBytes(line, room) + " [console output cut off]"
	}
	c.port.log(level, line)
	return goja.Undefined()
}

// hostCall starts an operation of the host: name, arguments, callback.
func (c *execution) hostCall(args []goja.Value) goja.Value {
	done, ok := goja.AssertFunction(arg(args, 2))
	if !ok {
		panic(c.vm.NewTypeError("callback missing"))
	}
	body, bad := c.encode(arg(args, 1))
	if bad != nil {
		panic(c.newError("Error", "ERR_INVALID_ARG_VALUE", "the arguments cannot be written as JSON, or are too large"))
	}
	// Counted only now: a toJSON among the arguments may have made calls too.
	if len(c.loop.pending) >= maxHostPending || c.loop.calls >= maxHostCalls {
		panic(c.newError("Error", "ERR_TOO_MANY_CALLS", fmt.Sprintf(
			"at most %d calls may be in progress at a time, and %d in a run", maxHostPending, maxHostCalls)))
	}
	if c.loop.pending == nil {
		c.loop.pending = map[int]goja.Callable{}
	}
	c.loop.calls++
	c.loop.pending[c.loop.calls] = done
	c.port.call(c.loop.calls, arg(args, 0).String(), body)
	return goja.Undefined()
}

func (c *execution) addTick(args []goja.Value) goja.Value {
	f, ok := goja.AssertFunction(arg(args, 0))
	if !ok {
		panic(c.newError("TypeError", "ERR_INVALID_CALLBACK", "Callback must be a function"))
	}
	c.loop.ticks = append(c.loop.ticks, f)
	return goja.Undefined()
}

// addTimer takes callback, delay in milliseconds, and whether to repeat; a
// delay below zero makes an immediate.
func (c *execution) addTimer(args []goja.Value) goja.Value {
	f, ok := goja.AssertFunction(arg(args, 0))
	if !ok {
		panic(c.newError("TypeError", "ERR_INVALID_CALLBACK", "Callback must be a function"))
	}
	ms := arg(args, 1).ToFloat()
	atOnce := ms < 0
	if math.IsNaN(ms) || ms < 1 || ms > math.MaxInt32 {
		ms = 1
	}
	t := c.loop.add(f, time.Duration(ms*float64(time.Millisecond)), arg(args, 2).ToBoolean(), atOnce)
	if t == nil {
		panic(c.newError("RangeError", "ERR_OUT_OF_RANGE", fmt.Sprintf("more than %d timers", maxTimers)))
	}
	return c.vm.ToValue(t.id)
}

func (c *execution) clearTimer(args []goja.Value) goja.Value {
	if t, ok := c.loop.byID[int(arg(args, 0).ToInteger())]; ok {
		c.loop.forget(t)
	}
	return goja.Undefined()
}

func (c *execution) weakenTimer(args []goja.Value) goja.Value {
	if t, ok := c.loop.byID[int(arg(args, 0).ToInteger())]; ok {
		t.weak = arg(args, 1).ToBoolean()
	}
	return goja.Undefined()
}

// hrtime returns the nanoseconds since the run began.
func (c *execution) hrtime([]goja.Value) goja.Value {
	return c.vm.ToValue(time.Since(c.started).Nanoseconds())
}

var (
	proxyType  = reflect.TypeFor[goja.Proxy]()
	bufferType = reflect.TypeFor[goja.ArrayBuffer]()
)

// classOf returns the internal class of a value: Error, Date, Promise, ...
func (c *execution) classOf(args []goja.Value) goja.Value {
	o, ok := arg(args, 0).(*goja.Object)
	if !ok {
		return c.vm.ToValue("")
	}
	switch o.ExportType() {
	case proxyType:
		return c.vm.ToValue("Proxy")
	case promiseType:
		return c.vm.ToValue("Promise")
	case bufferType:
		return c.vm.ToValue("ArrayBuffer")
	}
	return c.vm.ToValue(o.ClassName())
}

// promiseState returns [state, result] of a promise, for util.inspect.
func (c *execution) promiseState(args []goja.Value) goja.Value {
	p, ok := asPromise(arg(args, 0))
	if !ok {
		return goja.Undefined()
	}
	result := p.Result()
	if result == nil {
		result = goja.Undefined()
	}
	return c.vm.NewArray(int(p.State()), result)
}

func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
