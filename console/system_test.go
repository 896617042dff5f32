package console_test

import (
	"html"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/jsruntime"
)

// factPattern matches a line of the System page.
var factPattern = regexp.MustCompile(`<div><dt>([^<]*)</dt><dd>([^<]*)</dd></div>`)

// facts reads the System page: headings with their lines.
func (v *visitor) facts() map[string]map[string]string {
	v.t.Helper()
	status, body := v.get(v.w.console("system"))
	if status != http.StatusOK {
		v.t.Fatalf("%d %s", status, body)
	}
	all := map[string]map[string]string{}
	for _, section := range strings.Split(body, `<section class="panel"><h2>`)[1:] {
		title, rest, _ := strings.Cut(section, "</h2>")
		all[title] = map[string]string{}
		for _, f := range factPattern.FindAllStringSubmatch(rest, -1) {
			all[title][f[1]] = html.UnescapeString(f[2])
		}
	}
	return all
}

// TestSystemPage reads what the page says of the program, its settings, the
// database, the policy for requests, and the workers.
func TestSystemPage(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, jsruntime.New(nil))
	all := w.as("viewer").facts()
	for title, facts := range map[string]map[string]string{
		"Program":         {"Version": `\S+`, "Go": regexp.QuoteMeta(runtime.Version()) + " on " + runtime.GOOS + "/.+", "Running for": `.*\ds`},
		"Settings":        {"JSON of one call": `5\.0 MiB`, "Sweep of what has expired": `not by itself`, "Tokens of one call": `[\d,]+`, "Log entries of reads are synced": `no`},
		"Egress policy":   {"Plain http": "yes", "Private addresses": "yes", "Refused": "none", "Ports": "all", "Requests of a tenant at a time": "100"},
		"Database":        {"Migrations that have run": `\d+( \d+)*`, "Connections, readers": `\d+ in use, \d+ idle, of .+ waits`},
		"Code of tenants": {"Runtime": "yes", "Workers": `0 busy of [1-9]\d*; [1-9]\d* idle, \d+ spare, [1-9]\d* started so far`, "Waiting for a worker": "0", "Running now": "0", "Runs of the last hour": `\d+, \d+ of them failed`},
		"Process":         {"Goroutines": `[\d,]+`, "Live objects": `.+B`, "Processors": `\d+`},
	} {
		for name, want := range facts {
			if got, ok := all[title][name]; !ok || !regexp.MustCompile("^"+want+"$").MatchString(got) {
				t.Errorf("%s, %s: %q, want %s; the section has\n%s", title, name, got, want, cmp.Diff(map[string]string{}, all[title]))
			}
		}
	}
}
