package storagetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func queueRules() []rule {
	return []rule{
		{"LeaseJobs gives up to limit jobs, oldest RunAt first", jobOrder},
		{"no two callers get the same job", jobContention},
		{"DueTenants returns the tenants, in order, that have a job to lease", dueTenantsOrder},
	}
}

func (w *world) insertJobs(tenant storage.ID, jobs ...storage.Job) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertJobs: jobs})
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

func (w *world) jobs(f storage.JobFilter) []storage.Job {
	w.Helper()
	return must(w.store.Jobs(w.Context(), f))(w, "jobs")
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
	w.same("tenants without jobs", w.dueAt(now, storage.ID{}, 10), []storage.ID(nil))
	tenants := make([]storage.ID, 5)
	for i := range tenants {
		tenants[i] = w.id()
	}
	idle := w.id()
	w.insertJobs(idle, w.job(later))
	for _, i := range []int{3, 0, 4, 2, 1} {
		w.insertJobs(tenants[i], w.job(earlier), w.job(now))
	}
	w.same("all", w.dueAt(now, storage.ID{}, 10), tenants)
	w.same("first page", w.dueAt(now, storage.ID{}, 2), tenants[:2])
	w.same("second page", w.dueAt(now, tenants[1], 2), tenants[2:4])
	w.same("third page", w.dueAt(now, tenants[3], 2), tenants[4:])
	w.same("beyond the last", w.dueAt(now, tenants[4], 2), []storage.ID(nil))
	w.lease(tenants[2], w.id(), 1)
	w.same("with one job leased", w.dueAt(now, storage.ID{}, 10), tenants)
	w.lease(tenants[2], w.id(), 1)
	w.same("with both leased", w.dueAt(now, tenants[1], 10), tenants[3:])
}

func (w *world) reseal(tenant storage.ID, rows ...storage.Sealed) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Reseal: rows})
}
