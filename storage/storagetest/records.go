package storagetest

import (
	"errors"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func recordRules() []rule {
	return []rule{
		{"a record comes back as it was written", recordComesBack},
		{"Records returns the records of a kind with these ids", recordsByID},
		{"Lookup returns ErrNotFound for a key that nothing has", lookupNothing},
		{"Name matches the whole name, without regard to case", recordNames},
	}
}

func (w *world) insertRecords(tenant storage.ID, rows ...storage.Record) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertRecords: rows})
}

func recordComesBack(w *world) {
	tenant := w.id()
	full, bare := w.record("session", "Müller's \"100%\""), w.record("session", "")
	full.ExpiresAt, full.Rev = later, 12
	bare.Key, bare.AltKey = storage.Key{}, storage.Key{}
	second := bare
	second.ID = w.id()
	w.insertRecords(tenant, full, bare, second)
	full.Tenant, bare.Tenant, second.Tenant = tenant, tenant, tenant
	got, total := w.records(storage.RecordFilter{Tenant: tenant, Limit: 10})
	w.same("records", got, []storage.Record{second, bare, full})
	w.same("total", total, 3)
	w.same("record by key", w.lookup(full.Key), &full)
}

func recordsByID(w *world) {
	tenant := w.id()
	a, b, other := w.record("proxy", "a"), w.record("proxy", "b"), w.record("reactor", "c")
	w.insertRecords(tenant, a, b, other)
	got, err := w.store.Records(w.Context(), tenant, "proxy", []storage.ID{a.ID, other.ID, w.id(), a.ID})
	if err != nil {
		w.Fatal(err)
	}
	a.Tenant = tenant
	w.same("records", got, []storage.Record{a})
	got, err = w.store.Records(w.Context(), tenant, "proxy", nil)
	if err != nil || len(got) != 0 {
		w.Errorf("records of no ids: got %d, %v, want none", len(got), err)
	}
	got, err = w.store.Records(w.Context(), tenant, "proxy", []storage.ID{a.ID, b.ID})
	if err != nil || len(got) != 2 {
		w.Errorf("records: got %d, %v, want 2", len(got), err)
	}
}

func lookupNothing(w *world) {
	row := w.record("session", "without keys")
	row.Key, row.AltKey = storage.Key{}, storage.Key{}
	w.insertRecords(w.id(), row)
	for _, key := range []storage.Key{w.key(), {}} {
		if _, err := w.store.Lookup(w.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			w.Errorf("got %v, want ErrNotFound", err)
		}
	}
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

func logRules() []rule {
	return []rule{
		{"an entry comes back as it was written", logComesBack},
		{"a relaxed change is there when Write returns", relaxedLogs},
	}
}

func (w *world) writeLogs(tenant storage.ID, entries ...storage.Log) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Logs: entries})
}

func logComesBack(w *world) {
	tenant := w.id()
	full, bare := w.log("card", strings.Repeat("größe's", 57)), w.log("tenant", "")
	bare.ActorID, bare.ActorType, bare.ActorName, bare.Message = storage.ID{}, "", "", ""
	w.writeLogs(tenant, full, bare)
	got, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10})
	w.same("logs", got, []storage.Log{bare, full})
	w.same("total", total, 2)
}

func relaxedLogs(w *world) {
	tenant := w.id()
	entry := w.log("token", "read")
	entry.Operation = "read"
	w.write(&storage.Change{Tenant: tenant, Logs: []storage.Log{entry}, Relaxed: true})
	got, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10})
	w.same("logs", got, []storage.Log{entry})
	w.same("total", total, 1)
}
