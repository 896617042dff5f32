package jsruntime_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// snippet is a line of a corpus: the body of an async function and the JSON
// that Node 16 returns for it.
type snippet struct {
	Name  string `json:"name"`
	Short bool   `json:"short"` // part of the short run, if there are too many
	Body  string `json:"body"`
	Want  string `json:"want"`
}

func readCorpus(t *testing.T, name string) []snippet {
	t.Helper()
	f := must.Get(os.Open("testdata/" + name))(t)
	defer f.Close()
	var out []snippet
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s snippet
		must.Do(t, json.Unmarshal(lines.Bytes(), &s))
		out = append(out, s)
	}
	return out
}

// asFunction returns code that exports a function with this body.
func asFunction(body string) string {
	return "module.exports = async function (req) {" + body + "\n};"
}

// runBody runs the body of a function in a runtime.
func runBody(r script.Runtime, tenant, body string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, err := r.Run(ctx, script.Program{Tenant: tenant, Name: "test", Source: asFunction(body)}, nil, &fakeHost{})
	return string(out), err
}

// knownMisses are the snippets on which goja differs from Node 16.
var knownMisses = map[string]string{
	"misc 22": "goja words the errors of its own that code catches in another way",
}

// TestCorpora runs the corpora. Those of checks.jsonl are about limits, and about what
// this runtime rejects but Node does not.
func TestCorpora(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{TenantWorkers: 2})
	testCorpora(t, r, &fakeHost{}, "language.jsonl", "nodeapi.jsonl", "modules.jsonl", "suites.jsonl", "inert.jsonl", "standard.jsonl", "checks.jsonl")
}

// testCorpora runs snippets, all with the same host.
func testCorpora(t *testing.T, r script.Runtime, host script.Host, files ...string) {
	t.Helper()
	for _, file := range files {
		for _, s := range readCorpus(t, file) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				got, err := run(r, asFunction(s.Body), "", host)
				_, known := knownMisses[s.Name]
				if passed := err == nil && got == s.Want; passed == known {
					t.Errorf("got %s, %s, want %s, known to miss: %v", got, explain(err), s.Want, known)
				}
			})
		}
	}
}

// TestIntlOverflow formats a number that is too large in percent. Node prints all of
// its digits.
func TestIntlOverflow(t *testing.T) {
	t.Parallel()
	got, err := runBody(jsruntime.NewInProcess(nil), "t", "return new Intl.NumberFormat('en-US', {style: 'percent'}).format(-1.7e308)", patience)
	if want := `"-∞%"`; err != nil || got != want {
		t.Errorf("got %s, %s, want %s", got, explain(err), want)
	}
}

// TestCorporaInProcess runs the corpora of modules without workers. The native
// functions are the same, and the coverage of this process includes them.
func TestCorporaInProcess(t *testing.T) {
	t.Parallel()
	testCorpora(t, jsruntime.NewInProcess(nil), &fakeHost{}, "nodeapi.jsonl", "modules.jsonl")
}

// nodeDiffers are snippets of our own corpus whose result has changed between
// Node 16 and later versions.
var nodeDiffers = map[string]bool{"assert 2": true}

// TestCorpusAgainstNode checks that our own corpora agree with Node.
func TestCorpusAgainstNode(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"modules.jsonl", "inert.jsonl", "standard.jsonl"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			compareWithNode(t, file)
		})
	}
}

func compareWithNode(t *testing.T, file string) {
	t.Helper()
	cmd := exec.Command(nodePath(t), "testdata/node/corpus.js", "testdata/"+file)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	out := must.Get(cmd.Output())(t)
	got := map[string]string{}
	must.Do(t, json.Unmarshal(out, &got))
	for _, s := range readCorpus(t, file) {
		if got[s.Name] != s.Want && !nodeDiffers[s.Name] {
			t.Errorf("%s: Node returns %s, the corpus says %s", s.Name, got[s.Name], s.Want)
		}
	}
}
