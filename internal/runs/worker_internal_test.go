package runs

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// newWorker returns a worker on a new database.
func newWorker(t *testing.T, carryOut func(context.Context, *storage.Job) error) (*Worker, storage.Storage, *bytes.Buffer) {
	t.Helper()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	t.Cleanup(func() { _ = store.Close() })
	var lines bytes.Buffer
	return NewWorker(WorkerConfig{
		Queue: store, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		CarryOut: carryOut, Extend: func(context.Context, *storage.Job) error { return nil },
		Paused: func(storage.ID) bool { return false },
	}), store, &lines
}

// add stores due jobs of a tenant.
func add(t *testing.T, store storage.Storage, tenant storage.ID, n int) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	ch := &storage.Change{Tenant: tenant, Now: now}
	for range n {
		ch.InsertJobs = append(ch.InsertJobs, storage.Job{Tenant: tenant, ID: storage.ID(uuid.New()), Kind: "test", RunAt: now, Payload: []byte("x")})
	}
	must.Do(t, store.Write(t.Context(), ch))
}

// A job that panics ends alone, and no log line contains the value of the
// panic.
func TestJobPanicsAlone(t *testing.T) {
	t.Parallel()
	w, _, lines := newWorker(t, func(context.Context, *storage.Job) error { panic("4242424242424242") })
	w.run(t.Context(), &storage.Job{})
	if got := lines.String(); !strings.Contains(got, "panic with a value of type string") || strings.Contains(got, "4242424242424242") {
		t.Errorf("%s", got)
	}
}

// A node that leases a job again after its own lease ended is another owner. The
// earlier run of the job then changes nothing, as if it were on another node.
func TestEachLeaseHasItsOwner(t *testing.T) {
	t.Parallel()
	var held []storage.Job
	w, store, _ := newWorker(t, func(_ context.Context, job *storage.Job) error {
		held = append(held, *job)
		return nil
	})
	now := time.Now().Add(time.Second)
	w.Now = func() time.Time { return now }
	add(t, store, storage.ID{1}, 1)
	for range 2 {
		_, err := w.dispatch(t.Context())
		must.Do(t, err)
		w.jobs.Wait()
		now = now.Add(2 * JobLease)
	}
	finish := func(job storage.Job) error {
		return store.Write(t.Context(), &storage.Change{Tenant: job.Tenant, Now: now, DeleteJobs: []storage.JobDelete{{Owner: job.Owner, ID: job.ID}}})
	}
	must.Same(t, "leases", 2, len(held))
	must.Match(t, "the run of the lease that ended", finish(held[0]), storage.ErrStale)
	must.Match(t, "the other run", finish(held[1]), nil)
}

// gate blocks jobs until a test releases them.
type gate struct {
	store storage.Storage
	begun chan storage.ID
	end   map[storage.ID]chan struct{} // by tenant
}

// newGate returns a worker on a new database whose jobs are blocked.
func newGate(t *testing.T) (*gate, *Worker) {
	t.Helper()
	g := &gate{begun: make(chan storage.ID, 100), end: map[storage.ID]chan struct{}{}}
	w, store, _ := newWorker(t, g.carryOut)
	g.store = store
	return g, w
}

// addTenant stores due jobs of a new tenant.
func (g *gate) addTenant(t *testing.T, n int) storage.ID {
	t.Helper()
	tenant := storage.ID(uuid.New())
	g.end[tenant] = make(chan struct{})
	add(t, g.store, tenant, n)
	return tenant
}

// carryOut reports the start of a job, waits, and finishes it.
func (g *gate) carryOut(ctx context.Context, job *storage.Job) error {
	g.begun <- job.Tenant
	<-g.end[job.Tenant]
	return g.store.Write(ctx, &storage.Change{
		Tenant: job.Tenant, Now: time.Now(), DeleteJobs: []storage.JobDelete{{Owner: job.Owner, ID: job.ID}},
	})
}

// began checks whose jobs were started.
func (g *gate) began(t *testing.T, want ...storage.ID) {
	t.Helper()
	var got []storage.ID
	for range want {
		got = append(got, <-g.begun)
	}
	slices.SortFunc(got, compare)
	if !slices.Equal(got, want) || len(g.begun) > 0 {
		t.Errorf("started jobs of %v, and %d more, want %v", got, len(g.begun), want)
	}
}

func compare(a, b storage.ID) int { return bytes.Compare(a[:], b[:]) }

// Tenants with more jobs than there is room for do not block a tenant whose
// id comes later.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	g, w := newGate(t)
	var tenants []storage.ID // in order
	for range maxJobs/maxOfTenant + 1 {
		tenants = append(tenants, g.addTenant(t, 2*maxOfTenant))
	}
	slices.SortFunc(tenants, compare)
	dispatch := func() int {
		t.Helper()
		return must.Get(w.dispatch(t.Context()))(t)
	}
	last := len(tenants) - 1
	var first []storage.ID
	for _, tenant := range tenants[:last] {
		first = append(first, slices.Repeat([]storage.ID{tenant}, maxOfTenant)...)
	}
	dispatch()
	g.began(t, first...)
	if n := dispatch(); n > 0 {
		t.Errorf("%d jobs were started without room for them", n)
	}
	g.end[tenants[0]] <- struct{}{}
	for dispatch() == 0 {
		<-w.woken // when the place of the job is free
	}
	g.began(t, tenants[last])
	for _, end := range g.end {
		close(end)
	}
	w.jobs.Wait()
}

// Stop waits for running jobs, and no more are started.
func TestStopWaitsForJobs(t *testing.T) {
	t.Parallel()
	g, w := newGate(t)
	tenant := g.addTenant(t, 2*maxOfTenant)
	must.Get(w.dispatch(t.Context()))(t)
	g.began(t, slices.Repeat([]storage.ID{tenant}, maxOfTenant)...)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must.Match(t, "with jobs running", w.Stop(gone), context.Canceled)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(t.Context()) }()
	close(g.end[tenant])
	must.Match(t, "after the jobs", <-stopped, nil)
	if n, err := w.dispatch(t.Context()); n != 0 || err != nil {
		t.Errorf("%d jobs were started after Stop: %v", n, err)
	}
}

// Work continues until no job is due.
func TestWorkRunsAllDueJobs(t *testing.T) {
	t.Parallel()
	g, w := newGate(t)
	for range 3 {
		close(g.end[g.addTenant(t, 3*maxOfTenant)])
	}
	must.Do(t, w.Work(t.Context()))
	must.Same(t, "jobs that were run", 9*maxOfTenant, len(g.begun))
}
