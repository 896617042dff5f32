package vault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/jobs"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// leased returns a vault without a horizon, and a job of a tenant that its
// worker holds. The job's reactor panics when it is run.
func leased(t *testing.T, payload reactJob) (*Vault, uuid.UUID, storage.Job) {
	t.Helper()
	ctx := t.Context()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(ctx, store, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1, Runtime: panicking{}, Egress: EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	v.horizon = 0
	tenant, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	op, err := v.Tenant(tenant.ID).begin(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := op.CreateReactor(ctx, ReactorParams{Name: "Panics", Code: "x", Configuration: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	payload.Reactor, payload.Caller = r.ID, op.caller()
	job, err := op.job(storage.Job{ID: storage.ID(v.ids.At(op.now)), Kind: kindReact, RunAt: op.now}, &payload)
	if err != nil {
		t.Fatal(err)
	}
	ch := op.change()
	ch.InsertJobs = []storage.Job{job}
	if err := store.Write(ctx, ch); err != nil {
		t.Fatal(err)
	}
	return v, tenant.ID, lease(t, v, tenant.ID)
}

// panicking is a runtime that fails as no runtime should.
type panicking struct{}

func (panicking) Check(context.Context, script.Program) error { return nil }
func (panicking) Close() error                                { return nil }
func (panicking) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	panic("4242424242424242")
}

// lease takes the one job that is due.
func lease(t *testing.T, v *Vault, tenant uuid.UUID) storage.Job {
	t.Helper()
	now := v.now()
	jobs, err := v.store.LeaseJobs(t.Context(), storage.Lease{Tenant: storage.ID(tenant), Owner: v.worker.Owner, Now: now, Until: now.Add(jobs.Lease), Limit: 2})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// A job that runs while keys are rotated stays readable: a longer lease never
// brings back what was sealed under the old key.
func TestLeaseOutlivesARotation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, renewals := range map[string]bool{"renewed meanwhile": true, "not renewed in time": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, tenant, job := leased(t, reactJob{CallbackURL: "https://example.com/"})
			progress := func(int) {
				if err := v.extendLease(ctx, &job); renewals && err != nil {
					t.Errorf("a longer lease during the rotation: %v", err)
				}
			}
			if !renewals {
				progress = nil
			}
			if err := v.RotateKeys(ctx, tenant, &RotateOptions{Progress: progress}); err != nil {
				t.Fatal(err)
			}
			if err := v.extendLease(ctx, &job); renewals != (err == nil) || !renewals && !errors.Is(err, seal.ErrNoKey) {
				t.Errorf("a longer lease after the rotation: %v", err)
			}
			left, err := v.store.SealedUnder(ctx, storage.ID(tenant), storage.SealedJobs, 2, 10)
			if err != nil || len(left) != 0 {
				t.Errorf("%d jobs are sealed under a key that is no more, %v", len(left), err)
			}
		})
	}
}

// A callback that is acknowledged late is acknowledged all the same.
func TestSlowReceiverIsCalledOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	v, tenant, job := leased(t, reactJob{CallbackURL: receiver.URL, Result: JSON(`{"raw":1}`)})
	state, err := v.tenants.Reload(ctx, tenant)
	if err != nil {
		t.Fatal(err)
	}
	old := *state
	old.ReadAt = old.ReadAt.Add(-keyring.MaxAge - time.Second) // as if the receiver had taken its time
	op := v.system(job.Tenant)
	op.state = &old
	j := &leasedJob{operation: op, row: job, react: reactJob{CallbackURL: receiver.URL, Result: JSON(`{"raw":1}`)}}
	if err := j.deliver(ctx); err != nil {
		t.Errorf("delivered, but not forgotten: %v", err)
	}
}
