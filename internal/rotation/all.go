package rotation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// passSize is the number of tenants that share one wait.
	passSize = 1000
	// atOnce is the number of tenants that are resealed concurrently.
	atOnce = 8
)

// RotateAll rotates the keys of all tenants; see Rotate. The tenants of a
// pass share the wait for nodes that may still use the old keys. If one
// tenant fails, the others still get their keys.
func RotateAll(ctx context.Context, v *core.Vault, opts Options) error {
	a := &all{Options: opts, v: v}
	var failed []error
	var pass []*rotation
	for tenant, err := range storage.AllRecords(ctx, v.Store, storage.RecordFilter{Kind: keyring.KindTenant, Limit: chunk}) {
		if err != nil {
			return errors.Join(append(failed, fault.Wrap(err, "list tenants"))...)
		}
		if pass = append(pass, a.rotation(uuid.UUID(tenant.Tenant))); len(pass) == passSize {
			failed = append(failed, a.pass(ctx, pass))
			pass = nil
		}
	}
	return errors.Join(append(failed, a.pass(ctx, pass))...)
}

// all is a rotation of all tenants in progress.
type all struct {
	Options
	v *core.Vault

	mu            sync.Mutex
	rows, tenants int
}

// rotation returns the rotation of a tenant, which reports its progress to a.
func (a *all) rotation(tenant uuid.UUID) *rotation {
	r := &rotation{v: a.v, tenant: tenant, Options: Options{User: a.User}}
	before := 0
	r.Progress = func(done, _ int) {
		a.report(done-before, 0)
		before = done
	}
	return r
}

// report adds to the progress.
func (a *all) report(rows, tenants int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rows += rows
	a.tenants += tenants
	if a.Progress != nil {
		a.Progress(a.rows, a.tenants)
	}
}

// pass rotates tenants with one wait, and returns the errors.
func (a *all) pass(ctx context.Context, tenants []*rotation) error {
	tenants, failed := each(tenants, func(r *rotation) (bool, error) {
		if due, err := a.due(ctx, r); err != nil || !due {
			return false, err
		}
		if _, err := r.promote(ctx); err != nil {
			return false, err
		}
		return true, r.reseal(ctx)
	})
	promoted := time.Now() // by now all of them are promoted
	for _, r := range tenants {
		if err := r.wait(ctx, promoted); err != nil {
			return errors.Join(failed, err)
		}
	}
	_, err := each(tenants, func(r *rotation) (bool, error) {
		err := r.finish(ctx)
		if err == nil {
			a.report(0, 1)
		}
		return true, err
	})
	return errors.Join(failed, err)
}

// due reports whether a tenant gets a new key: its key is old enough, or an
// earlier rotation was interrupted.
func (a *all) due(ctx context.Context, r *rotation) (bool, error) {
	if a.OlderThan.IsZero() {
		return true, nil
	}
	state, err := a.v.Tenants.Reload(ctx, r.tenant)
	if err != nil {
		return false, err
	}
	keys := state.Ring.Keys()
	newest := keys[len(keys)-1]
	return newest.State == seal.Pending || state.Ring.Retired() || newest.Created.Before(a.OlderThan), nil
}

// each calls do for tenants, some of them concurrently. It returns the
// tenants for which do returned true, and the errors with the ids of their
// tenants. It skips tenants that were deleted in between.
func each(tenants []*rotation, do func(*rotation) (bool, error)) (kept []*rotation, failed error) {
	var mu sync.Mutex
	failed = pace.Each(atOnce, tenants, func(r *rotation) error {
		keep, err := do(r)
		switch {
		case errors.Is(err, fault.ErrNotFound):
		case err != nil:
			return fault.Wrap(err, "rotate the data key of tenant %s", r.tenant)
		case keep:
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, r)
		}
		return nil
	})
	return kept, failed
}
