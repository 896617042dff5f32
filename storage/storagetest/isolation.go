package storagetest

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

// twin returns the same rows for another tenant. Only keys that are unique
// across tenants differ.
func (w *dbTest) twin(e example) example {
	e.record.Key, e.record.AltKey = w.key(), w.key()
	return e
}

func readsAreIsolated(w *dbTest) {
	a, b := w.id(), w.id()
	e := w.example("mine")
	w.write(e.insert(a))
	w.same("state of the other tenant", w.state(b), state{BySet: map[storage.Hash]int{
		sets[0].Set: 0, sets[1].Set: 0, sets[2].Set: 0,
	}})
	w.same("tokens", w.tokens(b, "mine"), []storage.Token(nil))
	dup := w.duplicate(b, storage.Duplicate{Fingerprint: e.token.Fingerprint, Expression: e.token.Expression, Now: now})
	w.same("duplicate", dup, (*storage.Token)(nil))
	w.same("records", w.recordsByID(b, e.record.Kind, []storage.ID{e.record.ID}), []storage.Record(nil))
	w.same("leased jobs", w.lease(b, w.id(), 10), []storage.Job(nil))
	if _, err := w.store.Claim(w.Context(), b, e.claim.Key); !errors.Is(err, storage.ErrNotFound) {
		w.Errorf("claim: got %v, want ErrNotFound", err)
	}
}

func writesAreIsolated(w *dbTest) {
	a, b, owner := w.id(), w.id(), w.id()
	mine, open := w.example("mine"), w.claim()
	w.write(mine.insert(a))
	w.write(take(a, open))
	leased := w.lease(a, owner, 1)
	theirs := w.twin(mine)
	theirs.token.Tenant, theirs.record.Tenant, theirs.job.Tenant = a, a, a // a change has one tenant
	w.unchanged(a, func() {
		for _, c := range []struct {
			kind   storage.ConflictKind
			change *storage.Change
		}{
			{storage.TokenStale, &storage.Change{UpdateTokens: []storage.TokenUpdate{updateOf(mine.token, w.changed(mine.token))}}},
			{storage.TokenStale, &storage.Change{DeleteTokens: []storage.TokenDelete{deleteOf(mine.token)}}},
			{storage.RecordStale, &storage.Change{UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: theirs.record}}}},
			{storage.RecordStale, &storage.Change{DeleteRecords: []storage.RecordDelete{{Kind: mine.record.Kind, ID: mine.record.ID, Rev: 1}}}},
			{storage.JobStale, &storage.Change{UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: mine.job}}}},
			{storage.JobStale, &storage.Change{DeleteJobs: []storage.JobDelete{{Owner: owner, ID: mine.job.ID}}}},
			{storage.ClaimLost, claimChange(b, storage.ClaimFinish, open)},
			{storage.ClaimLost, claimChange(b, storage.ClaimDrop, open)},
		} {
			c.change.Tenant, c.change.Now = b, now
			w.refused(c.change, c.kind, 0)
		}
		w.write(&storage.Change{Tenant: b, Now: now, Reseal: []storage.Sealed{
			{Kind: storage.SealedClaims, Key: mine.claim.Key, KeyVersion: 9, Body: []byte("theirs")},
			{Kind: storage.SealedJobs, Key: jobKey(mine.job.ID), KeyVersion: 9, Body: []byte("theirs")},
		}})
		w.write(theirs.insert(b))
		w.hasTokens(b, theirs.token)
		w.same("tenant of the record", w.lookup(theirs.record.Key).Tenant, b)
		w.purge(b, 100)
	})
	w.same("jobs", w.jobs(storage.JobFilter{Tenant: a, Limit: 10}), leased)
	w.same("claim in progress", w.claimed(a, open.Key), &open)
	w.same("lookup", w.lookup(mine.record.Key).Tenant, a)
}
