package storagetest

import (
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func (w *dbTest) sweepAt(at time.Time, limit int) (more bool) {
	w.Helper()
	return must(w.store.Sweep(w.Context(), at, limit))(w, "sweep")
}

func sweepLimit(w *dbTest) {
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
func (w *dbTest) purge(tenant storage.ID, limit int) {
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

func purgeTenant(w *dbTest) {
	tenant, c := w.busy()
	sets := w.containers(tenant)
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
		w.same("container sets", w.containers(tenant), sets)
		w.same("tokens by hash", len(w.found(tenant, storage.HashIs(c.InsertTokens[0].Hashes[0]))), 1)
	}
	w.same("claim", w.claimed(other, theirs.Claim.Key), &theirs.Claim.Claim)
	w.same("lookup", w.lookup(theirs.InsertRecords[0].AltKey).ID, theirs.InsertRecords[0].ID)
}
