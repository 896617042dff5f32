package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			want: totals{passed: 2}, shows: "ok   p 0.2s\n", hides: "chatter",
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
		"text that is no event": {
			events: "go: something\n",
			want:   totals{}, shows: "go: something\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got, err := report(strings.NewReader(test.events), &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(totals{})); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			if !strings.Contains(out.String(), test.shows) {
				t.Errorf("output %q lacks %q", out.String(), test.shows)
			}
			if test.hides != "" && strings.Contains(out.String(), test.hides) {
				t.Errorf("output %q shows %q", out.String(), test.hides)
			}
		})
	}
}
