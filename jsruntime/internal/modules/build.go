package modules

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

// A unit is a file of a package, prepared for goja, with the units that its
// names refer to. The name of a unit is its path. As in Node, a file has one
// instance in a run, however it is reached. Packages rely on that to share
// state between their files.

// built is a unit. It is immutable.
type built struct {
	text  string
	names map[string]string // units by the names that the text requires
	err   error
}

// buildAll builds units from files, as many at a time as there are processors.
func (f *folder) buildAll(files []string) []*built {
	out := make([]*built, len(files))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(len(files), runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(files); i = int(next.Add(1)) - 1 {
				out[i] = f.build(files[i])
			}
		})
	}
	wait.Wait()
	return out
}

// build builds a unit from a file. esbuild sees only the text and reads no
// files.
func (f *folder) build(file string) *built {
	raw, err := f.root.ReadFile(file)
	if err != nil {
		return &built{err: fmt.Errorf("the package cannot be used: %s cannot be read", file)}
	}
	text := strings.TrimPrefix(string(raw), "\ufeff")
	loader := api.LoaderJS
	switch path.Ext(file) {
	case ".node":
		return &built{text: fmt.Sprintf(nativeText, file)}
	case ".json":
		text, err := jsonModule(text)
		if err != nil {
			err = fmt.Errorf("the package cannot be used: %s: %w", file, err)
		}
		return &built{text: text, err: err}
	case ".ts", ".mts", ".cts":
		loader = api.LoaderTS
	}
	out := compile.Transform(text, loader, unitOptions)
	if len(out.Errors) > 0 {
		return &built{err: buildError(file, out.Errors[0])}
	}
	b := &built{text: string(out.Code)}
	conditions := requireConditions
	if f.isModule(file) || strings.Contains(b.text, "__toCommonJS(") && !strings.Contains(text, "__toCommonJS(") {
		conditions = importConditions
	}
	b.names = f.names(file, b.text, conditions)
	if f.isModule(file) {
		b.text = f.wholeDefaults(b)
	}
	return b
}

// isModule reports whether Node treats a file as an ES module.
func (f *folder) isModule(file string) bool {
	switch path.Ext(file) {
	case ".mjs":
		return true
	case ".js", ".ts":
		_, m := f.scope(path.Dir(file))
		return m != nil && m.Type == "module"
	}
	return false
}

// defaultImport matches esbuild's code for the import of a whole module.
var defaultImport = regexp.MustCompile(`__toESM\(require\(("(?:[^"\\\n]|\\.)*")\)\)`)

// wholeDefaults makes the default import of a CommonJS module all of its
// exports, as in Node. esbuild would use its property default, if there is one.
func (f *folder) wholeDefaults(b *built) string {
	return defaultImport.ReplaceAllStringFunc(b.text, func(call string) string {
		name, err := strconv.Unquote(defaultImport.FindStringSubmatch(call)[1])
		if unit := b.names[name]; err != nil || unit == "" || f.isModule(unit) {
			return call
		}
		return strings.TrimSuffix(call, ")") + ", 1)"
	})
}

// unitOptions are the options of esbuild for a unit.
var unitOptions = api.TransformOptions{Define: map[string]string{"import.meta.url": "module.url"}}

// buildError names the file of a package that cannot be used. It does not
// repeat the file's content.
func buildError(file string, m api.Message) error {
	if m.Location != nil {
		file = fmt.Sprintf("%s:%d", file, m.Location.Line)
	}
	if compile.IsPanic(m.Text) {
		return fmt.Errorf("the package cannot be used: %s", file)
	}
	return fmt.Errorf("the package cannot be used: %s: %s", file, m.Text)
}

// requireCall matches esbuild's code for a call of require with a literal name.
var requireCall = regexp.MustCompile(`\brequire\(("(?:[^"\\\n]|\\.)*")\)`)

// names returns the units that the names in a text refer to. A match inside a
// string does no harm. require reports names that lead nowhere, when it runs.
func (f *folder) names(file, text string, conditions []map[string]bool) map[string]string {
	out := map[string]string{}
	for _, m := range requireCall.FindAllStringSubmatch(text, -1) {
		name, err := strconv.Unquote(m[1])
		if err != nil || isNodeModule(name) {
			continue
		}
		if found, err := f.resolve(path.Dir(file), name, conditions); err == nil {
			out[name] = found
		}
	}
	return out
}

// nativeText replaces a compiled addon. Packages with an addon often work
// without it if it cannot be loaded.
const nativeText = `throw Object.assign(new Error(%q + " is a native module, which cannot be loaded here"), { code: "ERR_DLOPEN_FAILED" });`

// jsonModule returns JSON as a module. JSON is also JavaScript, except for one
// property.
func jsonModule(text string) (string, error) {
	switch {
	case !json.Valid([]byte(text)):
		return "", errors.New("it is not JSON")
	case strings.Contains(text, "__proto__"):
		quoted, err := json.Marshal(text)
		return "module.exports = JSON.parse(" + string(quoted) + ");", err
	}
	return "module.exports = " + text + ";", nil
}
