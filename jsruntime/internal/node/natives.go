package node

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/crypto"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// nativeFunc is a Go function that the prelude calls. It takes and returns
// plain values and bytes, and nothing with which code could reach into Go.
type nativeFunc func(c *Execution, args []goja.Value) goja.Value

// natives is the registry, by the name that the prelude uses. init sets it,
// because natives refer to the modules that refer to it.
var natives map[string]nativeFunc

func init() {
	natives = allNatives()
	globalModules["RegExp"] = "regexp" // replaces the engine's
}

func allNatives() map[string]nativeFunc {
	all := map[string]nativeFunc{}
	for _, part := range []map[string]nativeFunc{
		coreNatives, regexpNatives, bufferNatives, zlibNatives, urlNatives, intlNatives,
	} {
		maps.Copy(all, part)
	}
	for name, f := range crypto.Natives {
		all[name] = func(c *Execution, args []goja.Value) goja.Value { return f(&c.crypto, args) }
	}
	return all
}

var coreNatives = map[string]nativeFunc{
	"append":       (*Execution).appended,
	"sys":          func(c *Execution, args []goja.Value) goja.Value { return c.native(native.Arg(args, 0).String()) },
	"module":       func(c *Execution, args []goja.Value) goja.Value { return c.module(native.Arg(args, 0).String()) },
	"require":      func(c *Execution, args []goja.Value) goja.Value { return c.requireFrom("", nil, args) },
	"lazy":         (*Execution).addLazy,
	"require.from": (*Execution).requireAt,
	"module.names": func(c *Execution, _ []goja.Value) goja.Value {
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(modules.Public)) {
			if !modules.StandIns[name] && !modules.Own[name] {
				names = append(names, name)
			}
		}
		return c.VM.NewArray(names...)
	},
	"json.parse": func(c *Execution, args []goja.Value) goja.Value {
		v, err := native.BuildJSON(c.VM, jsonText(args))
		if err != nil {
			return goja.Undefined()
		}
		return v
	},
	"json.error": func(c *Execution, args []goja.Value) goja.Value {
		return c.VM.ToValue(native.JSONError(c.VM, jsonText(args)))
	},
	"enumerable": (*Execution).setEnumerable,
	// brand is the symbol that identifies our error classes.
	"brand": func(c *Execution, _ []goja.Value) goja.Value {
		if c.brand == nil {
			c.brand = goja.NewSymbol("vault.error")
		}
		return c.brand
	},
	"log":  (*Execution).logLine,
	"host": (*Execution).hostCall,
	"tick": func(c *Execution, args []goja.Value) goja.Value {
		f, ok := goja.AssertFunction(native.Arg(args, 0))
		c.Check(ok, "TypeError", "ERR_INVALID_CALLBACK", "Callback must be a function")
		c.loop.ticks = append(c.loop.ticks, f)
		return goja.Undefined()
	},
	"timer": (*Execution).addTimer,
	"timer.clear": func(c *Execution, args []goja.Value) goja.Value {
		if t, ok := c.loop.byID[int(native.Arg(args, 0).ToInteger())]; ok {
			c.loop.forget(t)
		}
		return goja.Undefined()
	},
	"timer.weak": func(c *Execution, args []goja.Value) goja.Value {
		if t, ok := c.loop.byID[int(native.Arg(args, 0).ToInteger())]; ok {
			t.weak = native.Arg(args, 1).ToBoolean()
		}
		return goja.Undefined()
	},
	// hrtime is the number of nanoseconds since the run began.
	"hrtime": func(c *Execution, _ []goja.Value) goja.Value {
		return c.VM.ToValue(time.Since(c.started).Nanoseconds())
	},
	"classOf": (*Execution).classOf,
	"promise": (*Execution).promiseState,
}

// hostError returns the error with which a host call rejects.
func (c *Execution) hostError(e *script.HostError) goja.Value {
	o := c.NewError("Error", e.Code, e.Message)
	if e.Status != 0 {
		c.Set(o, "status", e.Status)
	}
	if e.Errors != nil {
		fields := c.VM.NewObject()
		for name, list := range e.Errors {
			items := make([]any, len(list))
			for i, text := range list {
				items[i] = text
			}
			c.Set(fields, name, c.VM.NewArray(items...))
		}
		c.Set(o, "errors", fields)
	}
	return o
}

// logLine takes a line of console output, up to the limit of the run.
func (c *Execution) logLine(args []goja.Value) goja.Value {
	level, line := native.Arg(args, 0).String(), native.Arg(args, 1).String()
	room := c.limits.MaxLog - c.logged
	if room <= 0 {
		return goja.Undefined()
	}
	c.logged += len(line) + 1
	if len(line) > room {
		line = clipBytes(line, room) + " [console output cut off]"
	}
	c.port.Log(level, line)
	return goja.Undefined()
}

// hostCall starts an operation of the host. It takes name, arguments and
// callback.
func (c *Execution) hostCall(args []goja.Value) goja.Value {
	done, ok := goja.AssertFunction(native.Arg(args, 2))
	if !ok {
		panic(c.VM.NewTypeError("callback missing"))
	}
	body, bad := c.encode(native.Arg(args, 1))
	c.Check(bad == nil, "Error", "ERR_INVALID_ARG_VALUE", "the arguments cannot be written as JSON, or are too large")
	// Count only now, because a toJSON among the arguments may also have made
	// calls.
	if len(c.loop.pending) >= maxHostPending || c.loop.calls >= maxHostCalls {
		panic(c.NewError("Error", "ERR_TOO_MANY_CALLS", fmt.Sprintf(
			"at most %d calls may be in progress at a time, and %d in a run", maxHostPending, maxHostCalls)))
	}
	if c.loop.pending == nil {
		c.loop.pending = map[int]goja.Callable{}
	}
	c.loop.calls++
	c.loop.pending[c.loop.calls] = done
	c.port.Call(c.loop.calls, native.Arg(args, 0).String(), body)
	return goja.Undefined()
}

// addTimer takes callback, delay in milliseconds, and whether to repeat. A
// negative delay makes an immediate.
func (c *Execution) addTimer(args []goja.Value) goja.Value {
	f, ok := goja.AssertFunction(native.Arg(args, 0))
	c.Check(ok, "TypeError", "ERR_INVALID_CALLBACK", "Callback must be a function")
	ms := native.Arg(args, 1).ToFloat()
	atOnce := ms < 0
	if math.IsNaN(ms) || ms < 1 || ms > math.MaxInt32 {
		ms = 1
	}
	t := c.loop.add(f, time.Duration(ms*float64(time.Millisecond)), native.Arg(args, 2).ToBoolean(), atOnce)
	if t == nil {
		panic(c.NewError("RangeError", "ERR_OUT_OF_RANGE", fmt.Sprintf("more than %d timers", maxTimers)))
	}
	return c.VM.ToValue(t.id)
}

var (
	proxyType  = reflect.TypeFor[goja.Proxy]()
	bufferType = reflect.TypeFor[goja.ArrayBuffer]()
)

// classOf returns the internal class of a value: Error, Date, Promise, ...
func (c *Execution) classOf(args []goja.Value) goja.Value {
	o, ok := native.Arg(args, 0).(*goja.Object)
	if !ok {
		return c.VM.ToValue("")
	}
	switch o.ExportType() {
	case proxyType:
		return c.VM.ToValue("Proxy")
	case promiseType:
		return c.VM.ToValue("Promise")
	case bufferType:
		return c.VM.ToValue("ArrayBuffer")
	}
	return c.VM.ToValue(o.ClassName())
}

// promiseState returns [state, result] of a promise, for util.inspect.
func (c *Execution) promiseState(args []goja.Value) goja.Value {
	p, ok := asPromise(native.Arg(args, 0))
	if !ok {
		return goja.Undefined()
	}
	result := p.Result()
	if result == nil {
		result = goja.Undefined()
	}
	return c.VM.NewArray(int(p.State()), result)
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

// jsonText returns the first argument, which must be a string.
func jsonText(args []goja.Value) []byte {
	return []byte(surrogateText(native.Arg(args, 0).ToString().(goja.String)))
}

// surrogateText returns a text as UTF-8, with three bytes for each lone
// surrogate.
func surrogateText(s goja.String) string {
	text := s.String()
	if !strings.ContainsRune(text, utf8.RuneError) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < s.Length(); i++ {
		r := rune(s.CharAt(i))
		if i+1 < s.Length() {
			if pair := utf16.DecodeRune(r, rune(s.CharAt(i+1))); pair != utf8.RuneError {
				r = pair
				i++
			}
		}
		out = jsonx.AppendRune(out, r)
	}
	return string(out)
}

// setEnumerable takes an object, whether its properties are enumerable, and
// their names, separated by spaces. Without names it changes all properties
// whose keys are strings, except the constructor.
func (c *Execution) setEnumerable(args []goja.Value) goja.Value {
	o, flag := native.Arg(args, 0).ToObject(c.VM), goja.ToFlag(native.Arg(args, 1).ToBoolean())
	names := o.GetOwnPropertyNames()
	if v := native.Arg(args, 2); !goja.IsUndefined(v) {
		names = strings.Fields(v.String())
	}
	for _, name := range names {
		if name != "constructor" {
			c.Must(o.DefineDataProperty(name, nil, goja.FLAG_NOT_SET, goja.FLAG_NOT_SET, flag))
		}
	}
	return goja.Undefined()
}
