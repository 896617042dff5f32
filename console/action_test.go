package console_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// action is an action of a page, and the role that it requires.
type action struct {
	path string
	form url.Values
	role string
}

// actions lists all actions of the console: see [TestListOfActionsIsComplete].
func (w *consoleVault) actions() map[string]action {
	return map[string]action{
		"save tenant":        {"", url.Values{"name": {"Renamed"}}, "owner"},
		"rotate":             {"/rotate", nil, "owner"},
		"save application":   {"/applications/" + w.app.ID.String(), url.Values{"name": {"Renamed"}, "permissions": {"token:read"}, "shown": {w.shown()}}, "owner"},
		"delete application": {"/applications/" + w.app.ID.String() + "/delete", url.Values{"sure": {"yes"}}, "owner"},
		"delete key":         {"/applications/" + w.app.ID.String() + "/keys/" + w.keyID().String() + "/delete", url.Values{"sure": {"yes"}}, "owner"},
		"try reactor":        {"/reactors/" + w.reactor.ID.String() + "/try", url.Values{"args": {`{"amount":3}`}}, "operator"},
		"try proxy":          {"/proxies/" + w.proxy.ID.String() + "/try", url.Values{"args": {`{"body":1}`}, "part": {"request"}}, "operator"},
		"retry job":          {"/jobs/" + w.dead.String() + "/retry", nil, "operator"},
		"discard job":        {"/jobs/" + w.dead.String() + "/discard", nil, "operator"},
		"end session":        {"/sessions/" + w.session.String() + "/end", nil, "operator"},
	}
}

// keyID returns the id of the first key of the application, or of no key if it was
// deleted.
func (w *consoleVault) keyID() uuid.UUID {
	w.t.Helper()
	keys, err := w.Owner.ListApplicationKeys(w.t.Context(), w.app.ID)
	if err != nil || len(keys) == 0 {
		return uuid.New()
	}
	return keys[0].ID
}

// ids matches the ids in the path of an action.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// TestListOfActionsIsComplete checks that the list of actions is complete. Other
// tests try the list with each role and from other sites.
func TestListOfActionsIsComplete(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	listed := map[string]string{"POST /signout": "viewer"} // see TestSignOut
	for _, a := range w.actions() {
		listed["POST /tenants/{tenant}"+strings.Replace(ids.ReplaceAllString(a.path, "{id}"), "/keys/{id}", "/keys/{key}", 1)] = a.role
	}
	must.Same(t, "actions of the console, and of the tests (-console +tests)", console.Actions(console.Handler(w.Vault.Vault, nil)), listed)
}

// changes returns the log entries that are not about reads.
func (w *consoleVault) changes() []vault.LogEntry {
	w.t.Helper()
	var out []vault.LogEntry
	for e, err := range w.Owner.AllLogs(w.t.Context(), vault.ListLogsParams{}) {
		must.Do(w.t, err)
		if e.Operation != vault.OperationRead {
			out = append(out, *e)
		}
	}
	return out
}

// TestRolesAreEnforced tries every action as a viewer, an operator and a stranger.
func TestRolesAreEnforced(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	before := len(w.changes())
	for _, role := range []string{"viewer", "operator", "nobody", ""} {
		v := w.as(role)
		for name, a := range w.actions() {
			if role == "operator" && a.role == "operator" {
				continue
			}
			status, body := v.post(strings.TrimSuffix(w.inTenant(""), "/")+a.path, a.form)
			must.Same(t, name+" as "+role+": "+body, http.StatusForbidden, status)
		}
	}
	must.Same(t, "entries of changes were written", before, len(w.changes()))
	stranger := w.as("nobody")
	for name, address := range w.pages() {
		if status, body := stranger.get(address); status != http.StatusForbidden || strings.Contains(body, w.Acme.ID.String()) {
			t.Errorf("%s as a stranger: %d", name, status)
		}
	}
}

// TestOtherSitesAreRefused sends actions as a page of another site could.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	before := len(w.changes())
	good := url.Values{"form": {v.token}}
	for name, c := range map[string]struct {
		form   url.Values
		header map[string]string
	}{
		"another site":           {good, map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": w.server.URL}},
		"a sister site":          {good, map[string]string{"Sec-Fetch-Site": "same-site", "Origin": w.server.URL}},
		"an address typed":       {good, map[string]string{"Sec-Fetch-Site": "none"}},
		"another host":           {good, map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}},
		"an old browser":         {good, map[string]string{"Origin": "https://evil.example"}},
		"no origin at all":       {good, nil},
		"an opaque origin":       {good, map[string]string{"Origin": "null"}},
		"a wrong token":          {url.Values{"form": {strings.Repeat("A", len(v.token))}}, map[string]string{"Sec-Fetch-Site": "same-origin"}},
		"an empty token":         {url.Values{"form": {""}}, map[string]string{"Sec-Fetch-Site": "same-origin"}},
		"a token in the address": {url.Values{"form": {"x"}}, map[string]string{"Sec-Fetch-Site": "same-origin"}},
	} {
		for what, a := range w.actions() {
			form := url.Values{"form": c.form["form"]}
			for k, values := range a.form {
				form[k] = values
			}
			status, body := v.send(strings.TrimSuffix(w.inTenant(""), "/")+a.path+"?form="+v.token, form, c.header)
			must.Same(t, what+" from "+name+": "+body, http.StatusForbidden, status)
		}
	}
	must.Same(t, "entries of changes were written", before, len(w.changes()))
	status, body := v.send(w.inTenant("jobs/"+w.dead.String()+"/discard"), nil, map[string]string{"Origin": w.server.URL})
	must.Same(t, "a browser that sends no Sec-Fetch-Site: "+body, http.StatusSeeOther, status)
}

// TestActionsAreLogged runs every action, and checks that the log names the user
// as its actor.
func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	base := strings.TrimSuffix(w.inTenant(""), "/")
	all := w.actions()
	for _, c := range []struct{ name, operation, entity, message string }{
		{"save tenant", "update", "tenant", "Tenant updated"},
		{"save application", "update", "application", "Application updated"},
		{"try reactor", "react", "reactor", "Test run of the code of a reactor"},
		{"try proxy", "react", "proxy", "Test run of the code of a proxy"},
		{"retry job", "react", "reactor", "Reactor callback retried"},
		{"end session", "delete", "session", "Session deleted"},
		{"delete key", "key", "application", "Application key " + w.keyID().String() + " deleted"},
		{"delete application", "delete", "application", "Application deleted"},
	} {
		before := len(w.changes())
		status, body := v.post(base+all[c.name].path, all[c.name].form)
		if status != http.StatusSeeOther && status != http.StatusOK {
			t.Errorf("%s: %d %s", c.name, status, body)
			continue
		}
		after := w.changes()
		if len(after) != before+1 {
			t.Errorf("%s: %d entries", c.name, len(after)-before)
			continue
		}
		newest := w.newest(after)
		got := []string{string(newest.Operation), newest.EntityType, newest.Message, newest.ActorName, string(newest.ActorType)}
		must.Same(t, c.name, []string{c.operation, c.entity, c.message, "owner@example.com", "user"}, got)
	}
	w.killJobAgain(v)
	v.get(w.inTenant("tokens"))
	w.checkSecrets()
}

// newest returns the entry with the highest id.
func (w *consoleVault) newest(all []vault.LogEntry) vault.LogEntry {
	last := all[0]
	for _, e := range all {
		if e.ID.String() > last.ID.String() {
			last = e
		}
	}
	return last
}

// killJobAgain makes the retried job fail again, and discards it.
func (w *consoleVault) killJobAgain(v *visitor) {
	w.t.Helper()
	for range 10 {
		must.Do(w.t, w.Work(w.t.Context()))
		w.Clock.Advance(2 * time.Hour)
	}
	if status, body := v.post(w.inTenant("jobs/"+w.dead.String()+"/discard"), nil); status != http.StatusSeeOther {
		w.t.Errorf("discard: %d %s", status, body)
	}
	if last := w.newest(w.changes()); last.Message != "Reactor callback discarded" || last.ActorName != "owner@example.com" {
		w.t.Errorf("newest entry: %+v", last)
	}
	if status, _ := v.post(w.inTenant("jobs/"+w.dead.String()+"/discard"), nil); status != http.StatusNotFound {
		w.t.Errorf("discarded twice: %d", status)
	}
}

// TestRotation rotates a key and follows the progress. The rotation waits for other nodes
// until the progress was shown.
func TestRotation(t *testing.T) {
	t.Parallel()
	w, shown := newConsoleVault(t), make(chan struct{})
	core.CallerOf(w.Owner.Client).Vault.WaitUntil = func(context.Context, time.Time) error {
		<-shown
		return nil
	}
	show := sync.OnceFunc(func() { close(shown) })
	defer show()
	v := w.as("owner")
	page := strings.TrimSuffix(w.inTenant(""), "/")
	if status, body := v.post(page+"/rotate", nil); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	if _, body := v.get(page); !strings.Contains(body, "<progress") {
		t.Error("the page has no progress bar")
	}
	res := must.Get(v.client.Do(must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, page+"/events", nil))(t)))(t)
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, "<progress"); {
		var err error
		if line, err = events.ReadString('\n'); err != nil {
			t.Fatalf("no event has a progress bar: %v", err)
		}
	}
	show()
	rest := string(must.Get(io.ReadAll(events))(t)) // ends with the rotation
	if !strings.Contains(rest, "The rotation is complete") || !strings.HasSuffix(strings.TrimSpace(rest), "event: end\ndata:") {
		t.Errorf("events: %s", rest)
	}
	found := 0
	for _, e := range w.changes() {
		if e.EntityType == "tenant" && strings.HasPrefix(e.Message, "Data key") && e.ActorName == "owner@example.com" {
			found++
		}
	}
	must.Same(t, "entries of the rotation", 3, found)
}

// TestRuleEditorShowsProblems saves rules, and checks that the problems of bad
// rules are shown beside them.
func TestRuleEditorShowsProblems(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("owner")
	page := w.inTenant("applications/" + w.app.ID.String())
	form := url.Values{
		"shown": {w.shown()}, "name": {"Support"}, "expires_at": {"2040-01-02T03:04:05Z"}, "permissions": {"token:create"},
		"rule.0.priority": {"2"}, "rule.0.transform": {"mask"}, "rule.0.container": {"/PCI/"}, "rule.0.permissions": {"token:read", "token:search"},
		"rule.1.priority": {""}, "rule.1.container": {"/gone/"},
		"rule.3.priority": {"3"}, "rule.3.transform": {"reveal"}, "rule.3.container": {"/pay/"}, "rule.3.permissions": {"token:use"}, "rule.3.destinations": {"POST,GET API.stripe.com/v1/**\r\n\r\n *.example.com\n"},
		"rule.7.priority": {"1"}, "rule.7.description": {hostile}, "rule.7.transform": {"reveal"}, "rule.7.conditions": {"id starts_with a b\r\n\r\ncontainer equals /pci/\n"}, "rule.7.permissions": {"token:use"},
	}
	if status, body := v.post(page, form); status != http.StatusSeeOther || !strings.HasSuffix(body, "?done=saved") {
		t.Fatalf("%d %s", status, body)
	}
	app := must.Get(w.Owner.GetApplication(t.Context(), w.app.ID))(t)
	want := vault.ApplicationParams{
		Name: "Support", Type: vault.ApplicationPrivate, ExpiresAt: time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC), Permissions: []vault.Permission{"token:create"},
		Rules: []vault.AccessRule{
			{Priority: 2, Container: "/pci/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read", "token:search"}},
			{Priority: 3, Container: "/pay/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}, Destinations: []string{"GET,POST api.stripe.com/v1/**", "*.example.com"}},
			{Priority: 1, Description: hostile, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}, Conditions: []vault.Condition{
				{Attribute: "id", Operator: "starts_with", Value: "a b"}, {Attribute: "container", Operator: "equals", Value: "/pci/"}}},
		},
	}
	must.Same(t, "saved", want, app.Params())
	form.Set("shown", w.shown())
	for name, c := range map[string]struct {
		field, value, says string
	}{
		"priority taken": {"rule.7.priority", "2", "must not be the priority of another rule"},
		"no number":      {"rule.7.priority", "x", "must be at least 1"},
		"bad container":  {"rule.0.container", "pci", "must start and end with"},
		"bad condition":  {"rule.7.conditions", "id starts_with", "must have lines such as"},
		"bad attribute":  {"rule.7.conditions", "size equals 3", "must be one of: id, container"},
		"bad host":       {"rule.3.destinations", "https://api.stripe.com", "must have a host such as"},
		"bad time":       {"expires_at", "soon", "must be a date and time"},
		"past":           {"expires_at", "2001-01-01T00:00:00Z", "must"},
		"no name":        {"name", "", "is required"},
		"foreign":        {"permissions", "log:read", "cannot be held"},
	} {
		bad := url.Values{}
		for k, values := range form {
			bad[k] = values
		}
		bad.Set(c.field, c.value)
		status, body := v.post(page, bad)
		if status != http.StatusBadRequest || !strings.Contains(strings.ToLower(body), strings.ToLower(c.says)) || !strings.Contains(body, "Not saved.") {
			t.Errorf("%s: got status %d without %q", name, status, c.says)
		}
	}
	if after := must.Get(w.Owner.GetApplication(t.Context(), w.app.ID))(t); !cmp.Equal(want, after.Params()) {
		t.Error("a form with mistakes changed the application")
	}
	if status, body := v.post(w.inTenant("applications/"+w.app.ID.String()+"/delete"), nil); status != http.StatusSeeOther || strings.Contains(body, "deleted") {
		t.Errorf("deleted without being sure: %d %s", status, body)
	}
}
