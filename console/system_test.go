package console_test

import (
	"html"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// factPattern matches a line of the System page.
var factPattern = regexp.MustCompile(`<div><dt>([^<]*)</dt><dd>([^<]*)</dd></div>`)

// facts reads the System page: headings with their lines.
func (v *visitor) facts() map[string]map[string]string {
	v.t.Helper()
	status, body := v.get(v.w.console("system"))
	must.Same(v.t, body, http.StatusOK, status)
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

// TestSystemPage checks the lines about the program, its settings, the database,
// the policy for requests, and the workers.
func TestSystemPage(t *testing.T) {
	t.Parallel()
	w := newConsoleVaultOn(t, jsruntime.New(nil))
	all := w.as("viewer").facts()
	for title, facts := range map[string]map[string]string{
		"Program":                {"Version": `\S+`, "Go": regexp.QuoteMeta(runtime.Version()) + " on " + runtime.GOOS + "/.+", "Running for": `.*\ds`},
		"Settings":               {"Maximum request body": `5\.0 MiB`, "Deletes expired data": `not automatically`, "Maximum tokens per request": `[\d,]+`, "Strict read logs": `no`},
		"Egress policy":          {"Plain HTTP allowed": "yes", "Private addresses allowed": "yes", "Blocked networks": "none", "Ports": "all", "Concurrent requests per tenant": "100"},
		"Database":               {"Migrations": `\d+( \d+)*`, "Connections, readers": `\d+ in use, \d+ idle, maximum .+ waits`},
		"Reactor and proxy code": {"JavaScript runtime": "yes", "Workers": `0 of [1-9]\d* busy, [1-9]\d* idle, \d+ spare, [1-9]\d* started so far`, "Waiting for a worker": "0", "Running now": "0", "Runs in the last hour": `\d+, \d+ failed`},
		"Process":                {"Goroutines": `[\d,]+`, "Heap": `.+B`, "CPUs": `\d+`},
	} {
		for name, want := range facts {
			if got, ok := all[title][name]; !ok || !regexp.MustCompile("^"+want+"$").MatchString(got) {
				t.Errorf("%s, %s: %q, want %s; the section has\n%s", title, name, got, want, cmp.Diff(map[string]string{}, all[title]))
			}
		}
	}
}
