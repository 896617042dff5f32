package storagetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func jobRules() []rule {
	return []rule{
		{"a job is leased as it was written, with its owner", jobComesBack},
		{"LeaseJobs gives up to limit jobs, oldest RunAt first", jobOrder},
		{"a job is due when its RunAt has come", jobRunAt},
		{"a dead job is never due", jobDead},
		{"a job is not due while a lease on it is still running", jobLeased},
		{"a job can be written with a lease", jobBornLeased},
		{"JobUpdate replaces what it names and gives up the lease", jobUpdate},
		{"JobUpdate with Until goes on holding the lease", jobRenewed},
		{"JobUpdate and JobDelete are for a job that Owner holds", jobFenced},
		{"JobDelete deletes the job", jobDelete},
		{"JobDelete without an owner deletes a job that nobody has leased", jobDeleteFree},
		{"Jobs returns jobs as they are, newest first, within the filter", jobsListed},
		{"a dead job that was given up with a lease is its holder's", jobRevived},
		{"no two callers get the same job", jobContention},
		{"DueTenants returns the tenants, in order, that have a job to lease", dueTenantsOrder},
		{"DueTenants and LeaseJobs agree on what is due", dueTenantsAgree},
	}
}

func (w *world) insertJobs(tenant storage.ID, jobs ...storage.Job) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertJobs: jobs})
}

func jobComesBack(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	job.Tenant, job.Owner, job.LeaseUntil = tenant, owner, leaseEnd
	w.same("jobs", w.lease(tenant, owner, 10), []storage.Job{job})
}

func jobOrder(w *world) {
	tenant, owner := w.id(), w.id()
	jobs := make([]storage.Job, 6)
	for i := range jobs {
		jobs[i] = w.job(earlier.Add(time.Duration(i*7%6) * time.Microsecond))
	}
	slices.Reverse(jobs)
	w.insertJobs(tenant, jobs...)
	slices.SortFunc(jobs, func(a, b storage.Job) int { return a.RunAt.Compare(b.RunAt) })
	want := make([]storage.ID, 0, 6)
	for _, job := range jobs {
		want = append(want, job.ID)
	}
	w.same("first jobs", jobIDs(w.lease(tenant, owner, 4)), want[:4])
	w.same("jobs for no limit", jobIDs(w.lease(tenant, owner, 0)), []storage.ID(nil))
	w.same("rest of the jobs", jobIDs(w.lease(tenant, owner, 4)), want[4:])
	w.same("nothing", jobIDs(w.lease(tenant, owner, 4)), []storage.ID(nil))
}

func jobIDs(jobs []storage.Job) []storage.ID {
	ids := make([]storage.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

// isDue reports whether a tenant has jobs to lease, without leasing any.
func (w *world) isDue(tenant storage.ID) bool {
	w.Helper()
	return slices.Contains(w.dueTenants(storage.ID{}, 1000), tenant)
}

func jobRunAt(w *world) {
	for _, c := range []struct {
		runAt time.Time
		due   bool
	}{
		{now.Add(time.Microsecond), false},
		{now, true},
		{earlier, true},
		{later, false},
	} {
		tenant := w.id()
		w.insertJobs(tenant, w.job(c.runAt))
		w.same("due", w.isDue(tenant), c.due)
		w.same("leased", len(w.lease(tenant, w.id(), 10)) == 1, c.due)
	}
}

func jobDead(w *world) {
	tenant, job := w.id(), w.job(earlier)
	job.Dead = true
	w.insertJobs(tenant, job)
	w.same("due", w.isDue(tenant), false)
	w.same("leased", w.lease(tenant, w.id(), 10), []storage.Job(nil))
	w.same("jobs kept", len(w.sealed(tenant, storage.SealedJobs, 99, 10)), 1)
}

func jobLeased(w *world) {
	tenant, first, second := w.id(), w.id(), w.id()
	job := w.job(earlier)
	w.insertJobs(tenant, job)
	w.lease(tenant, first, 10)
	w.same("due", w.isDue(tenant), false)
	w.same("jobs for the second", w.lease(tenant, second, 10), []storage.Job(nil))
	w.same("jobs for the first again", w.lease(tenant, first, 10), []storage.Job(nil))

	l := storage.Lease{Tenant: tenant, Owner: second, Now: leaseEnd.Add(-time.Microsecond), Until: later, Limit: 10}
	jobs, err := w.store.LeaseJobs(w.Context(), l)
	if err != nil || len(jobs) != 0 {
		w.Errorf("a moment before the lease ends: got %d jobs, %v, want none", len(jobs), err)
	}
	l.Now = leaseEnd
	jobs, err = w.store.LeaseJobs(w.Context(), l)
	if err != nil || len(jobs) != 1 || jobs[0].Owner != second || !jobs[0].LeaseUntil.Equal(later) {
		w.Errorf("when the lease ends: got %v, %v, want the job for its new owner", jobs, err)
	}
	w.refused(&storage.Change{
		Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: first, ID: job.ID}},
	}, storage.JobStale, 0)
}

func (w *world) jobs(f storage.JobFilter) []storage.Job {
	w.Helper()
	jobs, err := w.store.Jobs(w.Context(), f)
	if err != nil {
		w.Fatalf("jobs: %v", err)
	}
	return jobs
}

func jobsListed(w *world) {
	tenant, other, owner := w.id(), w.id(), w.id()
	var living, dead []storage.Job
	for i := range 6 {
		job := w.job(earlier)
		job.Dead = i%2 == 1
		w.insertJobs(tenant, job)
		job.Tenant = tenant
		if job.Dead {
			dead = append([]storage.Job{job}, dead...)
		} else {
			living = append([]storage.Job{job}, living...)
		}
	}
	w.insertJobs(other, w.job(earlier))
	w.same("living", w.jobs(storage.JobFilter{Tenant: tenant, Limit: 10}), living)
	w.same("dead", w.jobs(storage.JobFilter{Tenant: tenant, Dead: true, Limit: 10}), dead)
	w.same("limit", w.jobs(storage.JobFilter{Tenant: tenant, Limit: 2}), living[:2])
	w.same("before", w.jobs(storage.JobFilter{Tenant: tenant, Before: living[0].ID, Limit: 10}), living[1:])
	w.same("one", w.jobs(storage.JobFilter{Tenant: tenant, ID: living[1].ID, Limit: 10}), living[1:2])
	w.same("one that is not dead", w.jobs(storage.JobFilter{Tenant: tenant, ID: living[1].ID, Dead: true, Limit: 10}), []storage.Job(nil))
	w.same("another tenant's", w.jobs(storage.JobFilter{Tenant: other, ID: living[1].ID, Limit: 10}), []storage.Job(nil))
	w.same("none", w.jobs(storage.JobFilter{Tenant: tenant}), []storage.Job(nil))
	leased := w.lease(tenant, owner, 1)
	w.same("leased", w.jobs(storage.JobFilter{Tenant: tenant, ID: leased[0].ID, Limit: 1}), leased)
}

func jobRevived(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	w.lease(tenant, owner, 1)
	gone := job
	gone.Dead, gone.RunAt = true, later
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: gone, Until: later}}})
	gone.Tenant, gone.Owner, gone.LeaseUntil = tenant, owner, later
	w.same("dead", w.jobs(storage.JobFilter{Tenant: tenant, Dead: true, Limit: 10}), []storage.Job{gone})
	w.same("leased", w.lease(tenant, w.id(), 1), []storage.Job(nil))
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: w.id(), ID: job.ID}}}, storage.JobStale, 0)
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: job}}})
	w.same("leased again", len(w.lease(tenant, w.id(), 1)), 1)
	w.refused(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: job}}}, storage.JobStale, 0)
}

func jobBornLeased(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	job.Owner, job.LeaseUntil = owner, leaseEnd
	w.insertJobs(tenant, job)
	w.same("due", w.isDue(tenant), false)
	w.write(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: owner, ID: job.ID}}})
}

func jobDeleteFree(w *world) {
	tenant, owner := w.id(), w.id()
	free, held := w.job(later), w.job(earlier)
	w.insertJobs(tenant, free, held)
	w.lease(tenant, owner, 1)
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{ID: held.ID}}}, storage.JobStale, 0)
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: owner, ID: free.ID}}}, storage.JobStale, 0)
	w.write(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{ID: free.ID}}})
	w.same("jobs", len(w.jobs(storage.JobFilter{Tenant: tenant, Limit: 10})), 1)
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{ID: free.ID}}}, storage.JobStale, 0)
}

func jobUpdate(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	w.lease(tenant, owner, 10)
	next := w.job(now)
	next.ID, next.Kind = job.ID, "callback"
	next.Owner, next.LeaseUntil = owner, later
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: owner, Job: next}}})

	second := w.id()
	got := w.lease(tenant, second, 10)
	next.Tenant, next.Kind, next.Owner, next.LeaseUntil = tenant, job.Kind, second, leaseEnd
	w.same("job", got, []storage.Job{next})

	next.Dead = true
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{{Owner: second, Job: next}}})
	w.same("jobs after it died", w.lease(tenant, owner, 10), []storage.Job(nil))
}

func jobRenewed(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	w.lease(tenant, owner, 10)
	renew := storage.JobUpdate{Owner: owner, Job: job, Until: leaseEnd.Add(time.Hour)}
	w.write(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{renew}})
	taken, err := w.store.LeaseJobs(w.Context(), storage.Lease{
		Tenant: tenant, Owner: w.id(), Now: leaseEnd.Add(time.Minute), Until: later.Add(time.Hour), Limit: 10,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.same("jobs after the first lease has run out", taken, []storage.Job(nil))
	w.write(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: owner, ID: job.ID}}})
}

func jobFenced(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	update := storage.JobUpdate{Owner: owner, Job: job}
	remove := storage.JobDelete{Owner: owner, ID: job.ID}
	w.refused(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{update}}, storage.JobStale, 0)
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{remove}}, storage.JobStale, 0)
	w.lease(tenant, owner, 10)
	// The lease has expired, but no other worker has taken the job.
	w.write(&storage.Change{Tenant: tenant, Now: later, UpdateJobs: []storage.JobUpdate{update}})
	w.refused(&storage.Change{Tenant: tenant, UpdateJobs: []storage.JobUpdate{update}}, storage.JobStale, 0)
	w.refused(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{remove}}, storage.JobStale, 0)
	w.same("due", w.isDue(tenant), true)
}

func jobDelete(w *world) {
	tenant, owner := w.id(), w.id()
	first, second := w.job(earlier), w.job(now)
	w.insertJobs(tenant, first, second)
	w.lease(tenant, owner, 1)
	w.write(&storage.Change{Tenant: tenant, DeleteJobs: []storage.JobDelete{{Owner: owner, ID: first.ID}}})
	rows := w.sealed(tenant, storage.SealedJobs, 99, 10)
	if len(rows) != 1 || rows[0].Key != jobKey(second.ID) {
		w.Errorf("got %d jobs, want the job that was not deleted", len(rows))
	}
}

func jobContention(w *world) {
	const jobs, workers = 60, 6
	tenant, nodes := w.id(), w.nodes()
	for range jobs / 20 {
		var batch []storage.Job
		for range 20 {
			batch = append(batch, w.job(earlier))
		}
		w.insertJobs(tenant, batch...)
	}
	var mu sync.Mutex
	taken := map[storage.ID]int{}
	errs := try(workers, func(i int) error {
		l := storage.Lease{Tenant: tenant, Owner: w.id(), Now: now, Until: leaseEnd, Limit: 7}
		for range jobs {
			got, err := nodes[i%len(nodes)].LeaseJobs(w.Context(), l)
			if err != nil || len(got) == 0 {
				return err
			}
			mu.Lock()
			for _, job := range got {
				taken[job.ID]++
			}
			mu.Unlock()
		}
		return errors.New("there are always more jobs")
	})
	for _, err := range errs {
		if err != nil {
			w.Errorf("lease jobs: %v", err)
		}
	}
	for id, n := range taken {
		if n != 1 {
			w.Errorf("job %x was leased %d times", id, n)
		}
	}
	// A worker may get nothing while another has locked the last rows.
	for _, job := range w.lease(tenant, w.id(), jobs) {
		taken[job.ID]++
	}
	w.same("jobs leased", len(taken), jobs)
}

func dueTenantsOrder(w *world) {
	w.same("tenants without jobs", w.dueTenants(storage.ID{}, 10), []storage.ID(nil))
	tenants := make([]storage.ID, 5)
	for i := range tenants {
		tenants[i] = w.id()
	}
	idle := w.id()
	w.insertJobs(idle, w.job(later))
	for _, i := range []int{3, 0, 4, 2, 1} {
		w.insertJobs(tenants[i], w.job(earlier), w.job(now))
	}
	w.same("all", w.dueTenants(storage.ID{}, 10), tenants)
	w.same("first page", w.dueTenants(storage.ID{}, 2), tenants[:2])
	w.same("second page", w.dueTenants(tenants[1], 2), tenants[2:4])
	w.same("third page", w.dueTenants(tenants[3], 2), tenants[4:])
	w.same("beyond the last", w.dueTenants(tenants[4], 2), []storage.ID(nil))
	w.lease(tenants[2], w.id(), 1)
	w.same("with one job leased", w.dueTenants(storage.ID{}, 10), tenants)
	w.lease(tenants[2], w.id(), 1)
	w.same("with both leased", w.dueTenants(tenants[1], 10), tenants[3:])
}

func dueTenantsAgree(w *world) {
	var tenants []storage.ID
	for _, dead := range []bool{false, true} {
		for _, runAt := range []time.Time{earlier, later} {
			for _, until := range []time.Time{{}, earlier, now, leaseEnd} {
				job := w.job(runAt)
				job.Dead, job.LeaseUntil = dead, until
				if !until.IsZero() {
					job.Owner = w.id()
				}
				tenants = append(tenants, w.id())
				w.insertJobs(tenants[len(tenants)-1], job)
			}
		}
	}
	due := w.dueTenants(storage.ID{}, 100)
	w.same("number of tenants", len(due), 3)
	for _, tenant := range tenants {
		w.same("leased", len(w.lease(tenant, w.id(), 10)) == 1, slices.Contains(due, tenant))
	}
}
