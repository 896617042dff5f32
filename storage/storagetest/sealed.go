package storagetest

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

func sealedRules() []rule {
	return []rule{
		{"SealedRows returns the claims that are sealed under an older key", sealedClaims},
		{"SealedRows returns the jobs that are sealed under an older key", sealedJobs},
		{"SealedRows returns up to limit rows", sealedLimit},
		{"SealedRows goes on after a key", sealedAfter},
		{"a claim without an answer is not sealed", openClaimIsNotSealed},
		{"a job whose payload is empty is not sealed", emptyJobIsNotSealed},
		{"Reseal replaces the sealed part and nothing else", resealReplaces},
		{"Reseal leaves rows that are sealed under the same or a newer key", resealOnlyOlder},
		{"Reseal with Replace replaces what is sealed under the same key, not under a newer one", resealSame},
		{"Reseal passes over rows that have gone", resealGone},
		{"Reseal finds everything in rounds", resealRounds},
	}
}

func (w *world) reseal(tenant storage.ID, rows ...storage.Sealed) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Reseal: rows})
}

func sealedClaims(w *world) {
	tenant := w.id()
	var claims []storage.Claim
	for version := 1; version <= 3; version++ {
		c := w.answered()
		c.KeyVersion = version
		claims = append(claims, c)
		w.write(take(tenant, c))
	}
	w.insertJobs(tenant, w.job(now))
	w.same("under 1", w.sealed(tenant, storage.SealedClaims, 1, 10), []storage.Sealed(nil))
	w.same("under 2", w.sealed(tenant, storage.SealedClaims, 2, 10), []storage.Sealed{
		{Kind: storage.SealedClaims, Key: claims[0].Key, KeyVersion: 1, Body: claims[0].Answer},
	})
	w.same("under 9", len(w.sealed(tenant, storage.SealedClaims, 9, 10)), 3)
}

func sealedJobs(w *world) {
	tenant := w.id()
	var jobs []storage.Job
	for version := 1; version <= 3; version++ {
		job := w.job(now)
		job.KeyVersion, job.Dead = version, version == 1
		jobs = append(jobs, job)
	}
	w.insertJobs(tenant, jobs...)
	w.write(take(tenant, w.answered()))
	w.same("under 1", w.sealed(tenant, storage.SealedJobs, 1, 10), []storage.Sealed(nil))
	w.same("under 2", w.sealed(tenant, storage.SealedJobs, 2, 10), []storage.Sealed{
		{Kind: storage.SealedJobs, Key: jobKey(jobs[0].ID), KeyVersion: 1, Body: jobs[0].Payload},
	})
	w.same("under 9", len(w.sealed(tenant, storage.SealedJobs, 9, 10)), 3)
}

func sealedLimit(w *world) {
	tenant := w.id()
	for range 5 {
		w.write(take(tenant, w.answered()))
		w.insertJobs(tenant, w.job(now))
	}
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		w.same("rows", len(w.sealed(tenant, kind, 99, 3)), 3)
		w.same("all rows", len(w.sealed(tenant, kind, 99, 5)), 5)
	}
}

func sealedAfter(w *world) {
	tenant := w.id()
	for range 5 {
		w.write(take(tenant, w.answered()))
		w.insertJobs(tenant, w.job(now))
	}
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		f := storage.SealedFilter{Tenant: tenant, Kind: kind, Limit: 2}
		var all []storage.Sealed
		for {
			rows, err := w.store.SealedRows(w.Context(), f)
			if err != nil {
				w.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			all = append(all, rows...)
			f.After = rows[len(rows)-1].Key
		}
		w.same("rows", all, w.sealed(tenant, kind, 99, 99))
		w.same("number", len(all), 5)
	}
}

func openClaimIsNotSealed(w *world) {
	tenant, c := w.id(), w.claim()
	w.write(take(tenant, c))
	w.same("rows", w.sealed(tenant, storage.SealedClaims, 9, 10), []storage.Sealed(nil))
	w.reseal(tenant, storage.Sealed{Kind: storage.SealedClaims, Key: c.Key, KeyVersion: 9, Body: []byte("old answer")})
	got := w.claimed(tenant, c.Key)
	if got.Answer != nil {
		w.Error("a claim in progress was given an answer")
	}
	w.write(finishOf(tenant, c))
}

func emptyJobIsNotSealed(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	w.same("rows with a payload", len(w.sealed(tenant, storage.SealedJobs, 99, 10)), 1)
	w.lease(tenant, owner, 1)
	job.Payload = nil
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: job}}})
	w.same("rows without", w.sealed(tenant, storage.SealedJobs, 99, 10), []storage.Sealed(nil))
	w.same("job", len(w.lease(tenant, owner, 1)), 1)
}

func resealReplaces(w *world) {
	tenant, c, job := w.id(), w.answered(), w.job(earlier)
	other := w.answered()
	w.write(take(tenant, c))
	w.write(take(tenant, other))
	w.insertJobs(tenant, job)
	owner := w.id()
	w.lease(tenant, owner, 1)
	w.reseal(tenant,
		storage.Sealed{Kind: storage.SealedClaims, Key: c.Key, KeyVersion: 8, Body: []byte("again")},
		storage.Sealed{Kind: storage.SealedJobs, Key: jobKey(job.ID), KeyVersion: 9, Body: []byte("once more")})
	c.KeyVersion, c.Answer = 8, []byte("again")
	w.same("claim", w.claimed(tenant, c.Key), &c)
	w.same("other claim", w.claimed(tenant, other.Key), &other)
	w.same("jobs that are due", w.isDue(tenant), false)
	jobs, err := w.store.LeaseJobs(w.Context(), storage.Lease{
		Tenant: tenant, Owner: owner, Now: leaseEnd, Until: later, Limit: 1,
	})
	if err != nil {
		w.Fatal(err)
	}
	job.Tenant, job.Owner, job.LeaseUntil = tenant, owner, later
	job.KeyVersion, job.Payload = 9, []byte("once more")
	w.same("job", jobs, []storage.Job{job})
}

func resealOnlyOlder(w *world) {
	tenant := w.id()
	c, job := w.answered(), w.job(now)
	c.KeyVersion, job.KeyVersion = 5, 5
	w.write(take(tenant, c))
	w.insertJobs(tenant, job)
	w.unchanged(tenant, func() {
		for _, version := range []int{4, 5} {
			w.reseal(tenant,
				storage.Sealed{Kind: storage.SealedClaims, Key: c.Key, KeyVersion: version, Body: []byte("x")},
				storage.Sealed{Kind: storage.SealedJobs, Key: jobKey(job.ID), KeyVersion: version, Body: []byte("x")})
		}
	})
}

func resealSame(w *world) {
	tenant := w.id()
	c, job := w.answered(), w.job(now)
	c.KeyVersion, job.KeyVersion = 5, 5
	w.write(take(tenant, c))
	w.insertJobs(tenant, job)
	replace := func(version int) {
		w.reseal(tenant,
			storage.Sealed{Kind: storage.SealedClaims, Key: c.Key, KeyVersion: version, Body: []byte("x"), Replace: true},
			storage.Sealed{Kind: storage.SealedJobs, Key: jobKey(job.ID), KeyVersion: version, Body: []byte("x"), Replace: true})
	}
	w.unchanged(tenant, func() { replace(4) })
	replace(5)
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		rows := w.sealed(tenant, kind, 99, 10)
		if len(rows) != 1 || string(rows[0].Body) != "x" || rows[0].KeyVersion != 5 {
			w.Errorf("kind %d: %v", kind, rows)
		}
	}
}

func resealGone(w *world) {
	tenant, c := w.id(), w.answered()
	w.write(take(tenant, c))
	w.reseal(tenant,
		storage.Sealed{Kind: storage.SealedClaims, Key: w.key(), KeyVersion: 9, Body: []byte("x")},
		storage.Sealed{Kind: storage.SealedJobs, Key: jobKey(w.id()), KeyVersion: 9, Body: []byte("x")},
		storage.Sealed{Kind: storage.SealedClaims, Key: c.Key, KeyVersion: 9, Body: []byte("there")})
	w.same("answer", w.claimed(tenant, c.Key).Answer, []byte("there"))
	w.same("claims", len(w.sealed(tenant, storage.SealedClaims, 99, 10)), 1)
	w.same("jobs", len(w.sealed(tenant, storage.SealedJobs, 99, 10)), 0)
}

func resealRounds(w *world) {
	tenant := w.id()
	for range 7 {
		w.write(take(tenant, w.answered()))
		w.insertJobs(tenant, w.job(now))
	}
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		rounds := 0
		for rows := w.sealed(tenant, kind, 10, 3); len(rows) > 0; rows = w.sealed(tenant, kind, 10, 3) {
			if rounds++; rounds > 3 {
				w.Fatal("rows that were sealed again are returned again")
			}
			for i := range rows {
				rows[i].KeyVersion, rows[i].Body = 10, slices.Concat([]byte("new "), rows[i].Body)
			}
			w.reseal(tenant, rows...)
		}
		w.same("rounds", rounds, 3)
	}
}
