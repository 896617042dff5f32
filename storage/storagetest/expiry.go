package storagetest

import (
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func expiryRules() []rule {
	return []rule{
		{"Sweep deletes up to limit claims and dead jobs, and reports whether more are due", sweepLimit},
		{"Purge deletes up to limit rows of every kind, records last, and leaves other tenants", purgeTenant},
		{"Expired continues after rows that a sweep leaves", expiredLeft},
	}
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
	if e, err := w.store.Expired(w.Context(), storage.ExpiredFilter{Now: now, Limit: 2}); err != nil || len(e.Tokens) != 2 || len(e.CVCs) != 2 || len(e.Records) != 2 {
		w.Errorf("in any order: got %d, %d and %d rows, %v, want 2 of each", len(e.Tokens), len(e.CVCs), len(e.Records), err)
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
	e := w.expiredAt(now)
	w.same("rows that are left", len(e.Tokens)+len(e.CVCs)+len(e.Records), 3*2*rows)
}

func (w *world) sweepAt(at time.Time, limit int) (more bool) {
	w.Helper()
	return must(w.store.Sweep(w.Context(), at, limit))(w, "sweep")
}

func sweepLimit(w *world) {
	tenants := []storage.ID{w.id(), w.id()}
	for _, tenant := range tenants {
		for range 3 {
			claim, job := w.answered(), w.job(earlier)
			claim.ExpiresAt, job.Dead = earlier, true
			w.write(take(tenant, claim))
			w.insertJobs(tenant, job)
		}
	}
	left := func(kind storage.SealedKind) int {
		return len(w.sealed(tenants[0], kind, 10)) + len(w.sealed(tenants[1], kind, 10))
	}
	for _, want := range []int{4, 2, 0} {
		w.same("more", w.sweepAt(now, 2), want > 0)
		w.same("claims left", left(storage.SealedClaims), want)
		w.same("jobs left", left(storage.SealedJobs), want)
	}
	w.same("more of nothing", w.sweepAt(now, 2), false)
}

// purge deletes a tenant in steps and checks each of them.
func (w *world) purge(tenant storage.ID, limit int) {
	w.Helper()
	before := w.state(tenant)
	for step := 0; ; step++ {
		more := must(w.store.Purge(w.Context(), tenant, limit))(w, "purge")
		after := w.state(tenant)
		if gone := before.rows() - after.rows(); gone > limit {
			w.Errorf("step %d deleted %d rows, want at most %d", step, gone, limit)
		}
		if after.Total != len(after.Tokens) {
			w.Errorf("step %d: the total is %d with %d tokens left", step, after.Total, len(after.Tokens))
		}
		if len(after.Records) < len(before.Records) && after.rows() > len(after.Records) {
			w.Errorf("step %d: a record was deleted before other rows", step)
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

func purgeTenant(w *world) {
	tenant, c := w.busy()
	w.purge(tenant, 3) // while there is no other tenant
	w.write(c)
	other, theirs := w.busy()
	open := w.claim()
	w.write(take(tenant, open))
	before := w.state(tenant)
	w.lease(tenant, w.id(), 1)
	for _, limit := range []int{1, 3, 1000} {
		w.unchanged(other, func() { w.purge(tenant, limit) })
		w.same("claim in progress", w.claimed(tenant, open.Key), (*storage.Claim)(nil))
		w.same("lookup by the second key", w.lookup(c.InsertRecords[0].AltKey), (*storage.Record)(nil))
		w.same("tokens by hash", w.found(tenant, storage.HashIs(c.InsertTokens[0].Hashes[0])), []string{})
		w.write(c) // all of its keys are free
		w.same("state", w.state(tenant), before)
		w.same("tokens by hash", len(w.found(tenant, storage.HashIs(c.InsertTokens[0].Hashes[0]))), 1)
	}
	w.same("claim", w.claimed(other, theirs.Claim.Key), &theirs.Claim.Claim)
	w.same("lookup", w.lookup(theirs.InsertRecords[0].AltKey).ID, theirs.InsertRecords[0].ID)
}
