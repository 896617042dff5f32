// Command testrun runs the tests of this repository with one PostgreSQL server
// for all packages. It shows what is running, and at the end the slowest tests
// and one line of totals.
//
//	go run ./internal/test/testrun [-long] [-events FILE] [go test flags] [packages]
//
// Without packages it tests the whole repository, including the modules beside
// the main one. A package runs with the race detector if its own files are
// concurrent: see [concurrent]. With -long it also runs the tests that need
// time or luck. -events writes the output of "go test -json" to a file.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// options are the command's arguments.
type options struct {
	long     bool
	events   string   // a file; empty for none
	flags    []string // passed to go test
	packages []string // empty for all
}

// parseOptions splits the arguments. Flags that testrun does not know go to go
// test. They must have the form -name=value.
func parseOptions(args []string) (options, error) {
	var o options
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case arg == "-long":
			o.long = true
		case name == "-events" && value != "":
			o.events = value
		case name == "-events":
			return o, errors.New("-events needs a file: -events=FILE")
		case strings.HasPrefix(arg, "-"):
			o.flags = append(o.flags, arg)
		default:
			o.packages = append(o.packages, arg)
		}
	}
	return o, nil
}

// run reports whether every test passed.
func run(args []string) (ok bool, err error) {
	// The terminal sends an interrupt to the tests too. They end first, then
	// this process.
	signal.Ignore(os.Interrupt)
	sum := totals{failed: 1}
	defer func() { fmt.Println(sum) }()

	o, err := parseOptions(args)
	if err != nil {
		return false, err
	}
	all, err := plan(o)
	if err != nil {
		return false, err
	}
	env, stop, err := server()
	if err != nil {
		return false, fmt.Errorf("a PostgreSQL server is required: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	events := io.Discard
	if o.events != "" {
		file, err := os.Create(o.events)
		if err != nil {
			return false, err
		}
		defer func() { _ = file.Close() }()
		events = file
	}
	r := newReport(os.Stdout, isTerminal(os.Stdout))
	for _, g := range all {
		if err := r.run(g, o, env, events); err != nil {
			return false, err
		}
	}
	sum = r.finish()
	return sum.failed == 0, nil
}

// server returns the environment for the tests, with the URL of a PostgreSQL
// server, and a function that stops the server.
func server() (env []string, stop func() error, err error) {
	env = append(os.Environ(), pgtest.EnvRequire+"=1")
	if os.Getenv(pgtest.EnvServer) != "" {
		return env, func() error { return nil }, nil
	}
	cluster, err := pgtest.Start()
	if err != nil {
		return nil, nil, err
	}
	return append(env, pgtest.EnvServer+"="+cluster.URL), cluster.Stop, nil
}

// run runs the tests of a group and adds their results to the report.
func (r *report) run(g group, o options, env []string, events io.Writer) error {
	cmd := exec.Command("go", g.arguments(o)...) //nolint:noctx // runs until the tests end
	cmd.Dir, cmd.Env, cmd.Stderr = g.dir, env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := r.sum.failed
	if err := r.read(io.TeeReader(out, events)); err != nil {
		return err
	}
	if cmd.Wait() != nil && r.sum.failed == before {
		r.sum.failed++ // the build or go test itself failed, not a test
	}
	return nil
}

// arguments returns the arguments for "go" that test a group.
func (g group) arguments(o options) []string {
	timeout := 30 * time.Minute
	args := []string{"test", "-json", "-vet=off"}
	if o.long {
		timeout = 4 * time.Hour
		args = append(args, "-tags=long")
	}
	// Tests wait for servers and processes, and so does the linker, so one
	// package more than there are cores keeps the cores busy.
	args = append(args, "-timeout="+timeout.String(), "-p="+strconv.Itoa(max(2, runtime.GOMAXPROCS(0)+1)))
	if g.race {
		// The race detector checks our code. SQLite is translated from C, and
		// the JavaScript engine is an interpreter. Both run on one goroutine at
		// a time, and checking them would take twenty and three times as long.
		args = append(args, "-race", "-gcflags=modernc.org/...=-race=false", "-gcflags=github.com/dop251/goja/...=-race=false")
	}
	return slices.Concat(args, o.flags, g.packages)
}
