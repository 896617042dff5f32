package console_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestLogFilters lists entries with each filter, and exports the same entries.
func TestLogFilters(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("viewer")
	formula := "=cmd|' /C calc'!A0"
	must.Get(w.Owner.AsUser(formula).CreateToken(t.Context(), vault.TokenParams{ID: "formula", Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{ID: "by-app", Type: vault.TypeGeneric, Data: "x"}))(t)
	for query, want := range map[string]string{
		"actor==cmd|'+/C+calc'!A0":                          "formula",
		"actor=" + w.Private.ApplicationID().String():       "by-app",
		"entity_id=order-2":                                 "order-2",
		"entity_type=session&operation=authorize":           w.session.String(),
		"operation=delete":                                  "",
		"from=2001-01-01&to=2002-01-01T00:00":               "",
		"entity_type=card&operation=create&from=2026-01-01": "order-1",
	} {
		query = strings.ReplaceAll(query, "|", "%7C")
		_, page := v.get(w.inTenant("log?" + query))
		_, lines := v.get(w.inTenant("log.jsonl?" + query))
		_, table := v.get(w.inTenant("log.csv?" + query))
		if want == "" {
			if !strings.Contains(page, "No entry matches the filters.") || lines != "" || table != "" {
				t.Errorf("%s: %q, %q", query, lines, table)
			}
			continue
		}
		_, rows, _ := strings.Cut(page, "<tbody>")
		if rows, _, _ = strings.Cut(rows, "</tbody>"); !strings.Contains(rows, want) {
			t.Errorf("%s: the page has %s", query, rows)
		}
		entries := strings.Split(strings.TrimSpace(lines), "\n")
		for _, line := range entries {
			var e vault.LogEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.EntityID != want && want != "by-app" {
				t.Errorf("%s: %s, %v", query, line, err)
			}
		}
		records, err := csv.NewReader(strings.NewReader(table)).ReadAll()
		if err != nil || len(records) != len(entries)+1 || records[0][3] != "entity_id" {
			t.Errorf("%s: %v, %v", query, records, err)
		}
		if want == "formula" && records[1][6] != "'"+formula {
			t.Errorf("a spreadsheet would take %q for a formula", records[1][6])
		}
	}
}

// TestFailedRunsLookFailed shows failed runs, with names of reactors and proxies. A
// console that starts later shows them too.
func TestFailedRunsLookFailed(t *testing.T) {
	t.Parallel()
	w := newConsoleVaultOn(t, jsruntime.NewInProcess(nil))
	must.Get(w.Owner.PatchReactor(t.Context(), w.reactor.ID, map[string]any{"name": "Charge a card"}))(t)
	page := func(path string) string { return look(t, w.Vault, "/tenants/"+w.Acme.ID.String()+path) }
	log := page("/log?operation=react")
	for _, want := range []string{
		`<span class="tag op-react bad">react</span>`, `>Reactor failed in line 6</td>`, `<bdi>Charge a card</bdi>`, `<span class="tag op-react bad">react</span></td>`,
	} {
		must.Contain(t, "the log", log, want)
	}
	must.Contain(t, "the log lacks the name of a proxy", page("/log?entity_type=proxy"), "<bdi>Gateway</bdi>")
	program := page("/reactors/" + w.reactor.ID.String())
	_, runs, _ := strings.Cut(program, "Recent runs</h2>")
	runs, _, _ = strings.Cut(runs, "</section>")
	// A run with a callback, a failed run, and a run that did not fail.
	if strings.Count(runs, ">failed</span>") != 1 || strings.Count(runs, ">ran</span>") < 2 || !strings.Contains(runs, `<td class="num">6</td>`) {
		t.Errorf("recent runs: %s", runs)
	}
}

// TestFind looks for the ids of everything.
func TestFind(t *testing.T) {
	t.Parallel()
	w := newConsoleVault(t)
	v := w.as("viewer")
	other := must.Get(w.CreateTenant(t.Context(), "Initech"))(t)
	twice := vault.TokenParams{ID: "order-1", Type: vault.TypeGeneric, Data: "x"}
	must.Get(w.Vault.Vault.Tenant(other.ID).CreateToken(t.Context(), twice))(t)
	var entry vault.LogEntry
	for e, err := range w.Owner.AllLogs(t.Context(), vault.ListLogsParams{Operation: vault.OperationAuthorize}) {
		must.Do(t, err)
		entry = *e
	}
	find := func(query string) (int, string) {
		status, page := v.get(w.console("find?" + query))
		if status == http.StatusSeeOther {
			return v.get(w.console(strings.TrimPrefix(page, "./")))
		}
		return status, page
	}
	for id, want := range map[string]string{
		"order-2": "<h1><bdi class=\"id\">order-2</bdi>", w.app.ID.String(): `data-copy="` + w.app.ID.String(), w.reactor.ID.String(): "Runs as application",
		w.proxy.ID.String(): "<h1><bdi>Gateway</bdi></h1>", entry.ID.String(): "Session authorized", " order-2 ": "order-2</bdi>",
		"no-such-id": "Nothing has this id", uuid.NewString(): "Nothing has this id", "a/b#?": "Nothing has this id", strings.Repeat("x", 500): "Nothing has this id",
		w.Acme.ID.String(): "Nothing has this id",
	} {
		status, page := find("id=" + url.QueryEscape(id))
		must.Same(t, id+": status", http.StatusOK, status)
		must.Contain(t, id+": page", page, want)
	}
	if _, page := find("id=order-1"); strings.Count(page, "/tokens/order-1") != 2 || !strings.Contains(page, "Initech") {
		t.Errorf("in two tenants: %s", page)
	}
	_, page := find("id=order-1&tenant=" + w.Acme.ID.String())
	must.Contain(t, "in one tenant", page, "XXXXXXXXXXXX5556")
	w.checkSecrets()
}
