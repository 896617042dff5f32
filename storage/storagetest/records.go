package storagetest

import (
	"github.com/seed-72ea4aab/vault/storage"
)

func (w *world) insertRecords(tenant storage.ID, rows ...storage.Record) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertRecords: rows})
}

func reversed[T any](rows []T) []T {
	out := make([]T, 0, len(rows))
	for i := range rows {
		out = append(out, rows[len(rows)-1-i])
	}
	return out
}

func recordNames(w *world) {
	tenant := w.id()
	names := []string{
		"Stripe", "stripe", "Stripe EU", "My Stripe", "100%", "100x", "a_b", "axb", `a\b`, "a*b", "[ab]", "a?b", "line\nbreak",
		"ÄPFEL und Öl", "Москва", "日本語", "it's", "",
	}
	for _, name := range names {
		w.insertRecords(tenant, w.record("proxy", name))
	}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"stripe", []string{"Stripe", "stripe"}},
		{"STRIPE", []string{"Stripe", "stripe"}},
		{"strip", nil},
		{"stripe*", []string{"Stripe", "stripe", "Stripe EU"}},
		{"*stripe", []string{"Stripe", "stripe", "My Stripe"}},
		{"*stripe*", []string{"Stripe", "stripe", "Stripe EU", "My Stripe"}},
		{"s*e*u", []string{"Stripe EU"}},
		{"s**e", []string{"Stripe", "stripe"}},
		{"100%", []string{"100%"}},
		{"%", nil},
		{"a_b", []string{"a_b"}},
		{`a\b`, []string{`a\b`}},
		{`a\*`, []string{`a\b`}},
		{"a*b", []string{"a_b", "axb", `a\b`, "a*b", "a?b"}},
		{"a?b", []string{"a?b"}},
		{"[ab]", []string{"[ab]"}},
		{"l*k", []string{"line\nbreak"}},
		{"äpfel UND öl", []string{"ÄPFEL und Öl"}},
		{"ä*ÖL", []string{"ÄPFEL und Öl"}},
		{"мОСКВА", []string{"Москва"}},
		{"日*", []string{"日本語"}},
		{"it's", []string{"it's"}},
		{"**l***k**", []string{"line\nbreak"}},
		{"*", names},
		{"", names},
	} {
		page, total := w.records(storage.RecordFilter{Tenant: tenant, Name: c.pattern, Limit: 100})
		var got []string
		for _, row := range reversed(page) {
			got = append(got, row.Name)
		}
		w.same("names like "+c.pattern, got, c.want)
		w.same("total of names like "+c.pattern, total, len(c.want))
	}
}

func (w *world) writeLogs(tenant storage.ID, entries ...storage.Log) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Logs: entries})
}
