package jsruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

// A unit is a file of a package, made ready for goja, with the names of what it
// requires replaced by the units that they stand for. Its name is its path. As in
// Node, a file has one instance in a run, however it is reached: packages rely on
// it to share state between their files.

// unitPrefix marks the names in a unit that are units and need no looking up.
const unitPrefix = "vault-unit:"

// missingPrefix marks the relative names in a unit that lead nowhere.
const missingPrefix = "vault-missing:"

// packageSpace is the namespace of files that esbuild has from us. It reads none
// by itself.
const packageSpace = "package"

// buildAll makes units of files, in one go. If that fails, each is built by
// itself, so that those which can be used are.
func (f *folder) buildAll(names []string) []*built {
	out, bad := f.esbuild(names)
	if bad == nil {
		return out
	}
	if len(names) == 1 {
		return []*built{{err: buildError(names[0], *bad)}}
	}
	out = nil
	for _, name := range names {
		out = append(out, f.buildAll([]string{name})...)
	}
	return out
}

// esbuild makes units, or returns its first error.
func (f *folder) esbuild(names []string) ([]*built, *api.Message) {
	out := make([]*built, len(names))
	at := map[string]*built{}
	entries := make([]api.EntryPoint, len(names))
	for i, name := range names {
		out[i] = &built{}
		at[name] = out[i]
		entries[i] = api.EntryPoint{InputPath: unitPrefix + name, OutputPath: strconv.Itoa(i)} // no path that esbuild would look for
	}
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: entries,
		Outdir:              "/",
		Bundle:              true,
		Format:              api.FormatCommonJS,
		Target:              api.ES2022,
		Platform:            api.PlatformNode,
		Supported:           supported,
		Define:              map[string]string{"import.meta.url": "module.url"},
		LegalComments:       api.LegalCommentsNone,
		LogLevel:            api.LogLevelSilent,
		AbsWorkingDir:       f.root.Name(),
		TsconfigRaw:         "{}",
		Plugins:             []api.Plugin{f.plugin(func(unit, needed string) { at[unit].needs = append(at[unit].needs, needed) })},
	})
	if len(result.Errors) > 0 {
		return nil, &result.Errors[0]
	}
	for _, file := range result.OutputFiles {
		i, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(file.Path), ".js"))
		if err != nil || i >= len(out) {
			return nil, &api.Message{Text: "the output is not what was asked for"}
		}
		out[i].text = string(file.Contents)
	}
	return out, nil
}

// buildError says which file of a package cannot be used. It repeats nothing of
// the file, and no path of the host.
func buildError(unit string, m api.Message) error {
	at := unit
	if m.Location != nil {
		at = fmt.Sprintf("%s:%d", unit, m.Location.Line)
	}
	if isPanic(m.Text) {
		return fmt.Errorf("the package cannot be built: %s", at)
	}
	return fmt.Errorf("the package cannot be built: %s: %s", at, m.Text)
}

// plugin gives esbuild files, and tells it where names lead. It reports the units
// among them, from one goroutine at a time.
func (f *folder) plugin(report func(unit, needed string)) api.Plugin {
	var mu sync.Mutex
	return api.Plugin{Name: "packages", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{Path: strings.TrimPrefix(args.Path, unitPrefix), Namespace: packageSpace}, nil
			}
			name, isUnit := f.dependency(args)
			if isUnit {
				mu.Lock()
				defer mu.Unlock()
				report(args.Importer, name)
				name = unitPrefix + name
			}
			return api.OnResolveResult{Path: name, External: true}, nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: packageSpace}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			return f.contents(args.Path)
		})
	}}
}

// dependency says where a name in a file leads: to a unit, or to a built-in
// module, or, for require to say so when it is run, nowhere.
func (f *folder) dependency(args api.OnResolveArgs) (name string, isUnit bool) {
	if isNodeModule(args.Path) {
		return args.Path, false
	}
	conditions := importConditions
	if args.Kind == api.ResolveJSRequireCall || args.Kind == api.ResolveJSRequireResolve {
		conditions = requireConditions
	}
	found, err := f.resolve(path.Dir(args.Importer), args.Path, conditions)
	switch {
	case err == nil:
		return found, true
	case strings.HasPrefix(args.Path, "."):
		return missingPrefix + args.Path, false
	}
	return args.Path, false
}

// nativeText is what a compiled addon is replaced by. Packages that have one
// often do without it when it cannot be loaded.
const nativeText = `throw Object.assign(new Error(%q + " is a native module, which cannot be loaded here"), { code: "ERR_DLOPEN_FAILED" });`

// contents returns a file of a package for esbuild.
func (f *folder) contents(name string) (out api.OnLoadResult, err error) {
	out.Loader = api.LoaderJS
	raw, err := f.root.ReadFile(name)
	if err != nil {
		return out, errors.New("it cannot be read")
	}
	text := strings.TrimPrefix(string(raw), "\ufeff")
	switch path.Ext(name) {
	case ".node":
		text = fmt.Sprintf(nativeText, name)
	case ".json":
		if text, err = jsonModule(text); err != nil {
			return out, err
		}
	case ".ts", ".mts", ".cts":
		out.Loader = api.LoaderTS
	}
	out.Contents = &text
	return out, nil
}

// jsonModule returns JSON as a module. JSON is JavaScript, but for one property.
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
