package jsruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// eachRuntime runs a test with workers and in process.
func eachRuntime(t *testing.T, f func(t *testing.T, r script.Runtime)) {
	t.Run("workers", func(t *testing.T) {
		t.Parallel()
		f(t, newWorkers(t, nil))
	})
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		f(t, jsruntime.NewInProcess(nil))
	})
}

func run(r script.Runtime, source, input string, host script.Host) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := r.Run(ctx, script.Program{Tenant: "t", Name: "n", Source: source}, json.RawMessage(input), host)
	return string(out), err
}

func TestModuleForms(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for name, source := range map[string]string{
			"module.exports":         `module.exports = async function (req) { return req.args.x }`,
			"arrow":                  `module.exports = (req) => req.args.x`,
			"exports.default":        `exports.default = async ({ args }) => args.x`,
			"export default":         `import crypto from 'crypto'; import { join } from 'node:path'; export default async function (req) { crypto.randomBytes(1); join('a'); return req.args.x }`,
			"export default arrow":   `const f = async (req) => req.args.x; export { f as default };`,
			"TypeScript":             `enum E { A = 1 } interface Q { args: { x: number } } export default async (req: Q): Promise<number> => req.args.x as number + E.A - 1;`,
			"hashbang":               "#!/usr/bin/env node\nmodule.exports = (r) => r.args.x",
			"source map comment":     "module.exports = (r) => r.args.x\n//# sourceMappingURL=file:///dev/zero",
			"thenable":               `module.exports = (r) => ({ then(ok) { ok(r.args.x) } })`,
			"dynamic import":         `module.exports = async (r) => { const { join } = await import('path'); return join ? r.args.x : 0 }`,
			"block function":         `module.exports = (r) => { { function f() { return r.args.x } } return f() }`,
			"generator, for await":   `async function* g(x) { yield x } module.exports = async (r) => { for await (const v of g(r.args.x)) return v }`,
			"code points":            `module.exports = (r) => ['\u{10FFFF}'.codePointAt(0), "\u{10ffff}x".length].join() === '1114111,3' && r.args.x`,
			"comment at the end":     `module.exports = (r) => r.args.x // end`,
			"strings with brackets":  `const s = [` + strings.Repeat(`'((((', `, 100) + `]; module.exports = (r) => r.args.x`,
			"templates and regexps":  "const a = `${`${1}`}((`, b = /[/(]{2}\\//g, c = 4 / 2 / 1; module.exports = (r) => r.args.x",
			"legacy decorators free": `class A { static x = 1; #y = 2; get y() { return this.#y } } module.exports = (r) => r.args.x + A.x + new A().y - 3`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				must.Match(t, "Check", r.Check(context.Background(), script.Program{Source: source}), nil)
				must.Same(t, "the result", "42", must.Get(run(r, source, `{"args":{"x":42}}`, &fakeHost{}))(t))
			})
		}
	})
}

// panics is code that makes the bundler panic.
const panics = "async function* f(arguments, p = eval('var arguments')) {}\nmodule.exports = f"

func TestCheckRejectsBadCode(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for name, c := range map[string]struct {
			source string
			line   int
			text   string
		}{
			"syntax":          {"module.exports = () => {\n  return 1 +;\n}", 2, "Unexpected"},
			"top level":       {"const a = 1;\nthrow new Error('no way');", 2, "no way"},
			"no function":     {"module.exports = { a: 1 }", 0, "exports no function"},
			"empty":           {"", 0, "exports no function"},
			"unknown module":  {"const x = 1;\nconst y = require('inspector');\nmodule.exports = () => 1", 2, "inspector"},
			"closes wrapper":  {"}); (function () {", 0, "Unexpected"},
			"await in script": {"await 1;\nmodule.exports = () => { return await 2 }", 2, "await"},
			"too deep":        {"module.exports = " + strings.Repeat("[", 300) + strings.Repeat("]", 300), 1, "nested"},
			"arrows":          {"module.exports = " + strings.Repeat("a=>", 1600) + "1", 1, "arrow"},
			"prefixes":        {"module.exports = () => " + strings.Repeat("!", 5000) + "1", 1, "row"},
			"too long":        {"//" + strings.Repeat("x", 4_000_000), 0, "longer than"},
			"bad property":    {"module.exports = () => /\\p{Nope}/u", 0, "property"},
			"bad group":       {"module.exports = () => /a(?i-s:b)/", 0, "Invalid group"},
			"bad group name":  {"module.exports = () => /(?<1a>b)/", 0, "Invalid capture group name"},
			"same group name": {"module.exports = () => /(?<a>b)|(?<a>c)/", 0, "Duplicate capture group name"},
			"bad reference":   {"module.exports = () => /(?<a>b)\\k<c>/", 0, "Invalid named capture referenced"},
			"half reference":  {"module.exports = () => /\\k/u", 0, "Invalid named reference"},
			"u and v":         {"module.exports = () => /a/uv", 0, "Invalid regular expression flags"},
			"bundler's panic": {panics, 0, "the code cannot be compiled: something in it is too much for the compiler"},
			"host call":       {"fetch('https://a.example').catch(() => {}); throw new Error('x')", 1, "x"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				err := r.Check(ctx, script.Program{Tenant: name, Source: c.source})
				if !errors.Is(err, script.ErrInvalid) {
					t.Fatalf("got %s, want ErrCode", explain(err))
				}
				e := scriptError(t, err)
				if text := strings.Join(e.Messages["code"], " "); !strings.Contains(text, c.text) {
					t.Errorf("the message %q does not mention %q", text, c.text)
				}
				if c.line > 0 && (len(e.Frames) == 0 || e.Frames[0].Line != c.line) {
					t.Errorf("got frames %v, want line %d", e.Frames, c.line)
				}
			})
		}
	})
}

// TestEndlessCheckTimesOut checks code that loops at its top level.
func TestEndlessCheckTimesOut(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		if out, err := runBody(r, "t", "return 1", patience); err != nil || out != "1" {
			t.Fatalf("got %s, %s", out, explain(err))
		}
		ctx, cancel := context.WithTimeout(context.Background(), loopTime)
		defer cancel()
		err := r.Check(ctx, script.Program{Tenant: "t", Source: "for (;;) {}"})
		if e := scriptError(t, err); !errors.Is(err, script.ErrInvalid) || !strings.Contains(e.Messages["code"][0], "line 1: the code failed while loading: timed out") {
			t.Errorf("got %s, want code that times out in line 1", explain(err))
		}
	})
}

// TestEndlessErrorTimesOut throws an error whose stack never finishes evaluating.
func TestEndlessErrorTimesOut(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		if out, err := runBody(r, "t", "return 1", patience); err != nil || out != "1" {
			t.Fatalf("got %s, %s", out, explain(err))
		}
		_, err := runBody(r, "t", "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { for (;;) {} } }); throw e", loopTime)
		if e := scriptError(t, err); e.Kind != script.Timeout {
			t.Errorf("got %s, want a timeout", explain(err))
		}
	})
}

func TestArgument(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for name, c := range map[string]struct{ source, input, want string }{
			"all":             {"module.exports = (r) => [Object.keys(r), r.args, r.configuration, r.bt, r.client]", `{"args":[1],"configuration":{"k":"v"}}`, `[["args","configuration","bt","client"],[1],{"k":"v"},null,null]`},
			"nothing":         {"module.exports = (r) => r", "", `{"args":null,"configuration":{},"bt":null,"client":null}`},
			"same client":     {"module.exports = ({ bt, client }) => [bt === client, typeof bt.tokens.create]", `{"application":true}`, `[true,"function"]`},
			"values survive":  {"module.exports = (r) => r.args", `{"args":{"__proto__":{"x":1},"a":"\ud83d\ude00\n\u0000","b":[1.5,-0,1e21,true,null],"10":1,"2":2}}`, `{"2":2,"10":1,"__proto__":{"x":1},"a":"😀\n\u0000","b":[1.5,0,1e+21,true,null]}`},
			"lone surrogate":  {"module.exports = (r) => [r.args.length, r.args]", `{"args":"\ud800x"}`, `[2,"\ud800x"]`},
			"no prototype":    {"module.exports = (r) => [r.args.isAdmin, ({}).isAdmin]", `{"args":{"__proto__":{"isAdmin":true}}}`, `[null,null]`},
			"undefined":       {"module.exports = () => {}", "", "null"},
			"fresh each time": {"globalThis.n = (globalThis.n || 0) + 1; module.exports = () => globalThis.n", "", "1"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for range 2 {
					must.Same(t, "the result", c.want, must.Get(run(r, c.source, c.input, &fakeHost{}))(t))
				}
			})
		}
	})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for name, c := range map[string]struct {
			source string
			want   script.Error
		}{
			"plain error": {"module.exports = async () => {\n  await 1;\n  throw new Error('boom');\n}", script.Error{
				Kind: script.Thrown, Status: 500, Title: script.DefaultTitle, Name: "Error", Messages: map[string][]string{"error": {"boom"}},
				Frames: []script.Frame{{Line: 3, Column: 9}}}},
			"called function": {"function f(x) {\n  return x.y.z;\n}\nmodule.exports = () => {\n  f({});\n}", script.Error{
				Kind: script.Thrown, Status: 500, Title: script.DefaultTitle, Name: "TypeError", Messages: map[string][]string{"error": {"Cannot read properties of undefined (reading 'z')"}},
				Frames: []script.Frame{{Function: "f", Line: 2, Column: 14}, {Line: 5, Column: 4}}}},
			"a string": {"module.exports = () => { throw 'text' }", script.Error{
				Kind: script.Thrown, Status: 500, Title: script.DefaultTitle, Messages: map[string][]string{"error": {"text"}},
				Frames: []script.Frame{{Line: 1, Column: 26}}}},
			"class": {"const { BadRequestError } = require('@vault/errors');\nmodule.exports = () => { throw new BadRequestError('bad card') }", script.Error{
				Kind: script.Thrown, Status: 400, Title: "Bad Request", Name: "BadRequestError", Messages: map[string][]string{"error": {"bad card"}},
				Frames: []script.Frame{{Line: 2, Column: 32}}}},
			"class with fields": {"module.exports = async () => { throw new InvalidPaymentMethodError({ number: ['expired', 'stolen'], cvc: 'short' }) }", script.Error{
				Kind: script.Thrown, Status: 402, Title: "Invalid Payment Method", Name: "InvalidPaymentMethodError",
				Messages: map[string][]string{"number": {"expired", "stolen"}, "cvc": {"short"}},
				Frames:   []script.Frame{{Line: 1, Column: 38}}}},
			"subclass": {"class Mine extends RateLimitError {}\nmodule.exports = () => { throw new Mine('slow') }", script.Error{
				Kind: script.Thrown, Status: 429, Title: "Rate Limit Exceeded", Name: "RateLimitError", Messages: map[string][]string{"error": {"slow"}},
				Frames: []script.Frame{{Line: 2, Column: 32}}}},
			"custom response": {"module.exports = () => { throw new CustomHttpResponseError({ status: 418, headers: { 'X-A': 'b' }, body: { teapot: true } }) }", script.Error{
				Kind: script.Thrown, Status: 418, Title: "CustomHttpResponseError", Name: "CustomHttpResponseError", Messages: map[string][]string{"error": {"Custom HTTP response"}},
				Frames:   []script.Frame{{Line: 1, Column: 32}},
				Response: &script.Response{Status: 418, Header: http.Header{"X-A": {"b"}}, Body: []byte(`{"teapot":true}`)}}},
			"deadlock": {"module.exports = () => new Promise(() => {})", script.Error{
				Kind: script.Deadlock, Status: 500, Title: script.DefaultTitle, Messages: map[string][]string{"error": {"the function waits for a promise that nothing can settle"}}}},
			"too large": {"module.exports = () => 'x'.repeat(6e6)", script.Error{
				Kind: script.Output, Status: 500, Title: script.DefaultTitle, Messages: map[string][]string{"error": {"the result is too large"}}}},
			"too large once escaped": {"module.exports = () => '\\u0001'.repeat(1e6)", script.Error{
				Kind: script.Output, Status: 500, Title: script.DefaultTitle, Messages: map[string][]string{"error": {"the result is too large"}}}},
			"in a timer": {"module.exports = () => new Promise(() => setTimeout(() => { throw new Error('late') }, 1))", script.Error{
				Kind: script.Thrown, Status: 500, Title: script.DefaultTitle, Name: "Error", Messages: map[string][]string{"error": {"late"}},
				Frames: []script.Frame{{Line: 1, Column: 67}}}},
			"lowered code": {"import path from 'path';\nconst g = async function* () { yield 1 };\nexport default async () => {\n  for await (const x of g())\n    throw new Error(path.sep);\n}", script.Error{
				Kind: script.Thrown, Status: 500, Title: script.DefaultTitle, Name: "Error", Messages: map[string][]string{"error": {"/"}},
				Frames: []script.Frame{{Line: 5}}}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, err := run(r, c.source, "", &fakeHost{})
				got := scriptError(t, err)
				if c.want.Frames != nil && c.want.Frames[0].Column == 0 {
					for i := range got.Frames {
						got.Frames[i].Column, got.Frames[i].Function = 0, ""
					}
					got.Frames = got.Frames[:1]
				}
				must.Same(t, "the error", &c.want, got)
				if strings.Contains(err.Error(), "bad card") || strings.Contains(err.Error(), "boom") {
					t.Errorf("the text %q contains text of the code", err)
				}
			})
		}
	})
}

// branded is code that finds the symbol with which errors choose their
// response.
const branded = "const [brand] = Object.getOwnPropertySymbols(BadRequestError.prototype); "

// TestHostileErrors throws values that are not errors, or have too much data.
// The resulting error has a valid status and a limited size.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for _, body := range []string{
			"throw { get message() { throw 1 }, get name() { throw 2 } }",
			"throw new Proxy({}, { get() { throw new Error('trap') } })",
			"throw null", "throw undefined", "throw Symbol('s')", "throw 10n", "throw () => {}",
			"const e = new BadRequestError({ get a() { throw 1 } }); throw e",
			"throw new CustomHttpResponseError({ status: 99999 })",
			"throw new CustomHttpResponseError({ status: 200, body: { toJSON() { throw 1 } } })",
			"throw new CustomHttpResponseError()",
			"let n = 0; throw new CustomHttpResponseError({ status: { valueOf: () => [200, 200, 99999][n++] || 99999 } })",
			branded + "throw Object.assign(new Error('x'), { [brand]: { status: 99999, title: 'y' } })",
			branded + "let n = 0; throw Object.assign(new Error('x'), { [brand]: { status: { valueOf: () => n++ ? 99999 : 400 }, title: 'y' } })",
			branded + "throw Object.assign(new Error('x'), { [brand]: { status: 400, title: 'y'.repeat(1e6) } })",
			branded + "throw Object.assign(new Error('x'), { [brand]: {} })",
			"const list = Array(100).fill('z'.repeat(4000)), all = {}; for (let i = 0; i < 30; i++) all['f' + i] = list; throw new BadRequestError(all)",
			"throw new BadRequestError(Array(100).fill('z'.repeat(4000)))",
			"throw Object.assign(new Error('y'.repeat(1e6)), { errors: 'z'.repeat(1e6) })",
			"Error = null; TypeError = null; Promise = null; JSON = null; throw 1",
			"Object.prototype.toJSON = () => { throw 1 }; return {}",
			"return { get x() { throw new Error('getter') } }",
		} {
			t.Run(body, func(t *testing.T) {
				t.Parallel()
				_, err := runBody(r, body, body, patience)
				e := scriptError(t, err)
				if text, err := json.Marshal(e.Messages); err != nil || len(text)+len(e.Title) > 80_000 {
					t.Errorf("the error takes %d bytes, %v", len(text)+len(e.Title), err)
				}
				if e.Status < 200 || e.Status > 599 || e.Response == nil && e.Status < 400 {
					t.Errorf("the status is %d", e.Status)
				}
				if e.Kind == script.Crash {
					t.Error("the engine crashed")
				}
			})
		}
	})
}
