package jsruntime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"
)

// unitCache is the units that a process has. It keeps them for its life: they are
// the operator's, and the same for every run. Its zero value is ready.
type unitCache struct {
	mu    sync.Mutex
	units map[string]*unit
	found map[string]string // units by the place and name that they were asked for
}

// unit is a unit, compiled when it is first needed.
type unit struct {
	mu       sync.Mutex
	text     string            // until it is compiled
	names    map[string]string // units by the names that it requires
	program  *goja.Program
	patterns *patterns // in its text
	patches  []string
	err      error
}

// maxFound bounds how many names are remembered.
const maxFound = 1000

// add adds a unit as it travels, unless it is there already.
func (c *unitCache) add(name, text string, names []byte) {
	u := c.entry(name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.program == nil && u.err == nil {
		u.text = text
		u.err = json.Unmarshal(names, &u.names)
	}
}

func (c *unitCache) entry(name string) *unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.units[name]
	if u == nil {
		if c.units == nil {
			c.units = map[string]*unit{}
		}
		u = &unit{}
		c.units[name] = u
	}
	return u
}

// get returns a unit, compiled at most once. fetch is to add it, if it is not
// there.
func (c *unitCache) get(name string, fetch func() error) (*unit, error) {
	u := c.entry(name)
	ready, err := u.ready(name)
	if ready {
		return u, err
	}
	if err := fetch(); err != nil {
		return nil, err
	}
	if ready, err = u.ready(name); !ready {
		return nil, errNotFound
	}
	return u, err
}

// ready compiles the unit if there is a text to compile, and tells whether there
// was.
func (u *unit) ready(name string) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.program != nil || u.err != nil {
		return true, u.err
	}
	if u.text == "" {
		return false, nil
	}
	u.err = u.compile(name, u.text)
	u.text = ""
	return true, u.err
}

func (u *unit) compile(name, source string) error {
	tree, err := parse("/app/"+name+".bundle", wrapHead+source+wrapTail)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", cleanSyntaxError(err))
	}
	program, patterns, err := assemble(tree)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", cleanSyntaxError(err))
	}
	u.program, u.patterns, u.patches = program, patterns, neededPatches(tree)
	return nil
}

// remembered returns the unit that a name stood for before.
func (c *unitCache) remembered(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.found[key]
	return name, ok
}

func (c *unitCache) remember(key, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil || len(c.found) >= maxFound {
		c.found = map[string]string{}
	}
	c.found[key] = name
}

// require is the function of that name for tenant code.
func (c *execution) require(args []goja.Value) goja.Value {
	return c.requireFrom("", nil, args)
}

// requireFrom is require in the code of the tenant, or in a unit that knows some
// names.
func (c *execution) requireFrom(from string, known map[string]string, args []goja.Value) goja.Value {
	text, ok := arg(args, 0).(goja.String)
	if !ok {
		panic(c.newError("TypeError", "ERR_INVALID_ARG_TYPE", `The "id" argument must be of type string`))
	}
	name := text.String()
	if unit := known[name]; unit != "" {
		return c.instance(unit)
	}
	plain := strings.TrimPrefix(name, "node:")
	file, builtIn := publicModules[plain]
	if builtIn && (plain != name || !standIns[plain]) {
		return c.module(file)
	}
	if unit := c.find(from, name); unit != "" {
		if from == "" {
			c.used[unit] = true
		}
		return c.instance(unit)
	}
	if builtIn {
		return c.module(file)
	}
	panic(c.newError("Error", "MODULE_NOT_FOUND", "Cannot find module '"+clip(name)+"'\nRequire stack:\n- "+path.Join("/app", cmp.Or(from, "index.js"))))
}

// requireAt returns a function that requires from a path, as createRequire does.
func (c *execution) requireAt(args []goja.Value) goja.Value {
	from := strings.TrimPrefix(path.Clean(arg(args, 0).String()), "/app/")
	if !strings.HasPrefix(from, "node_modules/") {
		from = ""
	}
	return c.vm.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return c.requireFrom(from, nil, fc.Arguments)
	})
}

// find returns the unit that a name stands for, or nothing.
func (c *execution) find(from, name string) string {
	if c.units == nil || len(name) > maxName || strings.HasPrefix(name, "node:") {
		return ""
	}
	key := from + "\x00" + name
	if unit, ok := c.units.remembered(key); ok {
		return unit
	}
	answer, err := c.port.ask(c.done, askFind, from, name)
	if err != nil || len(answer) != 1 {
		return ""
	}
	c.units.remember(key, answer[0])
	return answer[0]
}

// maxName bounds the name of a package with the path in it.
const maxName = 500

// instance returns the exports of a unit, which has one instance in a run.
func (c *execution) instance(name string) goja.Value {
	if module, ok := c.packages[name]; ok {
		return module.Get("exports")
	}
	u, err := c.units.get(name, func() error { return c.fetch(name) })
	if err != nil {
		panic(c.newError("Error", "ERR_PACKAGE", clip(err.Error())))
	}
	c.applyPatches(u.patches)
	wrapper, err := c.vm.RunProgram(u.program)
	if err != nil {
		panic(err)
	}
	exports, module := c.vm.NewObject(), c.vm.NewObject()
	c.set(module, "exports", exports)
	c.set(module, "id", "/app/"+name)
	c.set(module, "filename", "/app/"+name)
	c.set(module, "url", (&url.URL{Scheme: "file", Path: "/app/" + name}).String())
	if c.packages == nil {
		c.packages = map[string]*goja.Object{}
	}
	c.packages[name] = module
	require := c.vm.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return c.requireFrom(name, u.names, fc.Arguments)
	})
	f, _ := goja.AssertFunction(wrapper)
	if _, err = f(exports, exports, require, module, c.vm.ToValue("/app/"+name), c.vm.ToValue(path.Dir("/app/"+name))); err != nil {
		delete(c.packages, name)
		panic(err)
	}
	return module.Get("exports")
}

// fetch asks for a unit, which brings along what that needs.
func (c *execution) fetch(name string) error {
	answer, err := c.port.ask(c.done, askUnit, name)
	for unit := range slices.Chunk(answer, unitParts) {
		if len(unit) == unitParts {
			c.units.add(unit[0], unit[1], []byte(unit[2]))
		}
	}
	return err
}

// usedUnits names the units that the tenant's code has required, one on each
// line. There is no run if the code did not compile.
func (c *execution) usedUnits() []byte {
	if c == nil {
		return nil
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(c.used)), "\n"))
}
