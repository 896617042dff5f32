package node

import (
	"embed"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// The prelude provides what Node has and goja lacks, as modules. A module is
// compiled once per process and evaluated in a run when it is first needed
// there.
//
//go:embed prelude/*.js
var preludeFiles embed.FS

// preludeProgram compiles a file of the prelude, once.
func preludeProgram(name string) (*preludeFile, error) {
	if p, ok := preludePrograms.Load(name); ok {
		return p.(*preludeFile), nil
	}
	text, err := preludeFiles.ReadFile("prelude/" + name + ".js")
	if err != nil {
		return nil, err
	}
	tree, err := goja.Parse("vault:"+name, "(function (sys, require, module, exports) {"+string(text)+"\n})", parser.WithDisableSourceMaps)
	if err != nil {
		return nil, err
	}
	patterns, err := compile.TakePatterns(tree)
	if err != nil {
		return nil, err
	}
	p, err := goja.CompileAST(tree, true)
	if err != nil {
		return nil, err
	}
	file := &preludeFile{p, patterns}
	preludePrograms.Store(name, file)
	return file, nil
}

// preludeFile is a compiled file of the prelude.
type preludeFile struct {
	program  *goja.Program
	patterns *compile.Patterns // in its text
}

var preludePrograms sync.Map // from name to *preludeFile

// module returns the exports of a module of the prelude.
func (c *Execution) module(name string) goja.Value {
	if v, ok := c.modules[name]; ok {
		return v.(*goja.Object).Get("exports")
	}
	p, err := preludeProgram(name)
	if err != nil {
		panic(c.NewError("Error", "MODULE_NOT_FOUND", "Cannot find module '"+name+"'"))
	}
	if p.patterns != nil {
		c.installRegexps()
	}
	wrapper, err := c.VM.RunProgram(p.program)
	c.Must(err)
	exports := c.VM.NewObject()
	module := c.VM.NewObject()
	c.Set(module, "exports", exports)
	c.modules[name] = module
	f, _ := goja.AssertFunction(wrapper)
	if _, err = f(goja.Undefined(), c.native("sys"), c.native("module"), module, exports); err != nil {
		delete(c.modules, name)
		panic(err)
	}
	return module.Get("exports")
}

// globalModules maps the globals that the prelude adds to the module that
// exports them under the same name.
var globalModules = compile.ByWord(map[string]string{
	"abort":    "AbortController AbortSignal Event CustomEvent EventTarget DOMException",
	"blob":     "Blob File",
	"buffer":   "Buffer atob btoa",
	"console":  "console",
	"encoding": "TextEncoder TextDecoder",
	"errors": "BadRequestError InvalidReactorConfigurationError AuthenticationError InvalidPaymentMethodError " +
		"AuthorizationError RateLimitError ReactorRuntimeError ServiceUnavailableError CustomHttpResponseError",
	"fetch":          "fetch Headers Request Response FormData",
	"atomics":        "SharedArrayBuffer Atomics",
	"clone":          "structuredClone",
	"globals":        "queueMicrotask WebAssembly escape unescape",
	"weak":           "WeakRef FinalizationRegistry",
	"worker_threads": "MessageChannel MessagePort",
	"intl":           "Intl",
	"perf_hooks":     "performance",
	"process":        "process",
	"timers":         "setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate",
	"url":            "URL URLSearchParams",
	"webcrypto":      "crypto Crypto CryptoKey SubtleCrypto",
	"webstreams": "ReadableStream ReadableStreamDefaultReader ReadableStreamBYOBReader ReadableStreamBYOBRequest " +
		"ReadableByteStreamController ReadableStreamDefaultController TransformStream TransformStreamDefaultController " +
		"WritableStream WritableStreamDefaultController WritableStreamDefaultWriter ByteLengthQueuingStrategy " +
		"CountQueuingStrategy TextEncoderStream TextDecoderStream CompressionStream DecompressionStream",
})

// wholeModules are globals that are a whole module, not a part of one.
var wholeModules = map[string]bool{"console": true, "process": true, "Intl": true}

// installGlobals gives the runtime the globals of the prelude. The global
// object inherits them, and they are loaded when first read, so that a run pays
// only for what it uses.
func (c *Execution) installGlobals() {
	global := c.VM.GlobalObject()
	c.Set(global, "global", global)
	c.Must(global.SetPrototype(c.VM.NewDynamicObject(lazyGlobals{c})))
	c.applyPatches(c.code.Patches)
}

// applyPatches repairs intrinsics for a program that is about to be loaded.
func (c *Execution) applyPatches(patches []string) {
	for _, file := range patches {
		if file == compile.RegexpPatch {
			c.installRegexps()
		} else {
			c.module(file)
		}
	}
}

// loadGlobal loads a global and makes it an ordinary property.
func (c *Execution) loadGlobal(name string) goja.Value {
	v := c.module(globalModules[name])
	if !wholeModules[name] {
		v = v.(*goja.Object).Get(name)
	}
	c.settleGlobal(name, v)
	return v
}

func (c *Execution) settleGlobal(name string, v goja.Value) {
	c.Must(c.VM.GlobalObject().DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// lazyGlobals is the object that the global object inherits from. It has the
// globals of the prelude, and exposes nothing else of Go.
type lazyGlobals struct{ c *Execution }

// Get loads a global.
func (l lazyGlobals) Get(name string) goja.Value {
	if globalModules[name] == "" {
		return nil
	}
	return l.c.loadGlobal(name)
}

// Set makes the name an ordinary property of the global object.
func (l lazyGlobals) Set(name string, v goja.Value) bool {
	l.c.settleGlobal(name, v)
	return true
}

// Has reports whether there is such a global.
func (l lazyGlobals) Has(name string) bool { return globalModules[name] != "" }

// Delete has nothing to delete.
func (l lazyGlobals) Delete(string) bool { return true }

// Keys lists nothing, because the globals of Node are not enumerable either.
func (l lazyGlobals) Keys() []string { return nil }

// lazyMethods sits between an object and its prototype. It has methods of the
// object that a run often does not need, and adds them to the object when one
// of them is first read.
type lazyMethods struct {
	c      *Execution
	target *goja.Object
	names  map[string]bool
	load   goja.Callable // nil after it was called
}

// addLazy takes an object, the names of its methods, and a function that adds
// them.
func (c *Execution) addLazy(args []goja.Value) goja.Value {
	target := native.Arg(args, 0).ToObject(c.VM)
	load, _ := goja.AssertFunction(native.Arg(args, 2))
	between := c.VM.NewDynamicObject(&lazyMethods{c, target, lazyNames(native.Arg(args, 1).String()), load})
	c.Must(between.SetPrototype(target.Prototype()))
	c.Must(target.SetPrototype(between))
	return goja.Undefined()
}

// lazyNames returns the set of names in a list. There are few lists, and they
// are the same for every run.
func lazyNames(list string) map[string]bool {
	if known, ok := lazyLists.Load(list); ok {
		return known.(map[string]bool)
	}
	names := compile.Words(list)
	lazyLists.Store(list, names)
	return names
}

var lazyLists sync.Map // of map[string]bool

// Get adds the methods if name is one of them.
func (l *lazyMethods) Get(name string) goja.Value {
	if l.load == nil || !l.names[name] {
		return nil
	}
	load := l.load
	l.load = nil
	_, err := load(goja.Undefined())
	l.c.Must(err)
	return l.target.Get(name)
}

// Set leaves it to the object.
func (l *lazyMethods) Set(string, goja.Value) bool { return false }

// Has reports whether there is such a method.
func (l *lazyMethods) Has(name string) bool { return l.load != nil && l.names[name] }

// Delete has nothing to delete.
func (l *lazyMethods) Delete(string) bool { return true }

// Keys lists nothing before the methods have been added.
func (l *lazyMethods) Keys() []string { return nil }
