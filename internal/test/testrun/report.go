package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// timed is a test and its duration in seconds.
type timed struct {
	name    string
	seconds float64
}

// slowest is the number of tests listed at the end of the report.
const slowest = 10

// redraw and reprint are the times between two status lines. A terminal redraws
// the line. Elsewhere each line is printed, so that a log shows what takes
// long.
const (
	redraw  = time.Second
	reprint = 30 * time.Second
)

// report shows the progress of a test run.
type report struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	start    time.Time

	said    map[[2]string][]string // by package and test
	failing map[string]bool        // packages with a failing test
	parents map[string]bool        // tests that have subtests
	times   []timed
	sum     totals

	mu      sync.Mutex // guards running, shown and writes to w
	running []string   // packages
	shown   time.Time  // when the last line was printed
}

func newReport(w io.Writer, terminal bool) *report {
	now := time.Now()
	return &report{
		w: w, terminal: terminal, now: time.Now, start: now, shown: now,
		said: map[[2]string][]string{}, failing: map[string]bool{}, parents: map[string]bool{},
	}
}

// read shows the events of a run until they end: a line for each package, and
// all output of failing tests and builds.
func (r *report) read(events io.Reader) error {
	done := make(chan struct{})
	var clock sync.WaitGroup
	clock.Go(func() { r.tick(done) })
	defer func() {
		close(done)
		clock.Wait()
	}()
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			r.print(string(line))
			continue
		}
		r.take(e)
	}
}

// take handles one event.
func (r *report) take(e event) {
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "start":
		r.setRunning(e.Package, true)
	case "run":
		if i := strings.LastIndex(e.Test, "/"); i >= 0 {
			r.parents[e.Package+"\x00"+e.Test[:i]] = true
		}
	case "output":
		r.said[key] = append(r.said[key], e.Output)
	case "build-output":
		r.print(e.Output)
	case "pass", "skip", "fail":
		r.count(e)
		if e.Test == "" && e.Action == "fail" {
			r.showUnfinished(e.Package)
		}
		r.show(e, r.said[key])
		delete(r.said, key)
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
	if e.Test != "" && !r.parents[e.Package+"\x00"+e.Test] {
		r.times = append(r.times, timed{short(e.Package) + " " + e.Test, e.Elapsed})
	}
}

// show prints the result of a package, and the output of a failed or skipped
// test.
func (r *report) show(e event, said []string) {
	if e.Action == "fail" || e.Action == "skip" && e.Test != "" {
		r.print(strings.Join(said, ""))
	}
	if e.Test != "" {
		return
	}
	r.setRunning(e.Package, false)
	if e.Action != "skip" {
		verdict := map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action]
		r.print(fmt.Sprintf("%s %-40s %6.1fs  [%s]\n", verdict, short(e.Package), e.Elapsed, r.elapsed()))
	}
}

// showUnfinished prints the output of tests that have no result, because their
// process crashed or ran out of time. The stacks of a crash are in the output of
// one of them.
func (r *report) showUnfinished(pkg string) {
	var names []string
	for key := range r.said {
		if key[0] == pkg && key[1] != "" {
			names = append(names, key[1])
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := [2]string{pkg, name}
		r.print(strings.Join(r.said[key], ""))
		delete(r.said, key)
	}
}

// finish prints the slowest tests and returns the totals.
func (r *report) finish() totals {
	slices.SortStableFunc(r.times, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	r.print(fmt.Sprintf("The slowest of %d tests, after %s in all:\n", len(r.times), r.elapsed()))
	for _, t := range r.times[:min(slowest, len(r.times))] {
		r.print(fmt.Sprintf("%7.1fs  %s\n", t.seconds, t.name))
	}
	return r.sum
}

// tick updates the status line until done is closed.
func (r *report) tick(done <-chan struct{}) {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			r.status()
		}
	}
}

// status shows the running packages and the time since the start.
func (r *report) status() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) == 0 || !r.terminal && r.now().Sub(r.shown) < reprint {
		return
	}
	line := fmt.Sprintf("     [%s] %s", r.elapsed(), strings.Join(r.running, ", "))
	if r.terminal {
		fmt.Fprintf(r.w, "\r\x1b[K%.100s", line)
		return
	}
	fmt.Fprintln(r.w, line)
	r.shown = r.now()
}

// print replaces the status line with text.
func (r *report) print(text string) {
	if text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal {
		fmt.Fprint(r.w, "\r\x1b[K")
	}
	fmt.Fprint(r.w, text)
	r.shown = r.now()
}

func (r *report) setRunning(pkg string, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if yes {
		r.running = append(r.running, short(pkg))
		return
	}
	r.running = slices.DeleteFunc(r.running, func(name string) bool { return name == short(pkg) })
}

// elapsed returns the time since the start as minutes and seconds.
func (r *report) elapsed() string {
	seconds := int(r.now().Sub(r.start).Seconds())
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// module is the path of the main module.
const module = "github.com/seed-72ea4aab/vault"

// short returns a package's path within this repository.
func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
