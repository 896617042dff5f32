package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// JobLease is how long a job stays with a node that does not renew its lease.
const JobLease = 15 * time.Second

const (
	renewEvery  = 5 * time.Second
	maxJobs     = 16 // on a node at a time
	maxOfTenant = 4  // of one tenant on a node at a time
)

// Queue holds the jobs. A storage implements it.
type Queue interface {
	DueTenants(ctx context.Context, now time.Time, after storage.ID, limit int) ([]storage.ID, error)
	LeaseJobs(ctx context.Context, l storage.Lease) ([]storage.Job, error)
}

// WorkerConfig configures a Worker. All fields are required.
type WorkerConfig struct {
	Queue  Queue
	Now    func() time.Time
	Logger *slog.Logger
	// CarryOut performs the next step of a job. It must write the outcome
	// only while the owner of the job still has the lease, so that a node that
	// was considered dead changes nothing. After an error the job is retried later.
	CarryOut func(ctx context.Context, job *storage.Job) error
	// Paused reports whether no jobs of a tenant may be started now, or of any tenant
	// if the id is zero.
	Paused func(tenant storage.ID) bool
	// Extend extends the lease of a running job. storage.ErrStale means that
	// another node has the job.
	Extend func(ctx context.Context, job *storage.Job) error
}

// Worker runs leased jobs on this node. It looks for due jobs, one tenant after
// the other, leases as many as it has room for, and renews the leases while the
// jobs run. If a node dies, its leases end and another node takes the jobs.
type Worker struct {
	WorkerConfig
	woken chan struct{}

	mu     sync.Mutex
	slots  *share.Slots[storage.ID] // of running jobs, by tenant; closed by Stop
	served storage.ID               // the tenant served last
	jobs   sync.WaitGroup           // as many as slots are taken
}

// NewWorker returns a worker that is not running yet.
func NewWorker(cfg WorkerConfig) *Worker {
	return &Worker{WorkerConfig: cfg, woken: make(chan struct{}, 1), slots: share.New[storage.ID](share.Limits{Total: maxJobs, Each: maxOfTenant})}
}

// Wake makes Loop look for jobs at once.
func (w *Worker) Wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// Work runs the due jobs and returns when none is left.
func (w *Worker) Work(ctx context.Context) error {
	for {
		started, err := w.dispatch(ctx)
		w.jobs.Wait()
		if err != nil || started == 0 {
			return err
		}
	}
}

// Stop takes no more jobs, and waits for running jobs until the context ends.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.slots.Close()
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		w.jobs.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Loop runs jobs until the context ends, and then waits for running jobs. It
// looks for jobs at the given interval and whenever it is woken.
func (w *Worker) Loop(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer w.jobs.Wait()
	for ctx.Err() == nil {
		if _, err := w.dispatch(ctx); err != nil && ctx.Err() == nil {
			w.Logger.ErrorContext(ctx, "looking for jobs failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.woken:
		}
		pace.Woke()
		// One look serves both. Otherwise the number of looks would depend on which
		// channel is received from first.
		select {
		case <-tick.C:
		default:
		}
		select {
		case <-w.woken:
		default:
		}
	}
}

// dispatch leases due jobs, one tenant after the other, and starts them. It
// starts after the tenant served last and goes round once, so that tenants
// with many jobs do not block the others. It returns the number of started
// jobs.
func (w *Worker) dispatch(ctx context.Context) (int, error) {
	const atOnce = 100
	if w.Paused(storage.ID{}) {
		return 0, nil
	}
	started := 0
	w.mu.Lock()
	served := w.served
	w.mu.Unlock()
	after, round := served, false
	for w.slots.Taken() < maxJobs {
		tenants, err := w.Queue.DueTenants(ctx, w.Now(), after, atOnce)
		if err != nil {
			return started, err
		}
		if len(tenants) == 0 {
			if round || served == (storage.ID{}) {
				break
			}
			after, round = storage.ID{}, true
			continue
		}
		for _, tenant := range tenants {
			if round && bytes.Compare(tenant[:], served[:]) > 0 {
				return started, nil
			}
			if w.Paused(tenant) {
				continue
			}
			n, err := w.start(ctx, tenant)
			started += n
			if err != nil {
				return started, err
			}
		}
		after = tenants[len(tenants)-1]
	}
	return started, nil
}

// start leases and starts as many jobs of a tenant as there is room for.
func (w *Worker) start(ctx context.Context, tenant storage.ID) (int, error) {
	room := w.reserve(tenant)
	if room == 0 {
		return 0, nil
	}
	now := w.Now()
	// Each lease has its own owner. A node that was paused may lease a job again
	// whose earlier lease ended, and then its earlier run must change nothing.
	jobs, err := w.Queue.LeaseJobs(ctx, storage.Lease{Tenant: tenant, Owner: storage.ID(uuid.New()), Now: now, Until: now.Add(JobLease), Limit: room})
	w.release(tenant, room-len(jobs))
	w.mu.Lock()
	w.served = tenant
	w.mu.Unlock()
	for i := range jobs {
		job := jobs[i]
		go func() {
			defer w.Wake() // there is room for another job
			defer w.release(tenant, 1)
			w.run(ctx, &job)
		}()
	}
	return len(jobs), err
}

// reserve takes the free slots of a tenant, and returns their number.
func (w *Worker) reserve(tenant storage.ID) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.slots.Try(tenant) {
		w.jobs.Add(1)
		n++
	}
	return n
}

func (w *Worker) release(tenant storage.ID, n int) {
	for range n {
		w.slots.Give(tenant)
		w.jobs.Done()
	}
}

// run runs one job and renews its lease while it runs.
func (w *Worker) run(ctx context.Context, job *storage.Job) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var renewing sync.WaitGroup
	leased := *job
	renewing.Go(func() {
		pace.Every(ctx, renewEvery, func() {
			if err := w.Extend(ctx, &leased); errors.Is(err, storage.ErrStale) {
				cancel() // another node has the job
			}
		})
	})
	err := w.carryOut(ctx, job)
	cancel()
	renewing.Wait()
	if err != nil && !errors.Is(err, storage.ErrStale) && !errors.Is(err, context.Canceled) {
		w.Logger.ErrorContext(ctx, "a job failed and will be retried", "tenant", uuid.UUID(job.Tenant), "job", uuid.UUID(job.ID), "error", err)
	}
}

// carryOut performs the next step of a job. A panic ends only this job, not
// the process; otherwise another node would take the job and fail too. The
// value of a panic may contain card data, so only its type is reported.
func (w *Worker) carryOut(ctx context.Context, job *storage.Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic with a value of type %T\n%s", p, debug.Stack())
		}
	}()
	return w.CarryOut(ctx, job)
}
