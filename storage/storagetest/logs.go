package storagetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func logRules() []rule {
	return []rule{
		{"an entry comes back as it was written", logComesBack},
		{"ListLogs returns the newest first, and the number over all pages", logPages},
		{"ListLogs filters by entity type and id", logFilters},
		{"ListLogs filters by operation and actor", logsBy},
		{"ListLogs goes on before an entry", logsBefore},
		{"ListLogs keeps what was created at or after From and before To", logRange},
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

func logPages(w *world) {
	tenant := w.id()
	var entries []storage.Log
	for range 7 {
		entries = append(entries, w.log("token", "t"))
	}
	w.writeLogs(tenant, entries[3], entries[0], entries[6])
	w.writeLogs(tenant, entries[5], entries[1])
	w.writeLogs(w.id(), entries...)
	w.writeLogs(tenant, entries[2], entries[4])
	want := reversed(entries)
	for offset := range 9 {
		page, total := w.logs(storage.LogFilter{Tenant: tenant, Offset: offset, Limit: 3})
		w.same("page", page, want[min(offset, 7):min(offset+3, 7)])
		w.same("total", total, 7)
	}
}

func logFilters(w *world) {
	tenant := w.id()
	a, b, c := w.log("token", "x"), w.log("card", "x"), w.log("card", "X")
	w.writeLogs(tenant, a, b, c)
	for _, q := range []struct {
		f    storage.LogFilter
		want []storage.Log
	}{
		{storage.LogFilter{}, []storage.Log{c, b, a}},
		{storage.LogFilter{EntityType: "card"}, []storage.Log{c, b}},
		{storage.LogFilter{EntityID: "x"}, []storage.Log{b, a}},
		{storage.LogFilter{EntityType: "card", EntityID: "x"}, []storage.Log{b}},
		{storage.LogFilter{EntityType: "Card"}, nil},
		{storage.LogFilter{EntityType: "token", EntityID: "X"}, nil},
	} {
		q.f.Tenant, q.f.Limit = tenant, 10
		got, total := w.logs(q.f)
		w.same("logs", got, q.want)
		w.same("total", total, len(q.want))
	}
}

func logRange(w *world) {
	tenant := w.id()
	var entries []storage.Log
	for i := range 5 {
		entry := w.log("token", "t")
		entry.CreatedAt = now.Add(time.Duration(i) * time.Microsecond)
		entries = append(entries, entry)
	}
	w.writeLogs(tenant, entries...)
	at := func(i int) time.Time { return entries[i].CreatedAt }
	for _, q := range []struct {
		from, to time.Time
		want     []storage.Log
	}{
		{at(1), time.Time{}, entries[1:]},
		{time.Time{}, at(3), entries[:3]},
		{at(1), at(3), entries[1:3]},
		{at(2), at(2), nil},
		{at(1).In(time.FixedZone("", 5*3600)), at(3).In(time.FixedZone("", -7*3600)), entries[1:3]},
	} {
		got, total := w.logs(storage.LogFilter{Tenant: tenant, From: q.from, To: q.to, Limit: 10})
		w.same("logs", got, reversed(q.want))
		w.same("total", total, len(q.want))
	}
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

func logsBy(w *world) {
	tenant := w.id()
	a, b, c := w.log("token", "x"), w.log("card", "x"), w.log("card", "y")
	b.Operation, b.ActorID, b.ActorType = "read", a.ActorID, "user"
	c.ActorID, c.ActorType = storage.ID{}, ""
	w.writeLogs(tenant, a, b, c)
	for _, q := range []struct {
		f    storage.LogFilter
		want []storage.Log
	}{
		{storage.LogFilter{Operation: "create"}, []storage.Log{c, a}},
		{storage.LogFilter{Operation: "read"}, []storage.Log{b}},
		{storage.LogFilter{ActorID: a.ActorID}, []storage.Log{b, a}},
		{storage.LogFilter{ActorID: a.ActorID, ActorType: "user"}, []storage.Log{b}},
		{storage.LogFilter{ActorType: "application"}, []storage.Log{a}},
		{storage.LogFilter{Operation: "create", EntityType: "card", EntityID: "y"}, []storage.Log{c}},
		{storage.LogFilter{Operation: "create", From: now, To: now.Add(time.Hour)}, []storage.Log{c, a}},
		{storage.LogFilter{Operation: "create", ActorType: "user"}, nil},
		{storage.LogFilter{ActorID: w.id()}, nil},
	} {
		for limit := range 4 {
			q.f.Tenant, q.f.Limit = tenant, limit
			got, total := w.logs(q.f)
			w.same("logs", got, q.want[:min(limit, len(q.want))])
			w.same("total", total, len(q.want))
		}
	}
}

func logsBefore(w *world) {
	tenant := w.id()
	var entries []storage.Log
	for i := range 9 {
		entry := w.log(types[i%len(types)], "t")
		entry.Operation = []string{"create", "read"}[i%2]
		entries = append(entries, entry)
	}
	w.writeLogs(tenant, entries...)
	for _, f := range []storage.LogFilter{{}, {EntityType: "card"}, {EntityID: "t"}, {Operation: "read"}, {From: now}} {
		f.Tenant, f.Limit = tenant, 100
		want, _ := w.logs(f)
		f.Limit, f.Before = 2, storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))
		var got []storage.Log
		for {
			page, total := w.logs(f)
			w.same("total", total, 0)
			got = append(got, page...)
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].ID
		}
		w.sameFor("logs", f, got, want)
	}
}
