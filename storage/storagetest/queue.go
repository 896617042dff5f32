package storagetest

import (
	"errors"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

func (w *dbTest) insertJobs(tenant storage.ID, jobs ...storage.Job) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, InsertJobs: jobs})
}

func (w *dbTest) jobs(f storage.JobFilter) []storage.Job {
	w.Helper()
	return must(w.store.Jobs(w.Context(), f))(w, "jobs")
}

func jobContention(w *dbTest) {
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
	w.ok("lease jobs", errors.Join(errs...))
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
