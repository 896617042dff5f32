// Command testrun runs the tests of this repository with one PostgreSQL server
// for all packages. It shows each package that ends, and at the end the slowest
// tests and one line of totals.
//
//	go run ./internal/test/testrun [-long] [go test flags] [packages]
//
// Without packages it tests the whole repository, including the modules beside
// the main one. A package runs with the race detector if it is concurrent: see
// [starts]. With -long it also runs the tests that need
// time or luck. Other flags go to go test, in the form -name=value.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

func main() {
	// The terminal sends an interrupt to the tests too. They end first, then
	// this process.
	signal.Ignore(os.Interrupt)
	sum, err := run(parseOptions(os.Args[1:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		sum.failed = max(1, sum.failed)
	}
	fmt.Println(sum)
	if sum.failed > 0 {
		os.Exit(1)
	}
}

// options are the command's arguments.
type options struct {
	long     bool
	flags    []string // passed to go test
	packages []string // empty for all
}

func parseOptions(args []string) (o options) {
	for _, arg := range args {
		switch {
		case arg == "-long":
			o.long = true
		case strings.HasPrefix(arg, "-"):
			o.flags = append(o.flags, arg)
		default:
			o.packages = append(o.packages, arg)
		}
	}
	return o
}

// run runs the groups of the plan, several at a time, so that the cores do not
// wait for the last package of a group.
func run(o options) (sum totals, err error) {
	all, err := plan(o)
	if err != nil {
		return sum, err
	}
	env, stop, err := server()
	if err != nil {
		return sum, fmt.Errorf("a PostgreSQL server is required: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	r := newReport(os.Stdout)
	next, done := make(chan group, len(all)), make(chan error)
	for _, g := range all {
		next <- g
	}
	close(next)
	for range atOnce {
		go func() {
			var failed []error
			for g := range next {
				failed = append(failed, r.run(g, o, env))
			}
			done <- errors.Join(failed...)
		}()
	}
	for range atOnce {
		err = errors.Join(err, <-done)
	}
	return r.finish(), err
}

// atOnce is the number of groups that run concurrently: concurrent packages and
// the rest.
const atOnce = 2

// server returns the environment for the tests, with the URL of a PostgreSQL
// server, and a function that stops the server.
func server() (env []string, stop func() error, err error) {
	// Compilers, linkers and tests allocate much and live for seconds. Collecting
	// half as often takes a tenth off their time. By default a process with the
	// race detector sleeps for a second before it ends, and tests start dozens.
	env = append([]string{"GOGC=200", "GORACE=atexit_sleep_ms=0"}, os.Environ()...)
	env = append(env, pgtest.EnvRequire+"=1")
	if os.Getenv(pgtest.EnvServer) != "" {
		return env, func() error { return nil }, nil
	}
	cluster, err := pgtest.Start()
	if err != nil {
		return nil, nil, err
	}
	return append(env, pgtest.EnvServer+"="+cluster.URL, pgtest.EnvFiles+"="+cluster.Files), cluster.Stop, nil
}

// run runs the tests of a group and adds their results to the report.
func (r *report) run(g group, o options, env []string) error {
	cmd := exec.Command("go", g.arguments(o)...) //nolint:noctx // runs until the tests end
	cmd.Dir, cmd.Env, cmd.Stderr = g.dir, env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, err := r.read(out)
	if err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil && !failed {
		return fmt.Errorf("go test in %s: %w", g.dir, err) // the build or go test itself failed, not a test
	}
	return nil
}

// arguments returns the arguments for "go" that test a group.
func (g group) arguments(o options) []string {
	args := []string{"test", "-json", "-vet=off", "-timeout=30m"}
	if o.long {
		args = []string{"test", "-json", "-vet=off", "-timeout=4h", "-tags=long"}
	}
	// Tests wait for servers and processes, and so does the linker, so twice as
	// many packages as there are cores keep the cores busy.
	args = append(args, "-p="+strconv.Itoa(max(2, runtime.GOMAXPROCS(0))))
	if g.race {
		// The race detector checks our code. SQLite is translated from C, and
		// the JavaScript engine is an interpreter. Both run on one goroutine at
		// a time, and checking them would take twenty and three times as long.
		args = append(args, "-race", "-gcflags=modernc.org/...=-race=false", "-gcflags=github.com/dop251/goja/...=-race=false")
	}
	return slices.Concat(args, o.flags, g.packages)
}
