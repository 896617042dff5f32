package node

import (
	"sync"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

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
