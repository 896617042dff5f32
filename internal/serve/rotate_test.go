package serve

import (
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestRotateKeysOfNoTenants(t *testing.T) {
	t.Parallel()
	if _, err := tenantsToRotate(t.Context(), newVault(t), everyTenant); err == nil || !strings.Contains(err.Error(), "no tenants") {
		t.Errorf("%v", err)
	}
}

func TestTenantDeletedDuringRotationIsNotAFailure(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	gone := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	must.Do(t, v.DeleteTenant(t.Context(), gone.ID))
	for all, fails := range map[bool]bool{true: false, false: true} {
		r := &rotation{bar: terminal.NewProgress(io.Discard), all: all, done: make([]int, 1)}
		if err := r.run(t.Context(), v, []uuid.UUID{gone.ID}); (err != nil) != fails {
			t.Errorf("all is %v: %v", all, err)
		}
	}
}
