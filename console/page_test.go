package console_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// alike are pages with the same elements as another page, but other content.
var alike = []string{"day", "found", "long", "hostile"}

// TestPagesInABrowser opens every page on every screen, as an owner. The short run
// leaves out two of the four screens, so that each width and each scheme stays. On
// the second screen it checks only what depends on the screen, and axe-core judges
// each kind of page once.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	w := newConsoleVaultOn(t, jsruntime.NewInProcess(nil), trailed)
	w.trail()
	source := browser.Axe(t)
	for name, s := range screens {
		if s.Dark != s.Phone && !long.Run {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTab(t, s)
			p.Navigate(w.server.URL + "/login/owner")
			all := w.pages()
			var rules []string
			if s.Dark != s.Phone || s.Dark && !long.Run { // the same pages with other content are looked at on other screens
				maps.DeleteFunc(all, func(page, _ string) bool { return slices.Contains(alike, page) })
			}
			if s.Dark && !long.Run {
				rules = []string{"color-contrast", "target-size", "scrollable-region-focusable"}
			}
			for _, page := range slices.Sorted(maps.Keys(all)) {
				p.Navigate(all[page])
				p.check(page, w)
				if slices.Contains(alike, page) && !long.Run {
					continue
				}
				for _, violation := range p.Violations(source, rules...) {
					t.Errorf("%s: axe: %s", page, violation)
				}
			}
		})
	}
	t.Cleanup(w.checkSecrets)
}

// onAPage collects the properties of a page that tests check.
const onAPage = `JSON.stringify({
	title: document.title,
	scripts: document.querySelectorAll('script').length,
	markup: document.querySelectorAll('main img, main script, main b:not(.legend b), main i').length,
	wide: document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre')).map((e) => e.tagName + '.' + e.className + ' ' + e.id).slice(0, 5).concat('the page'),
	elsewhere: performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !n.startsWith(%q)),
	unlabelled: [...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter((i) => !i.labels.length).map((i) => i.name),
})`

// check checks the rules that hold for every page.
func (p *tab) check(page string, w *consoleVault) {
	p.T.Helper()
	var got struct {
		Title                       string
		Scripts, Markup             int
		Wide, Elsewhere, Unlabelled []string
	}
	must.Do(p.T, json.Unmarshal([]byte(p.Value(fmt.Sprintf(onAPage, w.server.URL+"/vault/console/"))), &got))
	if !strings.HasSuffix(got.Title, " – vault console") || strings.Contains(got.Title, "owned") && !strings.Contains(got.Title, "<script>") {
		p.T.Errorf("%s: the title is %q", page, got.Title)
	}
	must.Same(p.T, page+": scripts", 1, got.Scripts)
	must.Same(p.T, page+": names or code that became markup", 0, got.Markup)
	must.Same(p.T, page+": wider than the screen", 0, len(got.Wide))
	must.Same(p.T, page+": requests to", 0, len(got.Elsewhere))
	must.Same(p.T, page+": fields without a label", 0, len(got.Unlabelled))
}

// TestConsoleWorksWithKeyboardOnly visits all pages from the first one without a
// mouse, and uses each: it makes a test run, explains a decision and ends a
// session.
func TestConsoleWorksWithKeyboardOnly(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	w.name("Acme")
	p := newTab(t, screens["desktop"])
	tenant := w.Acme.ID.String()
	p.Navigate(w.server.URL + "/login/owner")
	p.Press(kb.Tab)
	must.Same(t, "the first stop", "Skip to the content", p.Value(`document.activeElement.textContent`))
	p.tabTo(link("Tenants"))
	p.enter("/tenants")
	p.tabTo(link("Acme"))
	p.enter("/tenants/" + tenant)

	p.keyboardLists(w)
	p.keyboardCode(w)
	p.keyboardAccess(w)
	w.checkSecrets()
}

// link and button are conditions on the focused element.
func link(text string) string {
	return fmt.Sprintf(`e.tagName === 'A' && e.textContent.trim() === %q`, text)
}

func button(text string) string {
	return fmt.Sprintf(`e.tagName === 'BUTTON' && e.textContent.trim() === %q`, text)
}

// keyboardLists finds an application, a token and a log entry, then opens the
// System page and returns.
func (p *tab) keyboardLists(w *consoleVault) {
	p.T.Helper()
	p.tabTo(link("Applications"))
	p.enter("/applications")
	p.tabTo(fmt.Sprintf(`e.tagName === 'A' && e.href.endsWith(%q)`, w.app.ID))
	p.enter("/applications/" + w.app.ID.String())
	p.tabTo(`e.id === 'add-rule'`)
	rules := p.Value(ruleCount)
	p.Press(kb.Enter)
	p.Await(ruleCount + ` !== '` + rules + `'`)

	p.tabTo(link("Tokens"))
	p.enter("/tokens")
	p.tabTo(`e.id === 'q'`)
	p.Press("type:card" + kb.Enter)
	p.Await(`location.search.includes('card') && document.readyState === 'complete'`)
	p.tabTo(link("order-1"))
	p.enter("/tokens/order-1")

	p.tabTo(link("Log"))
	p.enter("/log")
	p.tabTo(`e.id === 'entity_id'`)
	p.Press("order-2")
	p.tabTo(button("Filter"))
	p.Press(kb.Enter)
	p.Await(`location.search.includes('order-2') && document.readyState === 'complete'`)
	if rows := p.Value(`document.querySelector('#entries tbody').innerText`); !strings.Contains(rows, "order-2") || strings.Contains(rows, "order-1") {
		p.T.Errorf("the filter leaves %q", rows)
	}

	p.tabTo(link("System"))
	p.enter("/system")
	p.tabTo(link("Tenants"))
	p.enter("/tenants")
	p.tabTo(link("Acme"))
	p.enter("/tenants/" + w.Acme.ID.String())
}

// ruleCount returns the number of rules in the editor.
const ruleCount = `String(document.querySelectorAll('[name$=".priority"]').length)`

// keyboardCode makes test runs of a reactor and of a proxy.
func (p *tab) keyboardCode(w *consoleVault) {
	p.T.Helper()
	p.tabTo(link("Reactors and proxies"))
	p.enter("/code")
	p.tabTo(link("Gateway"))
	p.enter("/proxies/" + w.proxy.ID.String())
	p.tabTo(`e.id === 'args-request'`)
	p.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`), chromedp.KeyEvent(`{"body": 71}`))
	p.tabTo(button("Test run"))
	p.enter("/try")
	must.Contain(p.T, "the test run of the proxy", p.Value(`document.querySelector('.trial').innerText`), `"body": 71`)
	p.tabTo(link("Reactors and proxies"))
	p.enter("/code")
	p.tabTo(`e.tagName === 'A' && e.textContent.startsWith('Charge')`)
	p.enter("/reactors/" + w.reactor.ID.String())
	p.tabTo(`e.id === 'args-'`)
	p.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`), chromedp.KeyEvent(`{"amount": 42}`))
	p.tabTo(button("Test run"))
	p.enter("/try")
	if got := p.Value(`document.querySelector('.trial').innerText`); !strings.Contains(got, `"paid": 42`) || !strings.Contains(got, `"key": "<api_key>"`) || !strings.Contains(got, `"bt": null`) {
		p.T.Errorf("the test run says %q", got)
	}
	p.tabTo(`e.id === 'args-'`)
	p.Do(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`), chromedp.KeyEvent(`{"fail": true}`))
	p.tabTo(button("Test run"))
	p.Press(kb.Enter)
	p.Await(`document.querySelector('.trial .tag.bad') !== null`)
	must.Contain(p.T, "the line that is marked", p.Value(`document.querySelector('.code li.bad').innerText`), "throw new Error")
}

// keyboardAccess explains a decision, and ends a session.
func (p *tab) keyboardAccess(w *consoleVault) {
	p.T.Helper()
	p.tabTo(link("Explain"))
	p.enter("/explain")
	p.tabTo(`e.id === 'holder'`)
	p.Press(kb.ArrowDown)
	p.tabTo(`e.id === 'token'`)
	p.Press("order-1")
	p.tabTo(button("Explain"))
	p.Press(kb.Enter)
	p.Await(`document.getElementById('answer') !== null`)
	must.Contain(p.T, "the explanation", p.Value(`document.getElementById('answer').innerText`), "token:create")

	p.tabTo(link("Sessions"))
	p.enter("/sessions")
	p.tabTo(button("End"))
	p.Press(kb.Enter)
	p.Await(`document.querySelector('[role=status]')?.textContent === 'The session has ended.'`)
	sessions := must.Get(w.Owner.ListSessions(p.T.Context(), vault.PageParams{}))(p.T)
	must.Same(p.T, "sessions are left", 0, len(sessions.Data))
}

// TestRulesInABrowser adds a rule with the button.
func TestRulesInABrowser(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	p := newTab(t, screens["phone"])
	p.Navigate(w.server.URL + "/login/owner")
	p.Navigate(w.inTenant("applications/" + w.app.ID.String()))
	for range 2 {
		p.Do(chromedp.Click("#add-rule"))
	}
	p.Do(chromedp.SendKeys("#rule-3-priority", "9"), chromedp.SendKeys("#rule-3-container", "/new/"),
		chromedp.Click(`[name="rule.3.permissions"][value="token:delete"]`))
	p.Run(`[...document.querySelectorAll('button')].find((b) => b.textContent === 'Save').click()`)
	p.Await(`location.search === '?done=saved' && document.readyState === 'complete'`)
	app := must.Get(w.Owner.GetApplication(t.Context(), w.app.ID))(t)
	if len(app.Rules) != 3 || app.Rules[2].Priority != 9 || app.Rules[2].Container != "/new/" || !slices.Equal(app.Rules[2].Permissions, []vault.Permission{"token:delete"}) {
		t.Errorf("rules: %+v", app.Rules)
	}
}

// TestOpenPagesUpdate checks that open pages update.
func TestOpenPagesUpdate(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	ctx := t.Context()
	overview, log := newTab(t, screens["desktop"]), newTab(t, screens["desktop"])
	overview.Navigate(w.server.URL + "/login/viewer")
	total := func(n int) string {
		return fmt.Sprintf(`document.querySelector('#live .sum')?.textContent === '%d'`, n)
	}
	overview.Await(total(4))
	log.Navigate(w.server.URL + "/login/viewer")
	log.Navigate(w.inTenant("log?operation=delete"))
	rows := log.Value(`String(document.querySelectorAll('#entries tbody tr').length)`)
	log.Do(chromedp.Click("#follow"))
	log.Await(`document.getElementById('follow').getAttribute('aria-pressed') === 'true'`)
	must.Get(w.Owner.CreateToken(ctx, vault.TokenParams{ID: "new-one", Type: vault.TypeGeneric, Data: "x"}))(t)
	overview.Await(total(5))
	quiet := true
	for i := 0; quiet; i++ { // entries from before the follower began do not count
		id := fmt.Sprintf("gone-%d", i)
		must.Get(w.Owner.CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}))(t)
		must.Do(t, w.Owner.DeleteToken(ctx, id))
		quiet = log.Value(`document.getElementById('following').textContent`) == "Following: no new entries yet."
	}
	log.Await(fmt.Sprintf(`document.querySelectorAll('#entries tbody tr').length > %s`, rows))
	if first := log.Value(`document.querySelector('#entries tbody tr').innerText`); !strings.Contains(first, "gone-") || !strings.Contains(first, "delete") {
		t.Errorf("the first row is %q", first)
	}
}

// TestQueryHelpWhileTyping types a query.
func TestQueryHelpWhileTyping(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	p := newTab(t, screens["phone"])
	p.Navigate(w.server.URL + "/login/viewer")
	p.Navigate(w.inTenant("tokens"))
	p.Do(chromedp.SendKeys("#q", "type:card cont"))
	p.Await(`document.getElementById('hint').innerText.includes('container:/pci/*')`)
	p.Do(chromedp.SendKeys("#q", "ainer:/pci/*"+kb.Enter))
	p.Await(`location.search.includes('q=') && document.readyState === 'complete'`)
	if got := p.Value(`document.querySelector('tbody').innerText`); !strings.Contains(got, "order-1") || !strings.Contains(got, "XXXXXXXXXXXX5556") {
		t.Errorf("found %q", got)
	}
}

// TestWithoutJavaScript reads the pages as a browser without JavaScript would.
func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("viewer")
	for name, address := range w.pages() {
		status, body := v.get(address)
		want := http.StatusOK
		if name == "missing" {
			want = http.StatusNotFound
		}
		if status != want || !strings.Contains(body, "<h1>") || strings.Contains(body, hostile) || strings.Contains(body, "<b>bold") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if strings.Contains(body, `method="post"`) && strings.Contains(body, "<button>Save") {
			t.Errorf("%s: a viewer sees a button without effect", name)
		}
	}
	for query, want := range map[string]string{
		"data:" + secretCard: "The console takes no values", "type:card AND (data:x)": "The console takes no values",
		`type:"card"data:"` + secretCard + `"`: "The console takes no values", "data:" + secretCard + " AND": "character", `id:"data:1"`: "No tokens",
		"type:": "character", "metadata.data:x": "No tokens", "type:card": "order-1",
	} {
		_, body := v.get(w.inTenant("tokens?q=" + url.QueryEscape(query)))
		must.Contain(t, "search for "+query+": body", body, want)
		must.Lack(t, "search for "+query+": body", body, secretCard)
	}
}
