package jsruntime

import (
	"fmt"
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// A unit is what is bundled, compiled and instantiated as one: a file of a
// package by which others enter it, with the files of the same package that it
// needs. Its name is the path of that file. What it needs of other packages is
// left to require, so that packages have one instance in a run however they are
// reached.

// unitPrefix marks the names in a bundle that are units and need no looking up.
const unitPrefix = "vault-unit:"

// packageSpace is the namespace of files that esbuild has from us. It reads none
// by itself.
const packageSpace = "package"

// bundle returns the text of a unit.
func (f *folder) bundle(unit string) (string, error) {
	out := api.Build(api.BuildOptions{
		EntryPoints:   []string{unit},
		Bundle:        true,
		Format:        api.FormatCommonJS,
		Target:        api.ES2022,
		Platform:      api.PlatformNode,
		Supported:     supported,
		Define:        map[string]string{"import.meta.url": `"file:///app/` + escapeURL(unit) + `"`},
		LegalComments: api.LegalCommentsNone,
		LogLevel:      api.LogLevelSilent,
		AbsWorkingDir: f.root.Name(),
		TsconfigRaw:   "{}",
		Plugins:       []api.Plugin{f.plugin(unit)},
	})
	if len(out.Errors) > 0 {
		return "", bundleError(unit, out.Errors[0])
	}
	return string(out.OutputFiles[0].Contents), nil
}

// escapeURL escapes a path for a URL within a string literal.
func escapeURL(name string) string {
	return strings.NewReplacer("%", "%25", `"`, "%22", `\`, "%5C", " ", "%20", "\n", "%0A").Replace(name)
}

// bundleError says which file of a package cannot be used. It repeats nothing of
// the file, and no path of the host.
func bundleError(unit string, m api.Message) error {
	at := unit
	if m.Location != nil {
		at = fmt.Sprintf("%s:%d", strings.TrimPrefix(m.Location.File, packageSpace+":"), m.Location.Line)
	}
	if isPanic(m.Text) {
		return fmt.Errorf("the package cannot be bundled: %s", at)
	}
	return fmt.Errorf("the package cannot be bundled: %s: %s", at, m.Text)
}

// plugin gives esbuild the files of one unit.
func (f *folder) plugin(unit string) api.Plugin {
	home := f.packageOf(unit)
	return api.Plugin{Name: "packages", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{Path: unit, Namespace: packageSpace}, nil
			}
			return f.dependency(home, args), nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: packageSpace}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			return f.contents(args.Path)
		})
	}}
}

// dependency says where a name in a file of a package leads: into the unit, to
// another one, to a built-in module, or, for require to say so when it is run,
// nowhere.
func (f *folder) dependency(home string, args api.OnResolveArgs) api.OnResolveResult {
	outside := api.OnResolveResult{Path: args.Path, External: true}
	if isNodeModule(args.Path) {
		return outside
	}
	conditions := importConditions
	if args.Kind == api.ResolveJSRequireCall || args.Kind == api.ResolveJSRequireResolve {
		conditions = requireConditions
	}
	found, err := f.resolve(path.Dir(args.Importer), args.Path, conditions)
	switch {
	case err != nil && strings.HasPrefix(args.Path, "."):
		outside.Path = missingPrefix + args.Path // lest it be looked up from another file
		return outside
	case err != nil:
		return outside
	case f.packageOf(found) == home:
		return api.OnResolveResult{Path: found, Namespace: packageSpace}
	}
	return api.OnResolveResult{Path: unitPrefix + found, External: true}
}

// missingPrefix marks the relative names in a bundle that lead nowhere.
const missingPrefix = "vault-missing:"

// nativeText is what a compiled addon is replaced by. Packages that have one
// often do without it when it cannot be loaded.
const nativeText = `throw Object.assign(new Error(%q + " is a native module, which cannot be loaded here"), { code: "ERR_DLOPEN_FAILED" });`

// contents returns a file of a package for esbuild.
func (f *folder) contents(name string) (out api.OnLoadResult, err error) {
	out.Loader = api.LoaderJS
	switch path.Ext(name) {
	case ".node":
		text := fmt.Sprintf(nativeText, name)
		out.Contents = &text
		return out, nil
	case ".json":
		out.Loader = api.LoaderJSON
	case ".ts", ".mts", ".cts":
		out.Loader = api.LoaderTS
	}
	raw, err := f.root.ReadFile(name)
	if err != nil {
		return out, fmt.Errorf("%s cannot be read", name)
	}
	text := string(raw)
	out.Contents = &text
	return out, nil
}
