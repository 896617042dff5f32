package main

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-72ea4aab/vault"
)

// tenantName is the tenant of the directory.
const tenantName = "Staff directory"

// Applications of the tenant, and the container of social security numbers.
const (
	directoryName = "Directory"
	payrollName   = "Payroll"
	numbers       = "/pii/high/" // container of the numbers
)

// setUp returns the client of the directory. On a new database it creates the
// tenant and its applications, and prints payroll's key, which cannot be read
// again.
func setUp(ctx context.Context, v *vault.Vault, stdout io.Writer) (*vault.Client, error) {
	tenant, err := v.EnsureTenant(ctx, tenantName)
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	payroll, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: payrollName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read", "token:use"}}}})
	if err != nil {
		return nil, err
	}
	if payroll.Key != "" {
		fmt.Fprintf(stdout, "payroll key %s\n", payroll.Key)
	}
	directory, err := c.EnsureApplication(ctx, vault.ApplicationParams{Name: directoryName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:read"}}}})
	if err != nil {
		return nil, err
	}
	return c.As(ctx, directory.ID)
}
