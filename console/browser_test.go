package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMain(m *testing.M) {
	keyring.Horizon = 0 // no other node has the keys that a rotation destroys
	os.Exit(browser.Main(m))
}

var screens = map[string]browser.Screen{
	"desktop": {Width: 1280, Height: 900}, "dark desktop": {Width: 1280, Height: 900, Dark: true},
	"phone": {Width: 360, Height: 780, Phone: true}, "dark phone": {Width: 360, Height: 780, Phone: true, Dark: true},
}

// tab is a page of the console in a browser.
type tab struct{ *browser.Tab }

// newTab opens a tab with a new profile.
func newTab(t *testing.T, s browser.Screen) *tab {
	t.Helper()
	return &tab{browser.Open(t, s)}
}

// tabTo presses Tab until the focused element, called e, meets a condition.
func (p *tab) tabTo(condition string) {
	p.T.Helper()
	reached := fmt.Sprintf(reachedByTab, condition)
	p.Press(strings.Repeat(kb.Tab, p.tabsTo(condition)))
	for range 120 {
		switch got := p.Value(reached); got {
		case "solid":
			return
		case "":
			p.Press(kb.Tab)
		default:
			p.T.Errorf("the outline of what has the focus (%s) is %s", condition, got)
			return
		}
	}
	p.T.Fatalf("not reached by Tab: %s; on %s", condition, p.Value(`location.href`))
}

// reachedByTab returns the outline style of the focused element, or nothing if the
// element does not meet a condition.
const reachedByTab = `((e) => %s)(document.activeElement) ? getComputedStyle(document.activeElement).outlineStyle : ''`

// tabsTo estimates how often Tab must be pressed to reach an element, so that the
// presses can be sent in one call.
func (p *tab) tabsTo(condition string) int {
	p.T.Helper()
	n := must.Get(strconv.Atoi(p.Value(fmt.Sprintf(`(() => {
		const stops = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility() && e.type !== 'hidden')
		const from = stops.indexOf(document.activeElement)
		const to = stops.findIndex((e, i) => i > from && (%s))
		return String(to < 0 ? 1 : Math.max(1, to - from))
	})()`, condition))))(p.T)
	return n
}

// enter presses Enter on the focused element, and waits for the next page.
func (p *tab) enter(path string) {
	p.T.Helper()
	p.Press(kb.Enter)
	p.Await(fmt.Sprintf(`document.readyState === 'complete' && location.pathname.endsWith(%q)`, path))
}

// axe is the source of axe-core, which npm installs.
var axe struct {
	once sync.Once
	text string
	err  error
}

// axeSource installs axe-core once for all tests.
func axeSource(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm here to install axe-core with")
	}
	axe.once.Do(func() {
		dir, err := os.MkdirTemp("", "vault-axe-")
		if err != nil {
			axe.err = err
			return
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile("testdata/" + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
			if err != nil {
				axe.err = err
				return
			}
		}
		cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			axe.err = fmt.Errorf("is the registry of npm within reach? %w\n%s", err, out)
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
		axe.text, axe.err = string(text), err
	})
	if axe.err != nil {
		t.Fatal(axe.err)
	}
	return axe.text
}

// violations checks the page with all rules of axe-core, or with some of them.
func (p *tab) violations(source string, rules ...string) []string {
	p.T.Helper()
	only := must.Get(json.Marshal(map[string]any{"resultTypes": []string{"violations"}, "runOnly": map[string]any{"type": "rule", "values": rules}}))(p.T)
	if len(rules) == 0 {
		only = []byte(`{"resultTypes": ["violations"]}`)
	}
	p.Run(source + "; undefined")
	text := p.Value(fmt.Sprintf(`axe.run(document, %s).then((r) => JSON.stringify(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join(' | '))))`, only))
	var all []string
	must.Do(p.T, json.Unmarshal([]byte(text), &all))
	return all
}
