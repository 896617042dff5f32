package jsruntime

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
)

// unitCache is the units that a process has compiled. It keeps them for its life:
// they are the operator's, and the same for every run. Its zero value is ready.
type unitCache struct {
	mu    sync.Mutex
	units map[string]*unit
	found map[string]string // units by the place and name that they were asked for
}

// unit is a compiled unit.
type unit struct {
	mu      sync.Mutex
	program *goja.Program
	patches []string
	err     error
}

// maxFound bounds how many names are remembered.
const maxFound = 1000

// get returns a unit, compiled at most once. text is asked for when it is not
// there yet.
func (c *unitCache) get(name string, text func() (string, error)) (*unit, error) {
	c.mu.Lock()
	u := c.units[name]
	if u == nil {
		if c.units == nil {
			c.units = map[string]*unit{}
		}
		u = &unit{}
		c.units[name] = u
	}
	c.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.program != nil || u.err != nil {
		return u, u.err
	}
	source, err := text()
	if errors.Is(err, errStopped) {
		return nil, err
	}
	if err == nil {
		err = u.compile(name, source)
	}
	u.err = err
	return u, err
}

func (u *unit) compile(name, source string) error {
	tree, err := goja.Parse("/app/"+name+".bundle", wrapHead+source+wrapTail, parser.WithDisableSourceMaps)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", cleanSyntaxError(err))
	}
	program, err := assemble(tree)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", cleanSyntaxError(err))
	}
	u.program, u.patches = program, neededPatches(source)
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
	return c.requireFrom("", args)
}

// requireFrom is require in the code of the tenant, or in a unit.
func (c *execution) requireFrom(from string, args []goja.Value) goja.Value {
	text, ok := arg(args, 0).(goja.String)
	if !ok {
		panic(c.newError("TypeError", "ERR_INVALID_ARG_TYPE", `The "id" argument must be of type string`))
	}
	name := text.String()
	if inner, ok := strings.CutPrefix(name, unitPrefix); ok && from != "" {
		return c.instance(inner)
	}
	plain := strings.TrimPrefix(name, "node:")
	file, builtIn := publicModules[plain]
	if builtIn && (plain != name || !standIns[plain]) {
		return c.module(file)
	}
	if unit := c.find(from, name); unit != "" {
		return c.instance(unit)
	}
	if builtIn {
		return c.module(file)
	}
	name = strings.TrimPrefix(name, missingPrefix)
	panic(c.newError("Error", "MODULE_NOT_FOUND", "Cannot find module '"+clip(name)+"'\nRequire stack:\n- "+path.Join("/app", cmp.Or(from, "index.js"))))
}

// find returns the unit that a name stands for, or nothing.
func (c *execution) find(from, name string) string {
	if c.units == nil || len(name) > maxName || strings.HasPrefix(name, "node:") || strings.HasPrefix(name, missingPrefix) {
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
	u, err := c.units.get(name, func() (string, error) { return c.unitText(name) })
	if err != nil {
		panic(c.newError("Error", "ERR_PACKAGE", clip(err.Error())))
	}
	for _, file := range u.patches {
		c.module(file)
	}
	wrapper, err := c.vm.RunProgram(u.program)
	if err != nil {
		panic(err)
	}
	exports, module := c.vm.NewObject(), c.vm.NewObject()
	c.set(module, "exports", exports)
	c.set(module, "id", "/app/"+name)
	c.set(module, "filename", "/app/"+name)
	if c.packages == nil {
		c.packages = map[string]*goja.Object{}
	}
	c.packages[name] = module
	require := c.vm.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return c.requireFrom(name, fc.Arguments)
	})
	f, _ := goja.AssertFunction(wrapper)
	if _, err = f(exports, exports, require, module, c.vm.ToValue("/app/"+name), c.vm.ToValue(path.Dir("/app/"+name))); err != nil {
		delete(c.packages, name)
		panic(err)
	}
	return module.Get("exports")
}

func (c *execution) unitText(name string) (string, error) {
	answer, err := c.port.ask(c.done, askUnit, name)
	if err != nil {
		return "", err
	}
	if len(answer) != 1 {
		return "", errNotFound
	}
	return answer[0], nil
}

// usedUnits names the units that the run has required, one on each line. There is
// no run if the code did not compile.
func (c *execution) usedUnits() []byte {
	if c == nil {
		return nil
	}
	var names []string
	for name := range c.packages {
		names = append(names, name)
	}
	slices.Sort(names)
	return []byte(strings.Join(names, "\n"))
}
