package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func expiryRules() []rule {
	return []rule{
		{"Expired returns what deletes need", expiredDrains},
		{"Expired continues after rows that a sweep leaves", expiredLeft},
		{"Sweep deletes up to limit claims and reports whether more are due", sweepLimit},
		{"Sweep deletes up to limit dead jobs and reports whether more are due", sweepJobLimit},
		{"Purge deletes rows of every kind, and their keys", purgeAll},
		{"Purge deletes up to limit rows and reports whether there are more", purgeLimit},
		{"Purge deletes records last", purgeRecordsLast},
		{"Purge leaves other tenants", purgeOthers},
		{"a purged tenant can be written again", purgeThenWrite},
	}
}

func sorted(ids []storage.ID) []storage.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	return ids
}

func sortedIDs[T any](rows []T, id func(T) storage.ID) []storage.ID {
	ids := make([]storage.ID, len(rows))
	for i := range rows {
		ids[i] = id(rows[i])
	}
	return sorted(ids)
}

// expiredDrains sweeps as the vault does: it deletes the results of Expired
// until nothing is left.
func expiredDrains(w *world) {
	for range 3 {
		tenant := w.id()
		tokens := w.tokenSeries("t", 6)
		for i := range tokens[:5] {
			tokens[i].ExpiresAt = earlier
		}
		w.write(insert(tenant, tokens...))
		for range 3 {
			record := w.record("session", "s")
			record.ExpiresAt = earlier
			w.insertRecords(tenant, record)
		}
	}
	tokens, records := 0, 0
	for round := 0; ; round++ {
		e, err := w.store.Expired(w.Context(), storage.ExpiredFilter{Now: now, Limit: 4})
		if err != nil {
			w.Fatalf("expired: %v", err)
		}
		if len(e.Tokens)+len(e.Records) == 0 {
			break
		}
		if len(e.Tokens) > 4 || len(e.Records) > 4 || round > 30 {
			w.Fatalf("round %d: got %d tokens and %d records for a limit of 4", round, len(e.Tokens), len(e.Records))
		}
		for _, token := range e.Tokens {
			w.write(&storage.Change{Tenant: token.Tenant, DeleteTokens: []storage.TokenDelete{deleteOf(token)}})
		}
		for _, r := range e.Records {
			w.write(&storage.Change{Tenant: r.Tenant, DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}})
		}
		tokens, records = tokens+len(e.Tokens), records+len(e.Records)
	}
	w.same("tokens", tokens, 15)
	w.same("records", records, 9)
}

// expiredLeft sweeps and leaves two rows in three. Most rows have the same time.
// The rows that stay do not hide the others, and each of them is returned once.
func expiredLeft(w *world) {
	const rows = 15
	seen, left := map[storage.ID]int{}, map[storage.ID]bool{}
	for i, tenant := range []storage.ID{w.id(), w.id(), w.id()} {
		for n := range rows {
			token, card, record := w.token(fmt.Sprint("t", n)), w.token(fmt.Sprint("c", n)), w.record("session", "s")
			at := []time.Time{earlier, earlier, earlier, earlier.Add(time.Microsecond), now}[n%5]
			token.ExpiresAt, card.CVC, card.CVCExpiresAt, record.ExpiresAt = at, []byte("sealed cvc"), at, at
			w.write(insert(tenant, token, card))
			w.insertRecords(tenant, record)
			for _, id := range []storage.ID{token.Ord, card.Ord, record.ID} {
				seen[id], left[id] = 0, (n+i)%3 != 0
			}
		}
	}
	pass := func(place *storage.ExpiryPlace, at time.Time, id storage.ID, deletion *storage.Change) {
		seen[id]++
		if place.Pass(at, left[id]); !left[id] {
			w.write(deletion)
		}
	}
	ordered := storage.ExpiryPlace{Ordered: true}
	f := storage.ExpiredFilter{Now: now, Limit: 2, Tokens: ordered, CVCs: ordered, Records: ordered}
	for round, more := 0, true; more; round++ {
		e, err := w.store.Expired(w.Context(), f)
		if err != nil || round > 3*rows {
			w.Fatalf("round %d: %v", round, err)
		}
		for _, t := range e.Tokens {
			pass(&f.Tokens, t.ExpiresAt, t.Ord, &storage.Change{Tenant: t.Tenant, DeleteTokens: []storage.TokenDelete{deleteOf(t)}})
		}
		for _, t := range e.CVCs {
			pass(&f.CVCs, t.CVCExpiresAt, t.Ord, &storage.Change{Tenant: t.Tenant, DeleteTokens: []storage.TokenDelete{deleteOf(t)}})
		}
		for _, r := range e.Records {
			pass(&f.Records, r.ExpiresAt, r.ID, &storage.Change{Tenant: r.Tenant, DeleteRecords: []storage.RecordDelete{{Kind: r.Kind, ID: r.ID, Rev: r.Rev}}})
		}
		more = len(e.Tokens)+len(e.CVCs)+len(e.Records) > 0
	}
	for id, n := range seen {
		if n != 1 {
			w.Errorf("row %x (left: %t) was returned %d times, want once", id, left[id], n)
		}
	}
	e := w.expired()
	w.same("rows that are left", len(e.Tokens)+len(e.CVCs)+len(e.Records), 3*2*rows)
}

func (w *world) sweep(limit int) (more bool) {
	w.Helper()
	return w.sweepAt(now, limit)
}

func (w *world) sweepAt(at time.Time, limit int) (more bool) {
	w.Helper()
	more, err := w.store.Sweep(w.Context(), at, limit)
	if err != nil {
		w.Fatalf("sweep: %v", err)
	}
	return more
}

func sweepLimit(w *world) {
	a, b := w.id(), w.id()
	for range 3 {
		for _, tenant := range []storage.ID{a, b} {
			c := w.answered()
			c.ExpiresAt = earlier
			w.write(take(tenant, c))
		}
	}
	count := func() int {
		return len(w.sealed(a, storage.SealedClaims, 10)) + len(w.sealed(b, storage.SealedClaims, 10))
	}
	for _, want := range []int{4, 2, 0} {
		w.same("more", w.sweep(2), want > 0)
		w.same("claims left", count(), want)
	}
	w.same("more of nothing", w.sweep(2), false)
}

// jobsKept returns the ids of a tenant's jobs.
func (w *world) jobsKept(tenant storage.ID) []storage.ID {
	w.Helper()
	return sortedIDs(w.sealed(tenant, storage.SealedJobs, 100), func(s storage.Sealed) storage.ID { return storage.ID(s.Key[:16]) })
}

func sweepJobLimit(w *world) {
	tenant := w.id()
	for range 5 {
		job := w.job(earlier)
		job.Dead = true
		w.insertJobs(tenant, job)
	}
	for _, want := range []int{3, 1, 0} {
		w.same("more", w.sweep(2), want > 0)
		w.same("jobs left", len(w.jobsKept(tenant)), want)
	}
}

// purge deletes a tenant in steps and checks each of them.
func (w *world) purge(tenant storage.ID, limit int) {
	w.Helper()
	before := w.state(tenant)
	for step := 0; ; step++ {
		more, err := w.store.Purge(w.Context(), tenant, limit)
		if err != nil {
			w.Fatalf("purge: %v", err)
		}
		after := w.state(tenant)
		if gone := before.rows() - after.rows(); gone > limit {
			w.Errorf("step %d deleted %d rows, want at most %d", step, gone, limit)
		}
		if after.Total != len(after.Tokens) {
			w.Errorf("step %d: the total is %d with %d tokens left", step, after.Total, len(after.Tokens))
		}
		if !more {
			w.same("rows left when there are no more", after.rows()+len(after.Sets), 0)
			return
		}
		if step > 2000 {
			w.Fatal("there are always more")
		}
		before = after
	}
}

func purgeAll(w *world) {
	tenant, c := w.busy()
	open := w.claim()
	w.write(take(tenant, open))
	w.lease(tenant, w.id(), 1)
	w.purge(tenant, 1000)
	w.same("claim in progress", w.claimed(tenant, open.Key), (*storage.Claim)(nil))
	for _, record := range c.InsertRecords {
		w.same("lookup", w.lookup(record.Key), (*storage.Record)(nil))
		w.same("lookup by the second key", w.lookup(record.AltKey), (*storage.Record)(nil))
	}
	for _, token := range c.InsertTokens {
		w.same("tokens by hash", w.found(tenant, storage.HashIs(token.Hashes[0])), []string{})
	}
	more, err := w.store.Purge(w.Context(), tenant, 10)
	if more || err != nil {
		w.Errorf("purge of nothing: got %t, %v", more, err)
	}
}

func purgeRecordsLast(w *world) {
	tenant, _ := w.busy()
	open := w.claim()
	w.write(take(tenant, open))
	for step := 0; ; step++ {
		if _, err := w.store.Purge(w.Context(), tenant, 1); err != nil {
			w.Fatalf("purge: %v", err)
		}
		if _, records := w.records(storage.RecordFilter{Tenant: tenant, Limit: 1}); records < 3 {
			break
		}
		if step > 2000 {
			w.Fatal("no record is ever deleted")
		}
	}
	left := w.state(tenant)
	w.same("other rows when the first record is gone", left.rows()-len(left.Records), 0)
	w.same("claim in progress when the first record is gone", w.claimed(tenant, open.Key), (*storage.Claim)(nil))
}

func purgeLimit(w *world) {
	tenant, _ := w.busy()
	w.write(w.full(tenant, "more"))
	w.purge(tenant, 3)
}

func purgeOthers(w *world) {
	tenant, _ := w.busy()
	other, c := w.busy()
	w.unchanged(other, func() { w.purge(tenant, 50) })
	w.same("claim", w.claimed(other, c.Claim.Key), &c.Claim.Claim)
	for _, record := range c.InsertRecords {
		w.same("lookup", w.lookup(record.AltKey).ID, record.ID)
	}
	w.same("tokens by hash", len(w.found(other, storage.HashIs(c.InsertTokens[1].Hashes[1]))), 1)
}

func purgeThenWrite(w *world) {
	tenant, c := w.busy()
	before := w.state(tenant)
	w.purge(tenant, 50)
	w.write(c)
	w.same("state", w.state(tenant), before)
	w.same("tokens by hash", len(w.found(tenant, storage.HashIs(c.InsertTokens[1].Hashes[1]))), 1)
}
