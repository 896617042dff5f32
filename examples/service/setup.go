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
	tenants, err := v.ListTenants(ctx, vault.PageParams{})
	if err != nil {
		return nil, err
	}
	for _, t := range tenants.Data {
		if t.Name == tenantName {
			return directoryOf(ctx, v.Tenant(t.ID))
		}
	}
	tenant, err := v.CreateTenant(ctx, tenantName)
	if err != nil {
		return nil, err
	}
	c := v.Tenant(tenant.ID)
	payroll, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: payrollName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read", "token:use"}}}})
	if err != nil {
		return nil, err
	}
	_, err = c.CreateApplication(ctx, vault.ApplicationParams{Name: directoryName, Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{{Priority: 1, Container: numbers, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:read"}}}})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "payroll key %s\n", payroll.Key)
	return directoryOf(ctx, c)
}

// directoryOf returns the client of the directory's application, with its current
// permissions.
func directoryOf(ctx context.Context, o *vault.Owner) (*vault.Client, error) {
	apps, err := o.ListApplications(ctx, vault.ListApplicationsParams{})
	if err != nil {
		return nil, err
	}
	for _, app := range apps.Data {
		if app.Name == directoryName {
			return o.As(ctx, app.ID)
		}
	}
	return nil, fmt.Errorf("the tenant has no application %q", directoryName)
}
