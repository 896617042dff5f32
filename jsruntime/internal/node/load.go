package node

import (
	"encoding/json"
	"errors"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
	"github.com/seed-72ea4aab/vault/script"
)

// load runs the top level of the code and returns the function that it exports:
// module.exports itself, or its property default.
func (c *Execution) load(check bool) (goja.Callable, *script.Error) {
	module := c.VM.NewObject()
	exports := c.VM.NewObject()
	err := errors.Join(module.Set("exports", exports), module.Set("id", "."), module.Set("filename", compile.FileName))
	if err != nil {
		return nil, StopError(script.Crash)
	}
	var loading goja.Value
	err = c.macrotask(func() error {
		body, err := c.wrapper(c.code.Program)
		if err != nil {
			return err
		}
		args := []goja.Value{exports, c.native("require"), module, c.VM.ToValue(compile.FileName), c.VM.ToValue("/app")}
		if c.code.Helpers {
			args = append(args, c.module("lowered"))
		}
		loading, err = body(exports, args...)
		return err
	})
	if err == nil && c.code.Async {
		_, err = c.settle(loading)
	}
	if err != nil {
		return nil, c.loadFailure(err, check)
	}
	var main goja.Callable
	err = c.macrotask(func() (err error) {
		main, err = c.exported(module)
		return err
	})
	if err != nil {
		return nil, c.loadFailure(err, check)
	}
	if main == nil {
		return nil, compile.Invalid(0, "the code exports no function: set module.exports or export default to one")
	}
	return main, nil
}

// loadFailure returns an error of the top level. A run reports it like any
// other error of the code. A check reports that the code cannot be used.
func (c *Execution) loadFailure(err error, check bool) *script.Error {
	e := c.failure(err)
	if !check {
		return e
	}
	line := 0
	if len(e.Frames) > 0 {
		line = e.Frames[0].Line
	}
	text := "the code failed while loading"
	if m := e.Messages["error"]; len(m) > 0 && m[0] != "" {
		text += ": " + m[0]
	}
	bad := compile.Invalid(line, text)
	bad.Name, bad.Frames = e.Name, e.Frames
	return bad
}

// exported returns the exported function, or nil.
func (c *Execution) exported(module *goja.Object) (goja.Callable, error) {
	v, err := c.get(module, "exports")
	if err != nil {
		return nil, err
	}
	for range 2 {
		if f, ok := goja.AssertFunction(v); ok {
			return f, nil
		}
		o, ok := v.(*goja.Object)
		if !ok {
			return nil, nil
		}
		if v, err = c.get(o, "default"); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// get reads a property, whose getter may throw.
func (c *Execution) get(o *goja.Object, name string) (v goja.Value, err error) {
	if ex := c.VM.Try(func() { v = o.Get(name) }); ex != nil {
		return nil, ex
	}
	return v, nil
}

// request builds the argument of the function from the input, an object with
// args, configuration and application. The client is created when it is first
// read.
func (c *Execution) request(input json.RawMessage) (goja.Value, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	v, err := native.BuildJSON(c.VM, input)
	if err != nil {
		return nil, err
	}
	req, ok := v.(*goja.Object)
	if !ok {
		return nil, native.ErrJSON
	}
	application := req.Get("application")
	err = req.Delete("application")
	if req.Get("args") == nil {
		err = errors.Join(err, req.Set("args", goja.Null()))
	}
	if configuration := req.Get("configuration"); configuration == nil || goja.IsNull(configuration) {
		err = errors.Join(err, req.Set("configuration", c.VM.NewObject()))
	}
	if err != nil {
		return nil, err
	}
	return req, c.addClient(req, application != nil && application.ToBoolean())
}

// addClient sets bt and client, which are the same object.
func (c *Execution) addClient(req *goja.Object, application bool) error {
	if !application {
		return errors.Join(req.Set("bt", goja.Null()), req.Set("client", goja.Null()))
	}
	getter := c.VM.ToValue(func(goja.FunctionCall) goja.Value { return c.module("client") })
	return errors.Join(
		req.DefineAccessorProperty("bt", getter, nil, goja.FLAG_TRUE, goja.FLAG_TRUE),
		req.DefineAccessorProperty("client", getter, nil, goja.FLAG_TRUE, goja.FLAG_TRUE))
}

// output writes the result as JSON, still subject to the deadline.
func (c *Execution) output(v goja.Value) (json.RawMessage, *script.Error) {
	var out json.RawMessage
	var bad *script.Error
	if err := c.macrotask(func() error {
		out, bad = c.encode(v)
		return nil
	}); err != nil {
		return nil, c.failure(err)
	}
	return out, bad
}
