package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// shown returns the mark in a form that shows the current application.
func (w *consoleVault) shown() string {
	w.t.Helper()
	return console.Mark(must.Get(w.Owner.GetApplication(w.t.Context(), w.app.ID))(w.t))
}

// TestOldFormsAreNotSaved changes the rights of an application while its form is
// open. Saving the form must not restore the old rights.
func TestOldFormsAreNotSaved(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	page := w.inTenant("applications/" + w.app.ID.String())
	_, body := v.get(page)
	_, rest, _ := strings.Cut(body, `name="shown" value="`)
	shown, _, _ := strings.Cut(rest, `"`)
	must.Same(t, "the form", w.shown(), shown)
	form := url.Values{"name": {"Saved"}, "permissions": {"token:search"}, "shown": {shown}}
	now := must.Get(w.Owner.PatchApplication(t.Context(), w.app.ID, map[string]any{"permissions": []string{"token:create"}}))(t)
	for name, mark := range map[string][]string{"from before": {shown}, "without a mark": nil, "with another": {"x"}} {
		form["shown"] = mark
		status, body := v.post(page, form)
		if status != http.StatusConflict || !strings.Contains(body, "has changed since you opened this page") || strings.Contains(body, `value="Saved"`) {
			t.Errorf("a form %s: %d %s", name, status, body)
		}
		must.Contain(t, "a form "+name+": the page cannot be saved", body, `name="shown" value="`+w.shown()+`"`)
	}
	after := must.Get(w.Owner.GetApplication(t.Context(), w.app.ID))(t)
	must.Same(t, "an old form changed the application", now.Params(), after.Params())
	form.Set("shown", w.shown())
	form.Set("name", "")
	_, body = v.post(page, form)
	must.Contain(t, "a form with a mistake cannot be saved once it is mended", body, `name="shown" value="`+w.shown()+`"`)
}

// TestReplacedDataIsCounted counts the requests of an application in whose responses
// data was replaced, for a day.
func TestReplacedDataIsCounted(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	page, v := w.inTenant("applications/"+w.app.ID.String()), w.as("viewer")
	_, body := v.get(page)
	must.Lack(t, "without a rule with destinations", body, `id="echoes"`)
	must.Get(w.Owner.PatchApplication(t.Context(), w.app.ID, map[string]any{"rules": []map[string]any{{
		"description": "d", "priority": 1, "container": "/", "transform": "reveal", "permissions": []string{"token:use"}, "destinations": []string{"api.example.com"},
	}}}))(t)
	for range 3 {
		_, end := w.rec.Start(t.Context(), vault.Event{Kind: vault.EventEcho, TenantID: w.Acme.ID, EntityID: w.app.ID})
		end(nil)
	}
	_, body = v.get(page)
	must.Contain(t, "the page", body, "to 3 of its requests")
	w.rec.At(time.Now().Add(25 * time.Hour))
	_, body = v.get(page)
	must.Contain(t, "after a day", body, "to 0 of its requests")
}

// TestKeysAndIdentities shows a row for each key of an application, and its identities,
// which the form does not have and so must not remove.
func TestKeysAndIdentities(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	page, v := w.inTenant("applications/"+w.app.ID.String()), w.as("owner")
	k := must.Get(w.Owner.CreateApplicationKey(t.Context(), w.app.ID, vault.ApplicationKeyParams{}))(t)
	must.Get(w.Vault.Authenticate(t.Context(), k.Key))(t)
	k = must.Get(w.Owner.GetApplicationKey(t.Context(), w.app.ID, k.ID))(t)
	_, body := v.get(page)
	_, keys, _ := strings.Cut(body, `id="keys"`)
	keys, _, _ = strings.Cut(keys, "</section>")
	must.Same(t, "rows", 2, strings.Count(keys, `<th scope="row">`))
	_, row, _ := strings.Cut(keys, `title="`+k.ID.String()+`"`)
	row, _, _ = strings.Cut(row, "</tr>")
	_, used, _ := strings.Cut(row, `data-label="Last used"`)
	must.Contain(t, "the last use", used, k.LastUsedAt.UTC().Format("2006-01-02T15:04:05"))
	must.Contain(t, "a key that was not used", keys, `<span class="muted">–</span>`)
	if status, _ := v.post(page+"/keys/"+k.ID.String()+"/delete", nil); status != http.StatusSeeOther {
		t.Errorf("without the tick: %d", status)
	}
	must.Get(w.Owner.GetApplicationKey(t.Context(), w.app.ID, k.ID))(t)
	v.post(page+"/keys/"+k.ID.String()+"/delete", url.Values{"sure": {"yes"}})
	must.Match(t, "deleted", must.Err(w.Owner.GetApplicationKey(t.Context(), w.app.ID, k.ID)), vault.ErrNotFound)
	must.Lack(t, "a viewer cannot delete", second(w.as("viewer").get(page)), "/keys/")
}

func second(_ int, body string) string { return body }
