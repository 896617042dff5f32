package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// everyTenant stands for all tenants in -rotate-keys.
const everyTenant = "all"

// rotateAtOnce is how many tenants are rotated concurrently. A rotation mostly
// waits.
const rotateAtOnce = 8

// rotateKeys gives tenants new data keys while servers use the same database, and
// returns a line about the result. If a tenant fails or the program is stopped,
// finished work remains. Running it again continues.
func rotateKeys(ctx context.Context, v *vault.Vault, cfg *Config, bar *terminal.Progress) (string, error) {
	tenants, err := tenantsToRotate(ctx, v, cfg.rotateKeys)
	if err != nil {
		return "", err
	}
	rows, err := Rotate(ctx, v, tenants, cfg.rotateKeys == everyTenant, bar)
	if err != nil {
		return "", err
	}
	who := "tenant " + cfg.rotateKeys
	if cfg.rotateKeys == everyTenant {
		who = fmt.Sprintf("all tenants (%d)", len(tenants))
	}
	return fmt.Sprintf("Rotated the keys of %s: %d rows resealed in %s.", who, rows, bar.Took().Round(time.Second)), nil
}

// Rotate gives tenants new data keys, several at a time, and returns the number of
// resealed rows. If all is true, it skips tenants that were deleted in the
// meantime; otherwise a deleted tenant is an error. After an error, calling it
// again continues.
func Rotate(ctx context.Context, v *vault.Vault, tenants []uuid.UUID, all bool, bar *terminal.Progress) (int, error) {
	r := &rotation{bar: bar, all: all, done: make([]int, max(1, len(tenants)))}
	for _, id := range tenants {
		stats, err := v.Tenant(id).Stats(ctx)
		if err := r.failure(id, err); err != nil {
			return 0, err
		}
		if stats != nil {
			r.total += stats.Tokens
		}
	}
	if err := r.run(ctx, v, tenants); err != nil {
		return 0, fmt.Errorf("%w\nrun it again to continue", err)
	}
	return r.sum(), nil
}

// tenantsToRotate returns the tenants that -rotate-keys names.
func tenantsToRotate(ctx context.Context, v *vault.Vault, which string) ([]uuid.UUID, error) {
	if which != everyTenant {
		id, err := uuid.Parse(which)
		return []uuid.UUID{id}, err
	}
	tenants, err := AllTenants(ctx, v)
	if err != nil {
		return nil, err
	}
	if len(tenants) == 0 {
		return nil, errors.New("the database has no tenants; is -db right?")
	}
	return Readable(tenants), nil
}

// Readable returns the ids of the tenants that can be read. The rotation of all
// tenants reports the others.
func Readable(tenants []vault.Tenant) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(tenants))
	for i := range tenants {
		if !tenants[i].Unreadable {
			ids = append(ids, tenants[i].ID)
		}
	}
	return ids
}

// rotation is the rotation of several tenants in progress.
type rotation struct {
	bar   *terminal.Progress
	all   bool // the user chose all tenants
	total int  // tokens, because other rows are few

	mu   sync.Mutex
	done []int // rows of each tenant
}

// run rotates all tenants, several at a time, and returns their errors.
func (r *rotation) run(ctx context.Context, v *vault.Vault, tenants []uuid.UUID) error {
	r.show()
	if r.all {
		return v.RotateAllDataKeys(ctx, &vault.RotateAllOptions{Progress: func(p vault.RotateAllProgress) { r.report(0, p.Rows) }})
	}
	var wg sync.WaitGroup
	failed := make([]error, len(tenants))
	slots := make(chan struct{}, rotateAtOnce)
	for i, id := range tenants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := v.RotateDataKeys(ctx, id, &vault.RotateOptions{Progress: func(done int) { r.report(i, done) }})
			failed[i] = r.failure(id, err)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// failure adds the tenant to an error. A deleted tenant is an error only if the
// user named it by id.
func (r *rotation) failure(tenant uuid.UUID, err error) error {
	if err == nil || r.all && errors.Is(err, vault.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("tenant %s: %w", tenant, err)
}

func (r *rotation) report(tenant, done int) {
	r.mu.Lock()
	r.done[tenant] = done
	r.mu.Unlock()
	r.show()
}

func (r *rotation) show() {
	if sum := r.sum(); sum < r.total {
		r.bar.Set("Rotating keys", sum, r.total)
		return
	}
	r.bar.Set("Rotating keys: waiting until no server can still use the old keys", 0, 0)
}

// sum returns the number of resealed rows.
func (r *rotation) sum() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, done := range r.done {
		n += done
	}
	return n
}
