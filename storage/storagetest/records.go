package storagetest

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

func recordRules() []rule {
	return []rule{
		{"a record comes back as it was written", recordComesBack},
		{"Records returns the records of a kind with these ids", recordsByID},
		{"Lookup returns the record that has this Key or AltKey, of any tenant", lookupByKeys},
		{"Lookup returns ErrNotFound for a key that nothing has", lookupNothing},
		{"an update replaces the record, together with its keys", recordUpdate},
		{"an update may keep, swap and drop its own keys", recordKeepsKeys},
		{"a delete removes the record and its keys", recordDelete},
		{"ListRecords returns the newest first, and the number over all pages", recordPages},
		{"ListRecords filters by kind and ids", recordFilters},
		{"ListRecords keeps the records sealed under an older key", recordKeyBelow},
		{"ListRecords keeps the records before an id", recordBefore},
		{"ListRecords without a tenant returns those of every tenant", recordsOfAll},
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

func lookupByKeys(w *world) {
	for range 2 {
		tenant, row := w.id(), w.record("session", "s")
		row.ExpiresAt = earlier
		w.insertRecords(tenant, row)
		row.Tenant = tenant
		w.same("record by Key", w.lookup(row.Key), &row)
		w.same("record by AltKey", w.lookup(row.AltKey), &row)
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

func recordUpdate(w *world) {
	tenant, row, other := w.id(), w.record("proxy", "before"), w.record("proxy", "other")
	row.ExpiresAt = later
	w.insertRecords(tenant, row, other)
	next := w.record("proxy", "after")
	next.ID, next.Rev = row.ID, 99
	w.write(&storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: next}}})
	next.Tenant, next.Rev = tenant, 2
	w.same("record by the new key", w.lookup(next.Key), &next)
	w.same("record by the new second key", w.lookup(next.AltKey), &next)
	for _, key := range []storage.Key{row.Key, row.AltKey} {
		w.same("record by a replaced key", w.lookup(key), (*storage.Record)(nil))
	}
	w.same("name of the other record", w.lookup(other.Key).Name, "other")
	taker := w.record("proxy", "taker")
	taker.Key, taker.AltKey = row.AltKey, row.Key
	w.insertRecords(tenant, taker)
	got, _ := w.records(storage.RecordFilter{Tenant: tenant, Name: "before", Limit: 10})
	w.same("records by the old name", got, []storage.Record(nil))
}

func recordKeepsKeys(w *world) {
	tenant, row := w.id(), w.record("session", "s")
	w.insertRecords(tenant, row)
	kept, swapped, dropped := row, row, row
	kept.Name, swapped.Name, dropped.Name = "kept", "swapped", "dropped"
	swapped.Key, swapped.AltKey = row.AltKey, row.Key
	dropped.AltKey = storage.Key{}
	for i, next := range []storage.Record{kept, swapped, kept, dropped} {
		u := storage.RecordUpdate{Rev: int64(i + 1), Record: next}
		w.write(&storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{u}})
		w.same("name by Key", w.lookup(next.Key).Name, next.Name)
		w.same("keys", w.lookup(row.Key).Key, next.Key)
	}
	w.same("record by the dropped key", w.lookup(row.AltKey), (*storage.Record)(nil))
}

func recordDelete(w *world) {
	tenant, row, other := w.id(), w.record("session", "s"), w.record("session", "other")
	w.insertRecords(tenant, row, other)
	w.write(&storage.Change{
		Tenant: tenant, DeleteRecords: []storage.RecordDelete{{Kind: row.Kind, ID: row.ID, Rev: 1}},
	})
	for _, key := range []storage.Key{row.Key, row.AltKey} {
		w.same("record by a freed key", w.lookup(key), (*storage.Record)(nil))
	}
	got, total := w.records(storage.RecordFilter{Tenant: tenant, Limit: 10})
	other.Tenant = tenant
	w.same("records", got, []storage.Record{other})
	w.same("total", total, 1)
	w.insertRecords(w.id(), row)
	w.insertRecords(tenant, storage.Record{Kind: row.Kind, ID: row.ID, Body: row.Body, CreatedAt: now, Rev: 1})
}

// recordSeries stores n records of a kind, and returns them oldest first.
func (w *world) recordSeries(tenant storage.ID, kind string, n int) []storage.Record {
	w.Helper()
	rows := make([]storage.Record, n)
	for i := range rows {
		rows[i] = w.record(kind, kind)
	}
	for i := range rows {
		w.insertRecords(tenant, rows[n-1-i])
	}
	for i := range rows {
		rows[i].Tenant = tenant
	}
	return rows
}

func reversed[T any](rows []T) []T {
	out := make([]T, 0, len(rows))
	for i := range rows {
		out = append(out, rows[len(rows)-1-i])
	}
	return out
}

func recordPages(w *world) {
	tenant := w.id()
	want := reversed(w.recordSeries(tenant, "proxy", 7))
	w.recordSeries(w.id(), "proxy", 2)
	for offset := range 9 {
		page, total := w.records(storage.RecordFilter{Tenant: tenant, Offset: offset, Limit: 3})
		w.same("page", page, want[min(offset, 7):min(offset+3, 7)])
		w.same("total", total, 7)
	}
}

func recordFilters(w *world) {
	tenant := w.id()
	proxies, reactors := w.recordSeries(tenant, "proxy", 3), w.recordSeries(tenant, "reactor", 2)
	check := func(f storage.RecordFilter, want ...storage.Record) {
		w.Helper()
		f.Tenant, f.Limit = tenant, 10
		got, total := w.records(f)
		w.same("records", got, reversed(want))
		w.same("total", total, len(want))
	}
	check(storage.RecordFilter{}, append(proxies, reactors...)...)
	check(storage.RecordFilter{Kind: "proxy"}, proxies...)
	check(storage.RecordFilter{Kind: "reactor"}, reactors...)
	check(storage.RecordFilter{Kind: "Proxy"})
	check(storage.RecordFilter{IDs: []storage.ID{proxies[2].ID, proxies[0].ID, w.id(), reactors[0].ID}},
		proxies[0], proxies[2], reactors[0])
	check(storage.RecordFilter{Kind: "proxy", IDs: []storage.ID{proxies[1].ID, reactors[0].ID}}, proxies[1])
	check(storage.RecordFilter{IDs: []storage.ID{}})
}

func recordKeyBelow(w *world) {
	tenant := w.id()
	var rows []storage.Record
	for version := 1; version <= 4; version++ {
		row := w.record("proxy", "p")
		row.KeyVersion = version
		rows = append(rows, row)
	}
	w.insertRecords(tenant, rows...)
	for below, want := range []int{4, 0, 1, 2, 3, 4, 4} {
		page, total := w.records(storage.RecordFilter{Tenant: tenant, KeyBelow: below, Limit: 10})
		w.same("records", len(page), want)
		w.same("total", total, want)
	}
}

func recordBefore(w *world) {
	tenant := w.id()
	rows := w.recordSeries(tenant, "proxy", 5)
	page, _ := w.records(storage.RecordFilter{Tenant: tenant, Before: rows[3].ID, Limit: 2})
	w.same("page", page, []storage.Record{rows[2], rows[1]})
	page, _ = w.records(storage.RecordFilter{Tenant: tenant, Before: rows[3].ID, Offset: 2, Limit: 2})
	w.same("page with an offset", page, []storage.Record{rows[0]})
	page, _ = w.records(storage.RecordFilter{Tenant: tenant, Before: rows[0].ID, Limit: 2})
	w.same("page before the first", page, []storage.Record(nil))
}

func recordsOfAll(w *world) {
	var want []storage.Record
	for range 3 {
		want = append(want, w.recordSeries(w.id(), "tenant", 2)...)
	}
	w.recordSeries(w.id(), "keys", 1)
	page, total := w.records(storage.RecordFilter{Kind: "tenant", Limit: 10})
	w.same("records", page, reversed(want))
	w.same("total", total, 6)
	page, _ = w.records(storage.RecordFilter{Kind: "tenant", Before: want[4].ID, Limit: 3})
	w.same("page", page, []storage.Record{want[3], want[2], want[1]})
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
