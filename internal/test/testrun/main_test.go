package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestReport(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		events string
		want   totals
		shows  string
		hides  string
	}{
		"all pass": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":0.1}
{"Action":"pass","Package":"p","Elapsed":0.2}
`,
			want: totals{passed: 2}, shows: "ok   p ", hides: "chatter",
		},
		"a failing test": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"fail","Package":"p","Elapsed":0.2}
`,
			want: totals{failed: 1}, shows: "the reason\n",
		},
		"a package that cannot run": {
			events: `{"Action":"output","Package":"p","Output":"panic: early\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`,
			want: totals{failed: 1}, shows: "panic: early\n",
		},
		"a test that never ends": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p","Elapsed":600}
`,
			want: totals{failed: 1}, shows: "panic: test timed out\n",
		},
		"a skipped test": {
			events: `{"Action":"output","Package":"p","Test":"TestA","Output":"why\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
			want: totals{skipped: 1}, shows: "why\n",
		},
		"a package without tests": {
			events: `{"Action":"skip","Package":"p"}` + "\n",
			want:   totals{}, hides: "p",
		},
		"a build that fails": {
			events: `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`,
			want: totals{failed: 1}, shows: "syntax error\n",
		},
		"the slowest tests, without their parents": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":2}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}
{"Action":"pass","Package":"p"}
`,
			want: totals{passed: 2}, shows: "    2.0s  p TestA/sub\n", hides: "p TestA\n",
		},
		"text that is no event": {
			events: "go: something\n",
			want:   totals{}, shows: "go: something\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newReport(&out)
			must.Get(r.read(strings.NewReader(test.events)))(t)
			must.Same(t, "totals", test.want, r.finish(), cmp.AllowUnexported(totals{}))
			must.Contain(t, "output", out.String(), test.shows)
			if test.hides != "" && strings.Contains(out.String(), test.hides) {
				t.Errorf("output %q shows %q", out.String(), test.hides)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want options
	}{
		"nothing": {nil, options{}},
		"long":    {[]string{"-long"}, options{long: true}},
		"a part":  {[]string{"-run=TestX", "./storage/..."}, options{flags: []string{"-run=TestX"}, packages: []string{"./storage/..."}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			must.Same(t, "options", test.want, parseOptions(test.args), cmp.AllowUnexported(options{}))
		})
	}
}

func TestRaceDetectorWatchesConcurrentPackages(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code, test string
		short      bool
		long       bool
	}{
		"plain":                  {"package p\nfunc f() int { return 1 }", "package p", false, false},
		"a goroutine":            {"package p\nfunc f() {\n\tgo f()\n}", "package p", true, true},
		"a function":             {"package p\nfunc f() {\n\tgo func() {}()\n}", "package p", true, true},
		"a mutex":                {"package p\nimport \"sync\"\nvar mu sync.Mutex", "package p", true, true},
		"an atomic":              {"package p\nimport \"sync/atomic\"\nvar n atomic.Int64", "package p", true, true},
		"a value computed once":  {"package p\nimport \"sync\"\nvar f = sync.OnceValue(g)", "package p", false, true},
		"a goroutine in a test":  {"package p", "package p\nfunc f() {\n\tgo f()\n}", true, true},
		"a wait group in a test": {"package p", "package p\nimport \"sync\"\nfunc f() {\n\tvar all sync.WaitGroup\n\tall.Go(f)\n}", true, true},
		"a mutex in a test":      {"package p", "package p\nimport \"sync\"\nvar mu sync.Mutex", false, true},
		"an atomic in a test":    {"package p", "package p\nimport \"sync/atomic\"\nvar n atomic.Int64", false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(test.code), 0o600))
			must.Do(t, os.WriteFile(filepath.Join(dir, "p_test.go"), []byte(test.test), 0o600))
			for long, want := range map[bool]bool{false: test.short, true: test.long} {
				p := must.Get(look(dir, []string{"p.go", "_", "p_test.go"}, long))(t)
				must.Same(t, fmt.Sprint("with the race detector, long: ", long), want, p.race)
			}
		})
	}
}

// Tests that exclude the race detector run without it. Beside others, they would not run.
func TestTestsThatExcludeTheRaceDetector(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p.go": "// Package p has tests.\npackage p", "a_test.go": "//go:build unix && !race\n\npackage p\nfunc f() {\n\tgo f()\n}", "b_test.go": "package p",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.Same(t, "alone", false, must.Get(look(dir, []string{"p.go", "_", "a_test.go"}, true))(t).race)
	must.Fail(look(dir, []string{"p.go", "_", "a_test.go", "b_test.go"}, true))(t, "beside others", must.Text("move them to another package"))
}

// TestPlan plans this package, whose report starts a goroutine, two packages
// without goroutines, the second of which has more tests, and a package that
// excludes the race detector.
func TestPlan(t *testing.T) {
	t.Parallel()
	got, err := groupsOf("../../..", options{packages: []string{"./internal/test/testrun", "./internal/trace", "./internal/form", "./internal/test/tampering"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []group{
		{dir: "../../..", race: true, packages: []string{module + "/internal/test/testrun"}},
		{dir: "../../..", packages: []string{module + "/internal/test/tampering", module + "/internal/form", module + "/internal/trace"}},
	}
	must.Same(t, "plan", want, got, cmp.AllowUnexported(group{}))
	if _, err := groupsOf("../../..", options{packages: []string{"./nowhere"}}); err == nil {
		t.Error("a package that does not exist: no error")
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	g := group{race: true, packages: []string{"p"}}
	got := strings.Join(g.arguments(options{long: true, flags: []string{"-run=X"}}), " ")
	for _, want := range []string{"test -json", "-tags=long", "-race", "-gcflags=modernc.org/...=-race=false", "-gcflags=github.com/dop251/goja/...=-race=false", "-run=X p"} {
		must.Contain(t, "arguments", got, want)
	}
	if got := strings.Join(group{}.arguments(options{}), " "); strings.Contains(got, "-race") || strings.Contains(got, "long") {
		t.Errorf("arguments %q of a plain group in a short run", got)
	}
}
