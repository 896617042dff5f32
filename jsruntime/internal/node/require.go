package node

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// requireFrom is require in the code of the tenant, or in a unit that knows
// some names.
func (c *Execution) requireFrom(from string, known map[string]string, args []goja.Value) goja.Value {
	text, ok := native.Arg(args, 0).(goja.String)
	c.Check(ok, "TypeError", "ERR_INVALID_ARG_TYPE", `The "id" argument must be of type string`)
	name := text.String()
	if unit := known[name]; unit != "" {
		return c.instance(unit)
	}
	plain := strings.TrimPrefix(name, "node:")
	file, builtIn := modules.Public[plain]
	if builtIn && (plain != name || !modules.StandIns[plain]) {
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
	panic(c.NewError("Error", "MODULE_NOT_FOUND", "Cannot find module '"+native.Clip(name)+"'\nRequire stack:\n- "+path.Join("/app", cmp.Or(from, "index.js"))))
}

// requireAt returns a function that requires from a path, like createRequire.
func (c *Execution) requireAt(args []goja.Value) goja.Value {
	from := strings.TrimPrefix(path.Clean(native.Arg(args, 0).String()), "/app/")
	if !strings.HasPrefix(from, "node_modules/") {
		from = ""
	}
	return c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return c.requireFrom(from, nil, fc.Arguments)
	})
}

// find returns the unit that a name refers to, or an empty string.
func (c *Execution) find(from, name string) string {
	if c.units == nil || len(name) > maxName || strings.HasPrefix(name, "node:") {
		return ""
	}
	key := from + "\x00" + name
	if unit, ok := c.units.Remembered(key); ok {
		return unit
	}
	answer, err := c.port.Ask(c.done, modules.AskFind, from, name)
	if err != nil || len(answer) != 1 {
		return ""
	}
	c.units.Remember(key, answer[0])
	return answer[0]
}

// maxName limits the name of a package, including the path in it.
const maxName = 500

// instance returns the exports of a unit, which has one instance in a run.
func (c *Execution) instance(name string) goja.Value {
	if module, ok := c.packages[name]; ok {
		return module.Get("exports")
	}
	u, err := c.units.Get(name, func() error { return c.fetch(name) })
	if err != nil {
		panic(c.NewError("Error", "ERR_PACKAGE", native.Clip(err.Error())))
	}
	c.applyPatches(u.Patches)
	body, err := c.wrapper(u.Program)
	c.Must(err)
	exports, module := c.VM.NewObject(), c.VM.NewObject()
	c.Set(module, "exports", exports)
	c.Set(module, "id", "/app/"+name)
	c.Set(module, "filename", "/app/"+name)
	c.Set(module, "url", (&url.URL{Scheme: "file", Path: "/app/" + name}).String())
	if c.packages == nil {
		c.packages = map[string]*goja.Object{}
	}
	c.packages[name] = module
	require := c.VM.ToValue(func(fc goja.FunctionCall) goja.Value {
		defer c.recoverNative()
		return c.requireFrom(name, u.Names, fc.Arguments)
	})
	if _, err = body(exports, exports, require, module, c.VM.ToValue("/app/"+name), c.VM.ToValue(path.Dir("/app/"+name))); err != nil {
		delete(c.packages, name)
		panic(err)
	}
	return module.Get("exports")
}

// fetch requests a unit, which brings along the units that it needs.
func (c *Execution) fetch(name string) error {
	answer, err := c.port.Ask(c.done, modules.AskUnit, name)
	for unit := range slices.Chunk(answer, modules.UnitParts) {
		if len(unit) == modules.UnitParts {
			c.units.Add(unit[0], unit[1], []byte(unit[2]))
		}
	}
	return err
}

// UsedUnits names the units that the tenant's code has required, one per line.
// c is nil if the code did not compile.
func (c *Execution) UsedUnits() []byte {
	if c == nil {
		return nil
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(c.used)), "\n"))
}

// checkNames rejects code that names a package that does not exist.
func (c *Execution) checkNames() *script.Error {
	for _, l := range c.code.Names {
		plain := strings.TrimPrefix(l.Name, "node:")
		if _, ok := modules.Public[plain]; ok || c.find("", l.Name) != "" {
			continue
		}
		return compile.Invalid(l.Line, fmt.Sprintf("there is no package %q; there are %s", native.Clip(l.Name), strings.Join(c.packageNames(), ", ")))
	}
	return nil
}

// packageNames lists what code may require beyond the modules of Node.
func (c *Execution) packageNames() []string {
	names := slices.Concat(slices.Collect(maps.Keys(modules.StandIns)), slices.Collect(maps.Keys(modules.Own)))
	if c.units != nil {
		answer, _ := c.port.Ask(c.done, modules.AskNames)
		names = append(names, answer...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
