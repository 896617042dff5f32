package console_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// look reads a page of a vault's console from this machine.
func look(t *testing.T, v *vaulttest.Vault, path string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	page := httptest.NewRecorder()
	console.Handler(v.Vault, &console.Options{Authorize: console.LocalOnly}).ServeHTTP(page, r)
	must.Same(t, fmt.Sprint(path, ": ", page.Body), http.StatusOK, page.Code)
	return page.Body.String()
}

// wants fails for each text missing from a page.
func wants(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		must.Contain(t, "the page", page, text)
	}
}

// TestEvidencePage checks the newest checkpoint, the lag, the last verification
// and the alarms, and the page of a vault without evidence.
func TestEvidencePage(t *testing.T) {
	t.Parallel()
	wants(t, look(t, vaulttest.New(t), "/evidence"), "Evidence is off", "vault.Config.Evidence")
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example/log"}})
	wants(t, look(t, v, "/evidence"), "None yet", "Never")
	note := string(must.Get(v.Checkpoint(t.Context()))(t))
	if report, err := v.VerifyLogs(t.Context(), nil); err != nil || report == nil {
		t.Fatal(err)
	}
	page := look(t, v, "/evidence")
	wants(t, page, "vault.example/log", "0 entries wait", `<p class="figure good">Verified</p>`, `<p class="figure good">None</p>`)
	wants(t, html.UnescapeString(page), note, "entries of 1 tenant verified, of 1 Jan 2026, against 1 note of vault.example/log+")
	wants(t, page, "No anchors.")
}

// TestEvidenceFindings checks that the page describes what the last verification
// found.
func TestEvidenceFindings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vault.db")
	v := vaulttest.Open(t, path, &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1}})
	tenant := v.Tenant(must.Get(v.CreateTenant(t.Context(), "Acme"))(t).ID)
	must.Get(tenant.AsUser("jane").CreateToken(t.Context(), vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Get(v.Checkpoint(t.Context()))(t)
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), `UPDATE vault_logs SET actor_name = 'john' WHERE entity_id = 'secret'`))(t)
	if report := must.Get(v.VerifyLogs(t.Context(), nil))(t); report.OK() {
		t.Fatal("the change is not found")
	}
	page := look(t, v, "/evidence")
	wants(t, page, " 1 is not as it was:", `<span class="tag bad">altered</span>`,
		"was altered after the vault wrote it, and now says: ", ", create of token secret by user john (entry ")
}

// silent is an anchor that does not respond.
type silent struct{}

func (silent) Latest(context.Context) ([]byte, error) { return nil, errors.New("secret of the anchor") }
func (silent) Put(context.Context, []byte) error      { return errors.New("secret of the anchor") }

// TestEvidenceAlarms checks that the page shows an alarm with its anchor.
func TestEvidenceAlarms(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Anchors: []vault.Anchor{silent{}}}})
	_, _ = v.Checkpoint(t.Context())
	page := look(t, v, "/evidence")
	wants(t, page, `<p class="figure bad">1</p>`, `<span class="tag bad">anchor</span>`, "an anchor does not respond", `<span class="tag bad">not responding</span>`)
	wants(t, look(t, v, "/"), `role="alert">The evidence of the audit log needs attention: an anchor does not respond.`)
	must.Lack(t, "the page shows the error of the anchor, which may hold its address", page, "secret")
}

// deaf is a destination that refuses every entry.
type deaf struct{}

func (deaf) Send(context.Context, []byte, string) error {
	return errors.New("the destination is out of order")
}

// trail signs a checkpoint, verifies the log, and sends it to the sinks.
func (w *consoleVault) trail() {
	w.t.Helper()
	must.Get(w.CreateTenant(w.t.Context(), "Globex"))(w.t)
	must.Get(w.Checkpoint(w.t.Context()))(w.t)
	must.Get(w.VerifyLogs(w.t.Context(), nil))(w.t)
	must.Match(w.t, "a sink that takes nothing has taken the log", w.SendLogs(w.t.Context()), must.Text("the destination is out of order"))
}

// TestSinksPage checks a working sink and a failing sink, by tenant.
func TestSinksPage(t *testing.T) {
	t.Parallel()
	wants(t, look(t, vaulttest.New(t), "/sinks"), "No log sinks", "--log-sink")
	var sent strings.Builder
	v := vaulttest.Open(t, ":memory:", &vault.Config{Sinks: []vault.Sink{
		{Name: "good", Sender: vault.LogWriter(&sent), FromStart: true}, {Name: "bad", Sender: deaf{}, FromStart: true},
	}})
	must.Get(v.Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Match(t, "both sinks have taken everything", v.SendLogs(t.Context()), must.Text("the log sink bad"))
	page := look(t, v, "/sinks")
	_, good, _ := strings.Cut(page, "<bdi>good</bdi>")
	_, bad, _ := strings.Cut(page, "<bdi>bad</bdi>")
	good, _, _ = strings.Cut(good, "</section>")
	bad, _, _ = strings.Cut(bad, "</section>")
	wants(t, good, "<dt>Lag</dt><dd>none</dd>", "<dt>Failures</dt><dd>0</dd>", "<bdi>Acme</bdi>", "<dt>Entries behind</dt><dd>0</dd>")
	wants(t, bad, "the destination is out of order", " s</dd>")
	for _, failures := range []string{`<dt>Failures</dt><dd class="bad">[1-9]`, `<bdi>Acme</bdi>.*<td class="num bad">[1-9]`} { // retries continue
		if !regexp.MustCompile(failures).MatchString(bad) {
			t.Errorf("the page lacks %s: %s", failures, bad)
		}
	}
}

// A tenant whose keys do not open is marked in the lists, and hides no other
// tenant.
func TestUnreadableTenantIsMarked(t *testing.T) {
	t.Parallel()
	var sent strings.Builder
	v := vaulttest.Open(t, ":memory:", &vault.Config{KeyAge: 1, Sinks: []vault.Sink{{Name: "archive", Sender: vault.LogWriter(&sent), FromStart: true}}})
	_, other := v.NewTenant(t, "Other")
	must.Get(v.DB.ExecContext(t.Context(), `UPDATE vault_records SET body = x'00' WHERE tenant_id = ? AND kind = 'ring'`, v.Acme.ID[:]))(t)
	if err := v.Vault.SendLogs(t.Context()); err == nil || !strings.Contains(sent.String(), other.TenantID().String()) {
		t.Errorf("an unreadable tenant stops a sink: %v, %s", err, sent.String())
	}
	mark := `<span class="tag bad">unreadable</span>`
	wants(t, look(t, v, "/tenants"), mark, v.Acme.ID.String(), "<bdi>Other</bdi>")
	wants(t, look(t, v, "/"), "1 tenant cannot be read.")
	wants(t, look(t, v, "/sinks"), mark, "<bdi>Other</bdi>")
	page := look(t, v, "/tenants/"+other.TenantID().String()+"/tokens")
	must.Lack(t, "the menu of another tenant has the unreadable tenant", page, v.Acme.ID.String())
}
