package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// totals counts tests, including subtests, and packages that failed although
// none of their tests did.
type totals struct{ passed, failed, skipped int }

func (sum totals) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", sum.passed, sum.failed, sum.skipped)
}

// event is a line of "go test -json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// timed is a test and its duration in seconds.
type timed struct {
	name    string
	seconds float64
}

// slowest is the number of tests listed at the end of the report.
const slowest = 10

// report shows the progress of a test run.
type report struct {
	start time.Time

	mu      sync.Mutex // guards the rest
	w       io.Writer
	said    map[[2]string][]string // by package and test
	failing map[string]bool        // packages with a failing test
	parents map[string]bool        // tests that have subtests
	times   []timed
	sum     totals
}

func newReport(w io.Writer) *report {
	return &report{w: w, start: time.Now(), said: map[[2]string][]string{}, failing: map[string]bool{}, parents: map[string]bool{}}
}

// read shows the events of a run until they end: a line for each package, and
// all output of failing tests and builds. It reports whether a test failed.
func (r *report) read(events io.Reader) (failed bool, err error) {
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return failed, nil
		}
		if err != nil {
			return failed, err
		}
		e := event{Action: "build-output", Output: string(line)} // unless it is an event
		_ = json.Unmarshal(line, &e)
		r.take(e)
		failed = failed || e.Action == "fail"
	}
}

// take handles one event.
func (r *report) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "run":
		if i := strings.LastIndex(e.Test, "/"); i >= 0 {
			r.parents[e.Package+" "+e.Test[:i]] = true
		}
	case "output":
		r.said[key] = append(r.said[key], e.Output)
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "pass", "skip", "fail":
		r.count(e)
		r.show(e)
	}
}

// count adds the result of a test to the totals. A failed package counts only
// if none of its tests failed.
func (r *report) count(e event) {
	switch {
	case e.Action == "fail" && (e.Test != "" || !r.failing[e.Package]):
		r.sum.failed++
		r.failing[e.Package] = true
	case e.Action == "pass" && e.Test != "":
		r.sum.passed++
	case e.Action == "skip" && e.Test != "":
		r.sum.skipped++
	}
	if name := e.Package + " " + e.Test; e.Test != "" && !r.parents[name] {
		r.times = append(r.times, timed{short(name), e.Elapsed})
	}
}

// show prints the result of a package, and the output of a failed or skipped
// test. If a package failed, it also prints the output of tests that have no
// result, because their process crashed or ran out of time.
func (r *report) show(e event) {
	var names []string
	for key := range r.said {
		if key[0] == e.Package && (key[1] == e.Test || e.Test == "") {
			names = append(names, key[1])
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := [2]string{e.Package, name}
		if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
			fmt.Fprint(r.w, strings.Join(r.said[key], ""))
		}
		delete(r.said, key)
	}
	if e.Test == "" && e.Action != "skip" {
		verdict := map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action]
		fmt.Fprintf(r.w, "%s %-40s %6.1fs  [%s]\n", verdict, short(e.Package), e.Elapsed, r.elapsed())
	}
}

// finish prints the slowest tests and returns the totals.
func (r *report) finish() totals {
	slices.SortStableFunc(r.times, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.w, "The slowest of %d tests, after %s in all:\n", len(r.times), r.elapsed())
	for _, t := range r.times[:min(slowest, len(r.times))] {
		fmt.Fprintf(r.w, "%7.1fs  %s\n", t.seconds, t.name)
	}
	return r.sum
}

// elapsed returns the time since the start, in seconds.
func (r *report) elapsed() time.Duration { return time.Since(r.start).Truncate(time.Second) }

// module is the path of the main module.
const module = "github.com/seed-72ea4aab/vault"

// short returns a package's path within this repository.
func short(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }
