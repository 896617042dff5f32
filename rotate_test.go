package vault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// rotations counts the log entries of destroyed keys of a tenant.
func rotations(t *testing.T, c *vault.Owner) int {
	t.Helper()
	n := 0
	for e, err := range c.AllLogs(t.Context(), vault.LogFilter{EntityType: "tenant"}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Message, "destroyed") {
			n++
		}
	}
	return n
}

// TestRotateAllDataKeys rotates the keys of all tenants, stops in the middle, and
// goes on: each tenant gets one new key.
func TestRotateAllDataKeys(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	owners := []*vault.Owner{v.Owner}
	for i := range 11 {
		tenant, err := v.CreateTenant(ctx, fmt.Sprint("Tenant ", i))
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, v.Tenant(tenant.ID))
	}
	for _, c := range owners {
		if _, err := c.CreateToken(ctx, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	v.Clock.Advance(time.Minute)
	begun := v.Clock.Now()
	v.Clock.Advance(time.Minute)
	var last vault.RotateAllProgress
	opts := &vault.RotateAllOptions{OlderThan: begun, User: "jane", Progress: func(p vault.RotateAllProgress) {
		if p.Tenants < last.Tenants || p.Rows < last.Rows {
			t.Errorf("the progress went from %+v to %+v", last, p)
		}
		last = p
	}}
	if err := v.RotateDataKeys(ctx, owners[3].TenantID(), nil); err != nil { // as if a rotation of all had got so far
		t.Fatal(err)
	}
	if err := v.RotateAllDataKeys(ctx, opts); err != nil {
		t.Fatal(err)
	}
	if last.Tenants != len(owners)-1 || last.Rows < len(owners)-1 {
		t.Errorf("in the end: %+v", last)
	}
	if err := v.RotateAllDataKeys(ctx, opts); err != nil {
		t.Fatal(err)
	}
	for i, c := range owners {
		if n := rotations(t, c); n != 1 {
			t.Errorf("tenant %d: %d rotations, want 1", i, n)
		}
		if got, err := c.GetToken(ctx, "tok"); err != nil || string(got.Data) != `"secret"` {
			t.Errorf("tenant %d: %v", i, err)
		}
	}
	if err := v.RotateAllDataKeys(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if n := rotations(t, owners[0]); n != 2 {
		t.Errorf("%d rotations, want 2", n)
	}
}

// TestRotateAllDataKeysWithoutATenant leaves out a tenant that is gone, and ends
// with the context.
func TestRotateAllDataKeysWithoutATenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	gone, err := v.CreateTenant(t.Context(), "Gone")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.DeleteTenant(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	if err := v.RotateAllDataKeys(t.Context(), nil); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.RotateAllDataKeys(ended, nil); !errors.Is(err, ended.Err()) {
		t.Errorf("after the end: %v", err)
	}
}
