package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	if len(o.packages) == 0 {
		o.packages = []string{"./..."}
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
		groups, err := groupsOf(dir, o)
		if err != nil {
			return nil, err
		}
		all = append(all, groups...)
	}
	return all, nil
}

// groupsOf returns the packages of a module in two groups: concurrent packages
// and the rest. Packages with many tests come first, so that no core waits for
// the last one.
func groupsOf(dir string, o options) ([]group, error) {
	packages, err := list(dir, o)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(packages, func(a, b listed) int { return cmp.Compare(b.size, a.size) })
	groups := []group{{dir: dir, race: true}, {dir: dir}}
	for _, p := range packages {
		i := slices.IndexFunc(groups, func(g group) bool { return g.race == p.race })
		groups[i].packages = append(groups[i].packages, p.path)
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.packages) == 0 }), nil
}

// listed is a package with tests.
type listed struct {
	path string
	race bool
	size int // of the tests, in bytes
}

// list returns the packages of a module that match the options and have tests.
func list(dir string, o options) ([]listed, error) {
	const files = `{{.ImportPath}}|{{.Dir}}|{{join .GoFiles "|"}}|_|{{join .TestGoFiles "|"}}|{{join .XTestGoFiles "|"}}`
	args := []string{"list", "-f", files}
	if o.long {
		args = append(args, "-tags=long")
	}
	cmd := exec.Command("go", append(args, o.packages...)...) //nolint:noctx // ends on its own
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("go list: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, err
	}
	var all []listed
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		p, err := look(fields[1], fields[2:], o.long)
		if err != nil {
			return nil, err
		}
		if p.path = fields[0]; p.size > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// look reads the files of a package. The name "_" separates them from its
// tests. A package whose tests exclude the race detector does not run with it.
func look(dir string, names []string, long bool) (p listed, err error) {
	tests, with, without := false, 0, 0
	for _, name := range names {
		if tests = tests || name == "_"; name == "_" || name == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return p, err
		}
		p.race = p.race || starts.Match(text) || (!tests || long) && shares.Match(text) || long && imports.Match(text)
		switch {
		case !tests:
		case excludes.Match(text):
			without++
		default:
			with++
		}
		if tests {
			p.size += len(text)
		}
	}
	if p.race && with > 0 && without > 0 {
		return p, fmt.Errorf("%s: some files of its tests exclude the race detector, so they would not run; move them to another package", dir)
	}
	p.race = p.race && without == 0
	return p, nil
}

// A package runs with the race detector if one of its files starts goroutines, or its
// code shares memory between them. In tests, a mutex alone guards what a server in the
// test has received, so such a package, and one that only imports sync for
// sync.Once, runs with the race detector in the long run.
var (
	starts  = regexp.MustCompile(`(?m)^\s*go (func\b|[\w.]+\()|\.Go\(`)
	shares  = regexp.MustCompile(`\bsync\.(Cond|Map|Mutex|Pool|RWMutex|WaitGroup)\b|"sync/atomic"`)
	imports = regexp.MustCompile(`"sync"`)
)

// excludes finds the build constraint of files that exclude the race detector.
var excludes = regexp.MustCompile(`\A//go:build .*!race\b`)
