package console_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

// TestLogFilters lists entries with each filter, and exports the same entries.
func TestLogFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.as("viewer")
	formula := "=cmd|' /C calc'!A0"
	must[*vault.Token](t)(w.Owner.AsUser(formula).CreateToken(t.Context(), vault.TokenParams{ID: "formula", Type: vault.TypeGeneric, Data: "x"}))
	must[*vault.Token](t)(w.Private.CreateToken(t.Context(), vault.TokenParams{ID: "by-app", Type: vault.TypeGeneric, Data: "x"}))
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
