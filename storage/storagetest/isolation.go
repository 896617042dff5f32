package storagetest

import (
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
)

func isolationRules() []rule {
	return []rule{
		{"no row of one tenant is in conflict with another tenant's call", sameKeysInTwoTenants},
		{"no row of one tenant is visible through another tenant's reads", readsAreIsolated},
		{"no row of one tenant is changed by another tenant's write", writesAreIsolated},
		{"no claim of one tenant is changed by another tenant's write", claimsAreIsolated},
		{"no job of one tenant is leased to, or changed by, another tenant's call", jobsAreIsolated},
		{"a Write takes the tenant from its Change", tenantComesFromTheChange},
		{"equal hashes and fingerprints of two tenants stay apart", hashesAreIsolated},
	}
}

// twin returns the same rows for another tenant. Only keys that are unique
// across tenants differ.
func (w *world) twin(e example) example {
	e.record.Key, e.record.AltKey = w.key(), w.key()
	return e
}

func sameKeysInTwoTenants(w *world) {
	a, b := w.id(), w.id()
	mine := w.example("same")
	theirs := w.twin(mine)
	w.write(mine.insert(a))
	w.write(theirs.insert(b))
	w.hasTokens(a, mine.token)
	w.hasTokens(b, theirs.token)
	for _, tenant := range []storage.ID{a, b} {
		s := w.state(tenant)
		if s.rows() != 5 || len(s.Sets) != 1 || !s.Due {
			w.Errorf("the tenant has %d rows, %d sets, due %t; want 5, 1 and true", s.rows(), len(s.Sets), s.Due)
		}
	}
}

func readsAreIsolated(w *world) {
	a, b := w.id(), w.id()
	e := w.example("mine")
	w.write(e.insert(a))
	w.same("state of the other tenant", w.state(b), state{BySet: map[storage.Hash]int{
		sets[0].Set: 0, sets[1].Set: 0, sets[2].Set: 0,
	}})
	w.same("tokens", w.tokens(b, "mine"), []storage.Token(nil))
	dup, err := w.store.Duplicate(w.Context(), b, storage.Duplicate{
		Fingerprint: e.token.Fingerprint, Expression: e.token.Expression, Now: now,
	})
	if dup != nil || err != nil {
		w.Errorf("duplicate: got %v, %v, want nothing", dup, err)
	}
	got, err := w.store.Records(w.Context(), b, e.record.Kind, []storage.ID{e.record.ID})
	if len(got) != 0 || err != nil {
		w.Errorf("records: got %d, %v, want none", len(got), err)
	}
	if _, err := w.store.Claim(w.Context(), b, e.claim.Key); !errors.Is(err, storage.ErrNotFound) {
		w.Errorf("claim: got %v, want ErrNotFound", err)
	}
}

func writesAreIsolated(w *world) {
	a, b := w.id(), w.id()
	mine := w.example("mine")
	w.write(mine.insert(a))
	w.unchanged(a, func() {
		changed := mine.token
		changed.Body = []byte("theirs")
		w.refused(&storage.Change{
			Tenant: b, Now: now, UpdateTokens: []storage.TokenUpdate{updateOf(mine.token, changed)},
		}, storage.TokenStale, 0)
		w.refused(&storage.Change{
			Tenant: b, Now: now, DeleteTokens: []storage.TokenDelete{deleteOf(mine.token)},
		}, storage.TokenStale, 0)
		w.refused(&storage.Change{
			Tenant: b, Now: now, UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: w.twin(mine).record}},
		}, storage.RecordStale, 0)
		w.refused(&storage.Change{
			Tenant: b, Now: now,
			DeleteRecords: []storage.RecordDelete{{Kind: mine.record.Kind, ID: mine.record.ID, Rev: 1}},
		}, storage.RecordStale, 0)
		if more, err := w.store.Purge(w.Context(), b, 100); more || err != nil {
			w.Errorf("purge of an empty tenant: got %t, %v", more, err)
		}
	})
	w.same("lookup", w.lookup(mine.record.Key).Tenant, a)
}

func claimsAreIsolated(w *world) {
	a, b := w.id(), w.id()
	open, done := w.claim(), w.answered()
	w.write(take(a, open))
	w.write(take(a, done))
	w.refused(claimChange(b, storage.ClaimFinish, open), storage.ClaimLost, 0)
	w.refused(claimChange(b, storage.ClaimDrop, open), storage.ClaimLost, 0)
	theirs := open
	theirs.Owner = w.id()
	w.write(take(b, theirs))
	w.write(&storage.Change{Tenant: b, Now: now, Reseal: []storage.Sealed{
		{Kind: storage.SealedClaims, Key: done.Key, KeyVersion: 9, Body: []byte("theirs")},
	}})
	w.same("claim in progress", w.claimed(a, open.Key), &open)
	w.same("answered claim", w.claimed(a, done.Key), &done)
	w.same("the other tenant's claim", w.claimed(b, open.Key), &theirs)
}

func jobsAreIsolated(w *world) {
	a, b := w.id(), w.id()
	job, owner := w.job(earlier), w.id()
	w.write(&storage.Change{Tenant: a, InsertJobs: []storage.Job{job}})
	w.same("jobs leased to the other tenant", w.lease(b, owner, 10), []storage.Job(nil))
	leased := w.lease(a, owner, 10)
	job.Tenant, job.Owner, job.LeaseUntil = a, owner, leaseEnd
	w.same("jobs leased to the tenant", leased, []storage.Job{job})
	w.unchanged(a, func() {
		w.refused(&storage.Change{Tenant: b, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: job}}}, storage.JobStale, 0)
		w.refused(&storage.Change{Tenant: b, DeleteJobs: []storage.JobDelete{{Owner: owner, ID: job.ID}}}, storage.JobStale, 0)
		w.write(&storage.Change{Tenant: b, Reseal: []storage.Sealed{
			{Kind: storage.SealedJobs, Key: jobKey(job.ID), KeyVersion: 9, Body: []byte("theirs")},
		}})
	})
}

func tenantComesFromTheChange(w *world) {
	a, b := w.id(), w.id()
	e := w.example("mine")
	e.token.Tenant, e.record.Tenant, e.job.Tenant = b, b, b
	w.write(e.insert(a))
	w.hasTokens(a, e.token)
	w.hasTokens(b)
	w.same("tenant of the record", w.lookup(e.record.Key).Tenant, a)
	if jobs := w.lease(a, w.id(), 10); len(jobs) != 1 || jobs[0].Tenant != a {
		w.Errorf("got jobs %v, want one of the tenant", jobs)
	}
}

func hashesAreIsolated(w *world) {
	a, b := w.id(), w.id()
	mine, theirs := w.token("mine"), w.token("theirs")
	theirs.Hashes, theirs.Fingerprint, theirs.Expression = mine.Hashes, mine.Fingerprint, mine.Expression
	theirs.Set, theirs.Containers = mine.Set, mine.Containers
	w.write(insert(b, theirs))
	w.write(insert(a, mine))
	for _, where := range []storage.Cond{
		storage.HashIs(mine.Hashes[0]), storage.FingerprintIs(mine.Fingerprint), storage.SetIn{mine.Set},
		storage.Not{Cond: storage.HashIs(w.hash())}, storage.IDIn{"mine", "theirs"}, storage.TypeIn{"token"},
	} {
		w.same("tokens found", w.found(a, where), []string{"mine"})
		w.same("tokens found by the other", w.found(b, where), []string{"theirs"})
	}
	dup, err := w.store.Duplicate(w.Context(), a, storage.Duplicate{
		Fingerprint: mine.Fingerprint, Expression: mine.Expression, Now: now,
	})
	if err != nil || dup == nil || dup.ID != "mine" {
		w.Errorf("duplicate: got %v, %v, want the tenant's own", dup, err)
	}
}
