package console_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

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
