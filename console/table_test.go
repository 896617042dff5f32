package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// laptop is a common small screen.
var laptop = browser.Screen{Width: 1280, Height: 800}

// rowsOnScreen counts the rows of the first table that are fully on the screen. It
// collects their heights, and the ids without a title or copy button.
const rowsOnScreen = `(() => {
	const rows = [...document.querySelectorAll('table.rows')[0].tBodies[0].rows];
	return JSON.stringify({
		whole: rows.filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length,
		heights: [...new Set(rows.map((r) => Math.round(r.getBoundingClientRect().height)))],
		wide: document.querySelector('table.rows').scrollWidth - document.querySelector('table.rows').parentElement.clientWidth,
		bare: [...document.querySelectorAll('table.rows .id')].filter((e) => !e.closest('[title]') || !e.closest('.ref').querySelector('.copy').dataset.copy.startsWith(e.textContent.split('…')[0])).map((e) => e.textContent),
	});
})()`

// TestTablesAreDense fills the tables of tokens, log entries and sessions. A
// screen of 1280 by 800 must show all columns and at least 16 rows of one line.
func TestTablesAreDense(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	for i := range 20 {
		p := vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242", ExpirationMonth: 1, ExpirationYear: 2033}, Containers: []string{"/pci/high/", "/tests/"}}
		if i%2 == 0 {
			p = vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]any{"x": i}, Metadata: map[string]string{"plan": wide}}
		}
		must.Get(w.Private.CreateToken(t.Context(), p))(t)
		w.newSession()
	}
	p := newTab(t, laptop)
	p.Navigate(w.server.URL + "/login/owner")
	for _, page := range []string{"tokens", "log", "sessions", "log?console=show"} {
		p.Navigate(w.inTenant(page))
		var got struct {
			Whole, Wide int
			Heights     []int
			Bare        []string
		}
		must.Do(t, json.Unmarshal([]byte(p.Value(rowsOnScreen)), &got))
		if got.Whole < 16 || len(got.Heights) > 2 || got.Heights[0] > 36 { // the last row has no line below it
			t.Errorf("%s: %d rows of heights %d", page, got.Whole, got.Heights)
		}
		if got.Wide > 0 {
			t.Errorf("%s: the table is %d pixels wider than its place", page, got.Wide)
		}
		must.Same(t, page+": ids without their full text", 0, len(got.Bare))
	}
	p.Do(chromedp.Click(".rows .copy"))
	p.Await(`document.getElementById('copied').textContent !== ''`)
	must.Same(t, "the copy button", "Copied.", p.Value(`document.getElementById('copied').textContent`))
}

// TestPagesShowNamesInsteadOfIDs checks that the log, sessions, tokens and
// reactors show the names of applications, with links, instead of ids.
func TestPagesShowNamesInsteadOfIDs(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	app := must.Get(w.Owner.PatchApplication(t.Context(), w.app.ID, map[string]any{"name": "Support desk"}))(t)
	private := w.Private.ApplicationID().String()
	must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{ID: "by-app", Type: vault.TypeGeneric, Data: "x"}))(t)
	v := w.as("viewer")
	link := func(id, name string) string {
		return fmt.Sprintf(`applications/%s" title="%s"><bdi>%s</bdi></a>`, id, id, name)
	}
	for page, want := range map[string]string{
		"log?operation=create": link(private, "Test private"), "log?entity_type=application&operation=update": link(app.ID.String(), "Support desk"),
		"sessions": link(private, "Test private"), "tokens/by-app": link(private, "Test private"),
		"reactors/" + w.reactor.ID.String(): link(app.ID.String(), "Support desk"),
	} {
		if _, body := v.get(w.inTenant(page)); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", page, want)
		}
	}
	must.Do(t, w.Owner.DeleteApplication(t.Context(), w.Private.ApplicationID()))
	if status, body := w.as("owner").post(w.inTenant("applications/"+app.ID.String()), url.Values{"shown": {w.shown()}, "name": {"Renamed"}, "permissions": {"token:search"}}); status != http.StatusSeeOther {
		t.Errorf("%d %s", status, body)
	}
	if _, body := v.get(w.inTenant("log?entity_type=application&operation=update")); !strings.Contains(body, link(app.ID.String(), "Renamed")) {
		t.Error("a name that was changed in the console is not shown")
	}
}

// TestTenantsPage checks the tokens, errors and key age of each tenant.
func TestTenantsPage(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	for range 3 {
		if _, err := w.Owner.GetToken(t.Context(), "no-such-token"); err == nil {
			t.Fatal("the token exists")
		}
	}
	errorsBefore := w.rec.ErrorsOf(w.Acme.ID)
	if errorsBefore < 3 {
		t.Errorf("%d errors are counted", errorsBefore)
	}
	_, body := w.as("viewer").get(w.console("tenants"))
	for _, want := range []string{`<td class="num">4</td>`, fmt.Sprintf(`<td class="num bad">%d</td>`, errorsBefore), "<td>under a day</td>"} {
		must.Contain(t, "the page", body, want)
	}
	w.Clock.Advance(72 * time.Hour)
	_, body = w.as("viewer").get(w.console("tenants"))
	must.Contain(t, "the page after three days", body, "<td>3 days</td>")
	w.rec.At(time.Now().Add(25 * time.Hour))
	must.Same(t, "after a day", 0, w.rec.ErrorsOf(w.Acme.ID))
}

// TestSwitchAndCrumbs switches to the same page of another tenant, and follows the
// links to the pages above.
func TestSwitchAndCrumbs(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	w.name("Acme")
	other := must.Get(w.CreateTenant(t.Context(), "Other & Co"))(t)
	v := w.as("viewer")
	_, body := v.get(w.inTenant("tokens/order-1"))
	for _, want := range []string{
		`<a href="../../../tenants/` + other.ID.String() + `/tokens"><bdi>Other &amp; Co</bdi></a>`,
		`<a href="../../../tenants"><bdi>Tenants</bdi></a>`, `<a href="../../../tenants/` + w.Acme.ID.String() + `"><bdi>Acme</bdi></a>`,
		`<a href="../../../tenants/` + w.Acme.ID.String() + `/tokens"><bdi>Tokens</bdi></a>`, `<li aria-current="page"><bdi>order-1</bdi></li>`,
	} {
		must.Contain(t, "the page of a token", body, want)
	}
	if status, _ := v.get(w.console("tenants/" + other.ID.String() + "/tokens")); status != http.StatusOK {
		t.Errorf("the other tenant: %d", status)
	}
}

// TestEmptyPagesLinkSomewhere checks that empty pages have a link or a command.
func TestEmptyPagesLinkSomewhere(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	empty := must.Get(w.CreateTenant(t.Context(), "Empty"))(t)
	v := w.as("viewer")
	in := w.console("tenants/" + empty.ID.String() + "/")
	for _, page := range []string{
		in + "applications", in + "tokens", in + "tokens?q=type:card", in + "tokens?q=type:", in + "tokens?q=data:x", in + "log?operation=delete", in + "log?from=x",
		in + "code", in + "sessions", in + "explain?holder=application+x", in + "tokens/none", in + "reactors/none", in + "applications/none", in + "nothing",
		w.console("tenants/none"), w.console("nothing"), w.console("evidence"), w.console("sinks"),
	} {
		_, body := v.get(page)
		_, main, _ := strings.Cut(body, `<main id="main"`)
		if _, rest, ok := strings.Cut(main, "</nav>"); ok {
			main = rest // without the links to the pages above
		}
		if !strings.Contains(main, "<a ") && !strings.Contains(main, "<code>") && !strings.Contains(main, "<form") {
			t.Errorf("%s is a dead end: %s", page, main)
		}
	}
	if _, body := v.get(in + "tokens/none"); !strings.Contains(body, `/tokens">Tokens</a>`) {
		t.Error("the page of a missing token has no link to the tokens")
	}
	if status, body := v.post(w.inTenant("sessions/"+w.session.String()+"/end"), nil); status != http.StatusForbidden || !strings.Contains(body, `/sessions">Sessions</a>`) {
		t.Errorf("an action that is not allowed: %d", status)
	}
}

// TestInvalidFieldsAreMarked sends forms with errors, and checks that each field
// is marked and linked to its message.
func TestInvalidFieldsAreMarked(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	app := w.inTenant("applications/" + w.app.ID.String())
	rule := func(name, value string) url.Values {
		form := url.Values{"shown": {w.shown()}, "name": {"x"}, "rule.0.priority": {"1"}, "rule.0.container": {"/a/"}, "rule.0.transform": {"mask"}, "rule.0.permissions": {"token:read"}}
		form.Set(name, value)
		return form
	}
	for _, c := range []struct {
		field, address string
		form           url.Values // nil for a search
	}{
		{"from", w.inTenant("log?from=yesterday"), nil},
		{"to", w.inTenant("log?to=2026-13-01"), nil},
		{"q", w.inTenant("tokens?q=type:"), nil},
		{"holder", w.inTenant("explain?holder=application+x&permission=token:read&containers=/a/"), nil},
		{"token", w.inTenant("explain?holder=application+" + w.app.ID.String() + "&permission=token:read&token=none"), nil},
		{"containers", w.inTenant("explain?holder=application+" + w.app.ID.String() + "&permission=token:read&containers=a"), nil},
		{"name", strings.TrimSuffix(w.inTenant(""), "/"), url.Values{"name": {""}}},
		{"name", app, rule("name", "")},
		{"expires", app, rule("expires_at", "soon")},
		{"rule-0-priority", app, rule("rule.0.priority", "-1")},
		{"rule-0-container", app, rule("rule.0.container", "a")},
		{"rule-0-conditions", app, rule("rule.0.conditions", "id")},
		{"rule-0-destinations", app, rule("rule.0.destinations", "*")},
		{"args-", w.inTenant("reactors/" + w.reactor.ID.String() + "/try"), url.Values{"args": {"{"}}},
	} {
		var body string
		if c.form == nil {
			_, body = v.get(c.address)
		} else {
			_, body = v.post(c.address, c.form)
		}
		_, tag, _ := strings.Cut(body, ` id="`+c.field+`"`)
		tag, _, _ = strings.Cut(tag, ">")
		_, message, _ := strings.Cut(tag, `aria-describedby="`)
		message, _, _ = strings.Cut(message, `"`)
		ids := strings.Fields(message)
		must.Lack(t, c.field+" at "+c.address+": the message is no sentence: body", body, ">must ")
		must.Lack(t, c.field+" at "+c.address+": the message is no sentence: body", body, ">is required")
		if !strings.Contains(tag, `aria-invalid="true"`) || len(ids) == 0 || !strings.Contains(body, ` id="`+ids[len(ids)-1]+`"`) {
			t.Errorf("%s at %s is not marked: %s", c.field, c.address, tag)
		}
	}
}
