package modules

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// folder is the operator's folder of packages. All reads go through its root,
// which rejects files outside of it, even behind symbolic links. Paths are
// relative and use slashes.
type folder struct {
	root      *os.Root
	manifests sync.Map // of *manifest by folder; nil for a folder without one
}

// ErrNotFound means that there is no such package or unit.
var ErrNotFound = errors.New("not found")

// The active conditions of exports. The first set is for the way in which a
// name is requested. The second set is for packages that support only the other
// way.
var (
	requireConditions = []map[string]bool{{"node": true, "require": true}, {"node": true, "import": true}}
	importConditions  = []map[string]bool{{"node": true, "import": true}, {"node": true, "require": true}}
)

// manifest returns the package.json of a folder, or nil.
func (f *folder) manifest(dir string) *manifest {
	if m, ok := f.manifests.Load(dir); ok {
		return m.(*manifest)
	}
	m := &manifest{}
	if raw, err := f.root.ReadFile(path.Join(dir, "package.json")); err != nil || json.Unmarshal(raw, m) != nil {
		m = nil
	}
	f.manifests.Store(dir, m)
	return m
}

// resolve returns the file that a name refers to in a file of the given folder,
// as Node does. Symbolic links are resolved.
func (f *folder) resolve(dir, name string, conditions []map[string]bool) (string, error) {
	for _, set := range conditions {
		found, err := f.resolveWith(dir, name, set)
		if err == nil {
			return f.real(found)
		}
	}
	return "", ErrNotFound
}

func (f *folder) resolveWith(dir, name string, conditions map[string]bool) (string, error) {
	switch {
	case name == "." || name == ".." || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../"):
		return f.file(path.Join(dir, name), strings.HasSuffix(name, "/"))
	case strings.HasPrefix(name, "#"):
		return f.imported(dir, name, conditions)
	case name == "" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00"):
		return "", ErrNotFound
	}
	packageName, sub := splitName(name)
	if own, m := f.scope(dir); m != nil && m.Name == packageName && len(m.Exports) > 0 {
		return f.exported(own, m, sub, conditions)
	}
	for ; ; dir = path.Dir(dir) {
		if path.Base(dir) != "node_modules" {
			if found, err := f.inPackage(path.Join(dir, "node_modules", packageName), sub, conditions); err == nil {
				return found, nil
			}
		}
		if dir == "." {
			return "", ErrNotFound
		}
	}
}

// splitName splits a name into the package and the path within it, which is "."
// or "./sub".
func splitName(name string) (packageName, sub string) {
	parts := strings.SplitN(name, "/", 3)
	n := 1
	if strings.HasPrefix(name, "@") {
		n = 2
	}
	if len(parts) <= n {
		return name, "."
	}
	return strings.Join(parts[:n], "/"), "./" + strings.Join(parts[n:], "/")
}

// inPackage returns a file of a package; "." is the package itself.
func (f *folder) inPackage(dir, sub string, conditions map[string]bool) (string, error) {
	info, err := f.root.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", ErrNotFound
	}
	if m := f.manifest(dir); m != nil && len(m.Exports) > 0 && string(m.Exports) != "null" {
		return f.exported(dir, m, sub, conditions)
	}
	return f.file(path.Join(dir, sub), sub == ".")
}

// exported returns the file that a package exports under a path.
func (f *folder) exported(dir string, m *manifest, sub string, conditions map[string]bool) (string, error) {
	relative, ok := target(m.Exports, sub, conditions)
	if !ok || !strings.HasPrefix(relative, "./") {
		return "", ErrNotFound
	}
	return f.inside(dir, relative)
}

// inside returns a file of a package by its path within the package.
func (f *folder) inside(dir, relative string) (string, error) {
	full := path.Join(dir, relative)
	if !strings.HasPrefix(full, dir+"/") {
		return "", ErrNotFound
	}
	return f.regular(full)
}

// imported returns the file that a package has for a name that starts with #.
func (f *folder) imported(dir, name string, conditions map[string]bool) (string, error) {
	own, m := f.scope(dir)
	if m == nil {
		return "", ErrNotFound
	}
	relative, ok := target(m.Imports, name, conditions)
	switch {
	case !ok || strings.HasPrefix(relative, "#"):
		return "", ErrNotFound
	case !strings.HasPrefix(relative, "./"):
		return f.resolveWith(own, relative, conditions)
	}
	return f.inside(own, relative)
}

// scope returns the nearest folder upwards with a package.json, and its
// manifest.
func (f *folder) scope(dir string) (string, *manifest) {
	for {
		if m := f.manifest(dir); m != nil {
			return dir, m
		}
		if dir == "." || path.Base(dir) == "node_modules" {
			return "", nil
		}
		dir = path.Dir(dir)
	}
}

// extensions are the extensions that a name may omit.
var extensions = []string{"", ".js", ".json", ".node", ".cjs", ".mjs"}

// file returns the file of a path without extension, or the main file of a
// folder.
func (f *folder) file(name string, isFolder bool) (string, error) {
	if !isFolder {
		if found, err := f.extended(name, extensions); err == nil {
			return found, nil
		}
	}
	if m := f.manifest(name); m != nil && m.main() != "" {
		main := path.Join(name, m.main())
		for _, candidate := range []string{main, path.Join(main, "index")} {
			if found, err := f.extended(candidate, extensions); err == nil {
				return found, nil
			}
		}
	}
	return f.extended(path.Join(name, "index"), extensions[1:])
}

// extended returns the first file that a path and an extension name.
func (f *folder) extended(name string, extensions []string) (string, error) {
	for _, extension := range extensions {
		if found, err := f.regular(name + extension); err == nil {
			return found, nil
		}
	}
	return "", ErrNotFound
}

// regular returns the path if it is a regular file within the folder.
func (f *folder) regular(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", ErrNotFound
	}
	info, err := f.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", ErrNotFound
	}
	return name, nil
}

// maxLinks limits the symbolic links on one path.
const maxLinks = 40

// real returns a path without symbolic links, which identifies a file however
// it was reached. The root has made sure that no link leads out.
func (f *folder) real(name string) (string, error) {
	rest := strings.Split(name, "/")
	done := "."
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		info, err := f.root.Lstat(next)
		if err != nil {
			return "", ErrNotFound
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done, rest = next, rest[1:]
			continue
		}
		to, err := f.root.Readlink(next)
		if links++; err != nil || path.IsAbs(to) || links > maxLinks {
			return "", ErrNotFound
		}
		to = path.Join(done, to)
		if !fs.ValidPath(to) {
			return "", ErrNotFound
		}
		done, rest = ".", slices.Concat(strings.Split(to, "/"), rest[1:])
	}
	return done, nil
}

// packageOf returns the folder of the package that a file belongs to.
func (f *folder) packageOf(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	for i := len(parts) - 2; i >= 0; i-- {
		if parts[i] != "node_modules" {
			continue
		}
		n := 2
		if strings.HasPrefix(parts[i+1], "@") {
			n = 3
		}
		return strings.Join(parts[:min(i+n, len(parts))], "/")
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) { // a link to another place in the folder
		if m := f.manifest(dir); m != nil && m.Name != "" {
			return dir
		}
	}
	return "."
}
