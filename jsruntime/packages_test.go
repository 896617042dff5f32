package jsruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// writeFolder creates a folder with files.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o700))
		must.Do(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return dir
}

func packageFolder(t *testing.T) string {
	t.Helper()
	dir := writeFolder(t, map[string]string{
		"node_modules/plain/package.json": `{"name":"plain","main":"./lib"}`,
		"node_modules/plain/lib/index.js": `exports.n = 0; exports.add = () => ++exports.n; exports.dep = require('dep'); exports.late = (name) => require(name);`,
		"node_modules/plain/lib/sub.js":   `module.exports = require('./index');`,
		"node_modules/plain/data.json":    `{"a": [1, {"b": 2}]}`,
		"node_modules/plain/proto.json":   `{"__proto__": 1}`,
		"node_modules/dep/index.js":       `module.exports = 'top';`,
		"node_modules/maps/package.json": `{"name":"maps","exports":{".":{"node":{"import":"./m.mjs","require":"./r.cjs"},"default":"./none.js"},
			"./deep/*":"./lib/*.js","./deep/secret":null,"./list":[{"browser":"./none.js"},"./lib/list.js"]},"imports":{"#own":"./lib/own.js"}}`,
		"node_modules/maps/r.cjs":              `exports.kind = 'require'; exports.own = require('#own'); exports.self = require('maps/deep/x');`,
		"node_modules/maps/m.mjs":              `export const kind = 'import';`,
		"node_modules/maps/lib/own.js":         `module.exports = 'own';`,
		"node_modules/maps/lib/x.js":           `module.exports = 'x';`,
		"node_modules/maps/lib/secret.js":      `module.exports = 'secret';`,
		"node_modules/maps/lib/list.js":        `module.exports = 'list';`,
		"node_modules/esm/package.json":        `{"name":"esm","type":"module","exports":"./index.js"}`,
		"node_modules/esm/index.js":            `import cjs from './cjs.cjs'; import { live, set } from './live.js'; export default function () { set(5); return [cjs.default, live]; } export const url = import.meta.url;`,
		"node_modules/esm/cjs.cjs":             `exports.__esModule = true; exports.default = 'inner';`,
		"node_modules/esm/live.js":             `export let live = 1; export function set(n) { live = n; }`,
		"node_modules/@scope/pkg/package.json": `{"name":"@scope/pkg"}`,
		"node_modules/@scope/pkg/index.js":     `module.exports = class Scoped {};`,
		"node_modules/native/package.json":     `{"name":"native","main":"addon.node"}`,
		"node_modules/native/addon.node":       "\x7fELF",
		"node_modules/broken/index.js":         `this is not javascript`,
		"node_modules/panics/index.js":         panics,
		"node_modules/inner/index.js":          `try { require('nowhere'); } catch (err) { exports.code = err.code; } exports.locale = (n) => require('./' + n);`,
		"node_modules/inner/de.js":             `module.exports = 'de';`,
		"node_modules/axios/index.js":          `module.exports = 'the operator\'s';`,
		"node_modules/fs/index.js":             `module.exports = 'not this';`,
		"node_modules/@vault/errors/index.js":  `module.exports = 'not this';`,
		"node_modules/polluter/index.js":       `Object.prototype.polluted = true; Array.prototype.map = () => 'hijacked'; globalThis.left = 1;`,
		"node_modules/greedy/index.js":         `module.exports = () => { const all = []; for (;;) all.push(Buffer.alloc(1 << 24)); };`,
		"node_modules/thief/index.js":          `exports.read = () => require('fs').readFileSync('/etc/passwd', 'utf8'); exports.up = (name) => require(name);`,
		"node_modules/names/package.json":      `{"name":"names","type":"module"}`,
		"node_modules/names/index.js":          `export default function () {} export let Baz = class Baz { static self = Baz }; export const arrow = () => 1; export class Foo { static Foo = 1; get() { return class Inner {} } } export function plain() {} export const names = (() => { function inner() {} { function inner() {} return [inner.name, (() => {}).name, (function named() {}).name, ({ key() {}, value: () => {} }).value.name] } })();`,
		"node_modules/late/index.js":           `const { createRequire } = require('module'); const from = createRequire(__filename); exports.sub = from('./sub'); exports.dep = createRequire('file://' + __filename)('dep'); exports.miss = () => from('nowhere'); exports.names = require('module').builtinModules.includes('crypto');`,
		"node_modules/late/sub.js":             `module.exports = 'sub';`,
		"node_modules/.bin/hidden/index.js":    `module.exports = 1;`,
	})
	return dir
}

func TestPackages(t *testing.T) {
	t.Parallel()
	dir := packageFolder(t)
	for kind, r := range map[string]script.Runtime{
		"workers":    newWorkers(t, &jsruntime.Options{Modules: dir}),
		"in process": jsruntime.NewInProcess(&jsruntime.Options{Modules: dir}),
	} {
		for body, want := range map[string]string{
			"const p=require('plain'); p.add(); return [p.n, require('plain/lib/sub')===p, p.dep]":                                                  `[1,true,"top"]`,
			"return [require('plain').n, require('plain/data'), require('plain/data.json').a.length]":                                               `[0,{"a":[1,{"b":2}]},2]`,
			"return Object.keys(require('plain/proto.json'))":                                                                                       `["__proto__"]`,
			"const m=require('maps'); return [m.kind, m.own, m.self, require('maps/list')]":                                                         `["require","own","x","list"]`,
			"const e=require('esm'); return [e.default(), e.url]":                                                                                   `[["inner",5],"file:///app/node_modules/esm/index.js"]`,
			"const n=require('names'); return [n.default.name, n.Baz.name, n.arrow.name, n.Foo.Foo, new n.Foo().get().name, n.plain.name, n.names]": `["default","Baz","arrow",1,"Inner","plain",["inner","","named","value"]]`,
			"const l=require('late'); try { l.miss() } catch (e) { return [l.sub, l.dep, e.code, l.names] }":                                        `["sub","top","MODULE_NOT_FOUND",true]`,
			"return require('@scope/pkg').name":                                                                                                     `"Scoped"`,
			"const i=require('inner'); return [i.code, i.locale('de')]":                                                                             `["MODULE_NOT_FOUND","de"]`,
			"return [require('axios'), typeof require('fs').readFileSync, typeof require('@vault/errors').BadRequestError]":                         `["the operator's","function","function"]`,
			"return require('@vault/errors')===require('@basis-theory/basis-theory-reactor-formulas-sdk-js')":                                       `true`,
			"try { require('native') } catch (e) { return [e.code, e.message.includes('native module')] }":                                          `["ERR_DLOPEN_FAILED",true]`,
			"try { require('broken') } catch (e) { return e.message.includes('node_modules/broken/index.js:1') }":                                   `true`,
			"try { require('panics') } catch (e) { return e.message }":                                                                              `"the package cannot be used: node_modules/panics/index.js"`,
			"const n='no'+'where'; try { require(n) } catch (e) { return e.code }":                                                                  `"MODULE_NOT_FOUND"`,
			"try { require('maps/lib/x.js') } catch (e) { return e.code }":                                                                          `"MODULE_NOT_FOUND"`,
			"try { require('maps/deep/secret') } catch (e) { return e.code }":                                                                       `"MODULE_NOT_FOUND"`,
			"try { require('./node_modules/plain/lib/index.js') } catch (e) { return e.code }":                                                      `"MODULE_NOT_FOUND"`,
		} {
			t.Run(kind+" "+body, func(t *testing.T) {
				t.Parallel()
				got, err := runBody(r, "t", body, patience)
				if err != nil || got != want {
					t.Errorf("got %s, %s, want %s", got, explain(err), want)
				}
			})
		}
	}
}

// TestImportOfPackages imports packages in an ES module.
func TestImportOfPackages(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Modules: packageFolder(t)})
	code := `import plain, { add } from 'plain';
import make from 'esm';
export default async () => [add(), plain.n, make()[1], (await import('@scope/pkg')).default.name];`
	out, err := r.Run(context.Background(), script.Program{Tenant: "t", Source: code}, nil, &fakeHost{})
	if want := `[1,1,5,"Scoped"]`; err != nil || string(out) != want {
		t.Errorf("got %s, %s, want %s", out, explain(err), want)
	}
}

// TestNamesAreChecked checks code that names packages.
func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Modules: packageFolder(t)})
	const export = "\nmodule.exports = () => 1;"
	for code, line := range map[string]string{
		"const x = require('left-pad');" + export:                                                            "line 1:",
		"\n\nfunction later() { return require('left-pad/sub'); }" + export:                                  "line 3:",
		"import x from 'left-pad';\nexport default () => x;":                                                 "line 1:",
		"export default async () => import('left-pad');":                                                     "line 1:",
		"const x = require('./other');" + export:                                                             "line 1:",
		"const x = require('maps/lib/x.js');" + export:                                                       "line 1:",
		"try { require('left-pad') } catch {}" + export:                                                      "",
		"const f = () => { try { (() => require('left-pad'))() } catch { require('right-pad') } };" + export: "",
		"const n = 'left-' + 'pad'; const f = () => require(n);" + export:                                    "",
		"(function (require) { return require('left-pad') })(() => 1);" + export:                             "",
		"{ const require = (x) => x; require('left-pad') }" + export:                                         "",
		"const a = [require('plain'), require('lodash-not') ? 1 : 0];" + export:                              "line 1:",
		"const a = [require('plain'), require('node:fs'), require('plain/data')];" + export:                  "",
	} {
		err := r.Check(context.Background(), script.Program{Tenant: "t", Source: code})
		if line == "" {
			if err != nil {
				t.Errorf("%s: %s", code, explain(err))
			}
			continue
		}
		if !errors.Is(err, script.ErrInvalid) {
			t.Errorf("%s: got %v", code, err)
			continue
		}
		text := scriptError(t, err).Messages["code"][0]
		if !strings.HasPrefix(text, line) || !strings.Contains(text, "@scope/pkg, @vault/errors") || !strings.Contains(text, "plain") {
			t.Errorf("%s: %q", code, text)
		}
	}
}

// TestEveryRunHasFreshPackages checks that every run has its own instances of packages
// and intrinsics.
func TestEveryRunHasFreshPackages(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Modules: packageFolder(t)})
	for range 2 {
		if got, err := runBody(r, "t", "const p=require('plain'); p.add(); p.extra=1; return [p.n, p.extra]", patience); got != "[1,1]" {
			t.Errorf("got %s, %s", got, explain(err))
		}
		if got, err := runBody(r, "t", "require('polluter'); return [({}).polluted, [1].map(1)]", patience); got != `[true,"hijacked"]` {
			t.Errorf("got %s, %s", got, explain(err))
		}
		if got, err := runBody(r, "t", "return [({}).polluted===undefined, [1].map((x)=>x+1), typeof left, require('plain').extra===undefined]", patience); got != `[true,[2],"undefined",true]` {
			t.Errorf("the next run got %s, %s", got, explain(err))
		}
	}
}

// TestHostilePackages runs packages that try to reach outside of the folder and
// to take the worker down.
func TestHostilePackages(t *testing.T) {
	t.Parallel()
	dir := packageFolder(t)
	outside := writeFolder(t, map[string]string{"secret.js": "module.exports = 'secret';", "package.json": `{"name":"evil"}`, "index.js": "module.exports = 'secret';"})
	for link, to := range map[string]string{
		"node_modules/linked":        outside,
		"node_modules/thief/up.js":   filepath.Join(outside, "secret.js"),
		"node_modules/thief/dots.js": "../../../" + filepath.Base(outside) + "/secret.js",
		"node_modules/thief/loop.js": "loop.js",
		"node_modules/within":        "plain",
		"node_modules/thief/in.js":   "../plain/lib/index.js",
	} {
		must.Do(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	r := newWorkers(t, &jsruntime.Options{Modules: dir})
	tried := []string{"../../../etc/passwd", "/etc/passwd", "../../package.json/../../../etc/passwd", outside + "/secret.js", "./up.js", "./dots.js", "./loop.js", "linked", "linked/secret", "..\\..\\x", "plain/../../../etc/passwd", ".bin/../../x"}
	names := must.Get(json.Marshal(tried))(t)
	for body, want := range map[string]string{
		"const {up}=require('thief'); return " + string(names) + ".filter((n)=>{try{up(n);return true}catch(e){return e.code!=='MODULE_NOT_FOUND'}})": "[]",
		"try { require('thief').read() } catch (e) { return [e.code, e.message.includes('fs.readFileSync')] }":                                        `["ERR_ACCESS_DENIED",true]`,
		"return [require('within')===require('plain'), require('thief').up('./in.js')===require('plain')]":                                            "[true,true]",
	} {
		if got, err := runBody(r, "t", body, patience); err != nil || got != want {
			t.Errorf("%s: got %s, %s, want %s", body, got, explain(err), want)
		}
	}
	_, err := runBody(r, "t", "require('greedy')()", patience)
	if kind := scriptError(t, err).Kind; kind != script.Memory {
		t.Errorf("a greedy package ends with %s", kind)
	}
	if got, err := runBody(r, "other", "return require('plain').n", patience); got != "0" {
		t.Errorf("after it, another tenant got %s, %s", got, explain(err))
	}
}

// TestUnusableModulesFolderIsReported checks that an unusable folder is reported.
func TestUnusableModulesFolderIsReported(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, dir := range []string{empty, filepath.Join(empty, "missing")} {
		r := jsruntime.New(&jsruntime.Options{Modules: dir})
		defer r.Close()
		in := jsruntime.NewInProcess(&jsruntime.Options{Modules: dir})
		_, err := runBody(r, "t", "return 1", patience)
		_, inErr := runBody(in, "t", "return 1", patience)
		for _, err := range []error{r.Ready(context.Background()), err, inErr} {
			if !errors.Is(err, jsruntime.ErrModules) {
				t.Errorf("%s: got %v", dir, err)
			}
		}
	}
}
