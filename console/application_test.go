package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// shown returns the mark in a form that shows the current application.
func (w *world) shown() string {
	w.t.Helper()
	return console.Mark(must.Get(w.Owner.GetApplication(w.t.Context(), w.app.ID))(w.t))
}

// TestOldFormsAreNotSaved changes the rights of an application while its form is
// open. Saving the form must not restore the old rights.
func TestOldFormsAreNotSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
