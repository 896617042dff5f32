package jsruntime_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// TestTopLevelAwait runs modules that use await while they load.
func TestTopLevelAwait(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	for name, c := range map[string]struct{ code, want string }{
		"value":        {"const x = await Promise.resolve(5);\nexport default () => x", "5"},
		"timer":        {"await new Promise((done) => setTimeout(done, 1));\nexport default () => 'later'", `"later"`},
		"imports":      {"import path, { sep as s } from 'path';\nimport * as url from 'url';\nimport 'util';\nconst x = await s;\nexport default () => [x, path.sep, typeof url.URL, typeof url.default]", `["/","/","function","object"]`},
		"import after": {"const x = await basename('/a/b');\nimport { basename } from 'path';\nexport default () => x", `"b"`},
		"exports":      {"export const a = await 1;\nexport function f() { return a }\nexport * from 'path';\nexport * as url from 'url';\nexport { join as 'a-b' } from 'path';\nexport default () => [module.exports.a, module.exports.f(), typeof module.exports.sep, typeof module.exports.url.URL, module.exports['a-b']('x', 'y')]", `[1,1,"string","function","x/y"]`},
		"in a text":    {"const x = await `\nimport y from \"z\";\nexport { x };`;\nexport default () => x.length", "33"},
		"for await":    {"const list = [];\nfor await (const x of [Promise.resolve(1), 2]) list.push(x);\nexport default () => list", "[1,2]"},
		"typescript":   {"const x: number = await Promise.resolve(2);\nexport default (): number => x", "2"},
		"import()":     {"const { sep } = await import('path');\nexport default () => sep", `"/"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			out := must.Get(r.Run(ctx, script.Program{Tenant: "t", Source: c.code}, nil, &fakeHost{}))(t)
			must.Same(t, "the result", c.want, string(out))
		})
	}
}

// TestTopLevelAwaitErrorsHaveTheirLine checks that the errors of such modules have the line
// in the source.
func TestTopLevelAwaitErrorsHaveTheirLine(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	const throws = "import {\n  sep,\n  join\n} from 'path';\nawait join(sep);\nundefined.x;\nexport default () => 1"
	err := r.Check(context.Background(), script.Program{Tenant: "t", Source: throws})
	if e := scriptError(t, err); len(e.Frames) == 0 || e.Frames[0].Line != 6 {
		t.Errorf("got %s, want an error in line 6", explain(err))
	}
	err = r.Check(context.Background(), script.Program{Tenant: "t", Source: "await new Promise(() => {});\nexport default () => 1"})
	want := map[string][]string{"code": {"the code failed while loading: the function waits for a promise that nothing can settle"}}
	must.Same(t, "messages", want, scriptError(t, err).Messages)
	err = r.Check(context.Background(), script.Program{Tenant: "t", Source: "import x from 'no-such-package';\nawait x;\nexport default () => 1"})
	if e := scriptError(t, err); e.Kind != script.Invalid || len(e.Frames) == 0 || e.Frames[0].Line != 1 {
		t.Errorf("got %s, want an error about a missing package", explain(err))
	}
}

// TestCrashIsContained runs code that makes the engine panic. The run ends, and
// the worker continues.
func TestCrashIsContained(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newWorkers(t, &jsruntime.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const body = "const secret = '4242424242424242'; return (0, eval)(`(function () { class A {}; const C = class extends A { x = eval('super.y') }; return new C().x })()`)"
	if _, err := runBody(r, "t", body, patience); err == nil {
		t.Log("the engine now supports it")
	} else if e := scriptError(t, err); e.Kind != script.Crash {
		t.Errorf("got %s, want a crash", explain(err))
	}
	must.Same(t, "the next run", "1", must.Get(runBody(r, "t", "return 1", patience))(t))
	must.Same(t, "crashes were counted", 1, r.Stats().Crashes)
	for _, word := range []string{"tenant=t", "program=test", "runtime error", "goja"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("the log lacks %q: %s", word, log.String())
		}
	}
	if strings.Contains(log.String(), "4242") {
		t.Errorf("the log contains data that the code was given: %s", log.String())
	}
}
