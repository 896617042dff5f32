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
		{"Claim returns ErrNotFound for a key without a claim", claimNotFound},
		{"ClaimTake inserts the claim, with or without its answer", claimTake},
		{"of many takers one wins", claimContention},
		{"of many takers of a dead claim one wins", deadClaimContention},
		{"LeaseJobs gives up to limit jobs, oldest RunAt first", jobOrder},
		{"no two callers get the same job", jobContention},
		{"DueTenants returns the tenants, in order, that have a job to lease", dueTenantsOrder},
		{"Reseal finds everything in rounds", resealRounds},
	}
}

func claimNotFound(w *world) {
	if _, err := w.store.Claim(w.Context(), w.id(), w.key()); !errors.Is(err, storage.ErrNotFound) {
		w.Errorf("got %v, want ErrNotFound", err)
	}
}

func claimTake(w *world) {
	tenant := w.id()
	for _, c := range []storage.Claim{w.claim(), w.answered()} {
		w.write(take(tenant, c))
		got := w.claimed(tenant, c.Key)
		w.same("claim", got, &c)
		if (got.Answer == nil) != (c.Answer == nil) {
			w.Errorf("answer is nil: %t, want %t", got.Answer == nil, c.Answer == nil)
		}
	}
}

// race lets n writers, each with a different token, take one claim. It checks
// that one of them succeeds and that only its token exists.
func (w *world) race(tenant storage.ID, key storage.Key, n int) {
	w.Helper()
	nodes, tokens := w.nodes(), w.tokenSeries("t", n)
	claims := make([]storage.Claim, n)
	for i := range claims {
		claims[i] = w.claim()
		claims[i].Key = key
	}
	errs := try(n, func(i int) error {
		c := take(tenant, claims[i])
		c.InsertTokens = tokens[i : i+1]
		return nodes[i%len(nodes)].Write(w.Context(), c)
	})
	winner := w.oneWinner(errs, storage.ClaimTaken)
	w.same("claim", w.claimed(tenant, key), &claims[winner])
	w.hasTokens(tenant, tokens[winner])
}

// oneWinner returns the writer that had no error. All others must have had a
// conflict of this kind.
func (w *world) oneWinner(errs []error, kind storage.ConflictKind) int {
	w.Helper()
	winner := -1
	for i, err := range errs {
		if err != nil {
			w.isConflict(err, kind, 0)
			continue
		}
		if winner >= 0 {
			w.Fatalf("writers %d and %d both won", winner, i)
		}
		winner = i
	}
	if winner < 0 {
		w.Fatal("no writer won")
	}
	return winner
}

func claimContention(w *world) { w.race(w.id(), w.key(), 24) }

func deadClaimContention(w *world) {
	tenant, dead := w.id(), w.claim()
	dead.LeaseUntil = earlier
	w.write(take(tenant, dead))
	w.race(tenant, dead.Key, 24)
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
	jobs, err := w.store.Jobs(w.Context(), f)
	if err != nil {
		w.Fatalf("jobs: %v", err)
	}
	return jobs
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

func (w *world) reseal(tenant storage.ID, rows ...storage.Sealed) {
	w.Helper()
	w.write(&storage.Change{Tenant: tenant, Now: now, Reseal: rows})
}

func resealRounds(w *world) {
	tenant := w.id()
	for range 7 {
		w.write(take(tenant, w.answered()))
		w.insertJobs(tenant, w.job(now))
	}
	for _, kind := range []storage.SealedKind{storage.SealedClaims, storage.SealedJobs} {
		rounds, f := 0, storage.SealedFilter{Tenant: tenant, Kind: kind, Limit: 3}
		for rows := w.sealedRows(f); len(rows) > 0; rows = w.sealedRows(f) {
			if rounds++; rounds > 3 {
				w.Fatal("rows that were sealed again are returned again")
			}
			for i := range rows {
				rows[i].KeyVersion, rows[i].Body = 10, slices.Concat([]byte("new "), rows[i].Body)
			}
			w.reseal(tenant, rows...)
			f.After = rows[len(rows)-1].Key
		}
		w.same("rounds", rounds, 3)
		for _, row := range w.sealed(tenant, kind, 10) {
			w.same("key", row.KeyVersion, 10)
		}
	}
}
