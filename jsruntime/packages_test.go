package jsruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
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
	files := maps.Collect(readParts(t, "testdata/packages/folder.js"))
	files["node_modules/native/addon.node"] = "\x7fELF"
	files["node_modules/panics/index.js"] = panics
	return writeFolder(t, files)
}

func TestPackages(t *testing.T) {
	t.Parallel()
	dir := packageFolder(t)
	for kind, r := range map[string]script.Runtime{
		"workers":    newWorkers(t, &jsruntime.Options{Modules: dir}),
		"in process": jsruntime.NewInProcess(&jsruntime.Options{Modules: dir}),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testCorpora(t, r, &fakeHost{}, "packages.jsonl")
		})
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
		must.Same(t, body, want, must.Get(runBody(r, "t", body, patience))(t))
	}
	_, err := runBody(r, "t", "require('greedy')()", patience)
	must.Same(t, "a greedy package ends with", script.Memory, scriptError(t, err).Kind)
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
			must.Match(t, dir, err, jsruntime.ErrModules)
		}
	}
}
