// Command testrun runs "go test" with the arguments it is given, beside a
// PostgreSQL server that all packages share, and ends with one line of totals.
//
//	go run ./internal/pgtest/testrun -race ./...
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
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

// run reports whether every test passed.
func run(args []string) (ok bool, err error) {
	// An interrupt reaches the tests by the terminal; they end, and then we do.
	signal.Ignore(os.Interrupt)

	env := append(os.Environ(), pgtest.EnvRequire+"=1")
	if os.Getenv(pgtest.EnvServer) == "" {
		cluster, err := pgtest.Start()
		if err != nil {
			fmt.Println("0 passed, 1 failed, 0 skipped")
			return false, fmt.Errorf("a PostgreSQL server is required: %w", err)
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		env = append(env, pgtest.EnvServer+"="+cluster.URL)
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:noctx // runs until the tests end
	cmd.Env = env
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	sum, err := report(out, os.Stdout)
	failed := cmd.Wait()
	if failed != nil && sum.failed == 0 {
		sum.failed = 1 // not a test: the build, or go test itself
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	return failed == nil && err == nil, err
}

// totals counts tests, subtests among them, and packages that failed without
// a failing test.
type totals struct{ passed, failed, skipped int }

// event is a line of "go test -json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// report reads the events of a run and prints a line for each package, and
// everything that a failing test or build said.
func report(events io.Reader, w io.Writer) (totals, error) {
	var sum totals
	said := map[[2]string][]string{} // by package and test
	failing := map[string]bool{}     // packages with a failing test
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprint(w, string(line))
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output":
			said[key] = append(said[key], e.Output)
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "pass", "skip", "fail":
			sum.count(e, failing)
			show(w, e, said[key])
			delete(said, key)
		}
	}
}

// count adds the end of a test to the totals. A package counts only when it
// failed and none of its tests did.
func (sum *totals) count(e event, failing map[string]bool) {
	switch {
	case e.Action == "fail" && (e.Test != "" || !failing[e.Package]):
		sum.failed++
		failing[e.Package] = true
	case e.Action == "pass" && e.Test != "":
		sum.passed++
	case e.Action == "skip" && e.Test != "":
		sum.skipped++
	}
}

func show(w io.Writer, e event, said []string) {
	if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
		for _, text := range said {
			fmt.Fprint(w, text)
		}
	}
	if e.Test == "" && e.Action != "skip" {
		fmt.Fprintf(w, "%s %s %.1fs\n", map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
	}
}
