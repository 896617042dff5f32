package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// group is a set of packages for one "go test".
type group struct {
	dir      string // of their module
	race     bool
	packages []string
}

// plan returns the groups to run, in order.
func plan(o options) ([]group, error) {
	dirs := []string{"."}
	patterns := o.packages
	if len(patterns) == 0 {
		patterns = []string{"./..."}
		for _, pattern := range []string{"*/go.mod", "*/*/go.mod"} {
			modules, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			for _, file := range modules {
				dirs = append(dirs, filepath.Dir(file))
			}
		}
	}
	var all []group
	for _, dir := range dirs {
		groups, err := groupsOf(dir, o.long, patterns)
		if err != nil {
			return nil, err
		}
		all = append(all, groups...)
	}
	return all, nil
}

// groupsOf returns the packages of a module that match patterns, in two groups:
// concurrent packages and the rest. Packages with many tests come first, so
// that no core waits for the last one.
func groupsOf(dir string, long bool, patterns []string) ([]group, error) {
	packages, err := list(dir, long, patterns)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(packages, func(a, b listed) int { return cmp.Compare(b.size, a.size) })
	race, rest := group{dir: dir, race: true}, group{dir: dir}
	for _, p := range packages {
		yes, err := p.concurrent()
		if err != nil {
			return nil, err
		}
		g := &rest
		if yes {
			g = &race
		}
		g.packages = append(g.packages, p.ImportPath)
	}
	var all []group
	for _, g := range []group{race, rest} {
		if len(g.packages) > 0 {
			all = append(all, g)
		}
	}
	return all, nil
}

// listed is a package as "go list" describes it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string

	size int64 // of the tests, in bytes
}

// list returns the packages that match patterns and have tests.
func list(dir string, long bool, patterns []string) ([]listed, error) {
	args := []string{"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles"}
	if long {
		args = append(args, "-tags=long")
	}
	cmd := exec.Command("go", append(args, patterns...)...) //nolint:noctx // ends on its own
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("go list: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, err
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.size, err = p.tests(); err != nil {
			return nil, err
		}
		if p.size > 0 {
			all = append(all, p)
		}
	}
}

// tests returns the size of the test files, in bytes.
func (p *listed) tests() (size int64, err error) {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		info, err := os.Stat(filepath.Join(p.Dir, name))
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// concurrent reports whether a file of the package or of its tests is
// concurrent. A package that has only tests, and excludes them from builds with
// the race detector, is not.
func (p *listed) concurrent() (found bool, err error) {
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if len(p.GoFiles) == 0 && excluded(file) {
			return false, nil
		}
		found = found || concurrent(file)
	}
	return found, nil
}

// excluded reports whether a file is excluded from builds with the race detector.
func excluded(file *ast.File) bool {
	return len(file.Comments) > 0 && strings.Contains(file.Comments[0].List[0].Text, "//go:build !race")
}

// concurrent reports whether a file starts a goroutine or imports sync or
// sync/atomic.
func concurrent(file *ast.File) bool {
	for _, i := range file.Imports {
		if i.Path.Value == `"sync"` || i.Path.Value == `"sync/atomic"` {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		_, starts := n.(*ast.GoStmt)
		found = found || starts
		return !found
	})
	return found
}
