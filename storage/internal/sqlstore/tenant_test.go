package sqlstore

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// Every read of a tenant's rows runs in the hook for that tenant.
func TestReadsOfATenantRunInTheHook(t *testing.T) {
	t.Parallel()
	s := sqliteShelf(t, 20).store
	errHooked := errors.New("hooked")
	s.dialect.ForTenant = func(_ context.Context, tenant storage.ID) (func(error), error) {
		must.Same(t, "the hook ran for tenant", someTenant, tenant)
		return nil, errHooked
	}
	ctx := t.Context()
	for name, read := range map[string]func() error{
		"a token":     func() error { return must.Err(s.Tokens(ctx, someTenant, []string{"a"})) },
		"tokens":      func() error { return must.Err(s.Tokens(ctx, someTenant, []string{"a", "b"})) },
		"a duplicate": func() error { return must.Err(s.Duplicate(ctx, someTenant, storage.Duplicate{})) },
		"list of tokens": func() error {
			_, _, err := s.ListTokens(ctx, storage.TokenFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"sets": func() error { return must.Err(s.ContainerSets(ctx, someTenant)) },
		"log": func() error {
			_, _, err := s.ListLogs(ctx, storage.LogFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"records": func() error { return must.Err(s.Records(ctx, someTenant, "k", []storage.ID{{1}})) },
		"record list": func() error {
			_, _, err := s.ListRecords(ctx, storage.RecordFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"counts":      func() error { return must.Err(s.Count(ctx, storage.CountFilter{Tenant: someTenant})) },
		"a claim":     func() error { return must.Err(s.Claim(ctx, someTenant, storage.Key{})) },
		"jobs":        func() error { return must.Err(s.Jobs(ctx, storage.JobFilter{Tenant: someTenant, Limit: 1})) },
		"sealed rows": func() error { return must.Err(s.SealedRows(ctx, storage.SealedFilter{Tenant: someTenant, Limit: 1})) },
	} {
		must.Match(t, name, read(), errHooked)
	}
	if _, _, err := s.ListRecords(ctx, storage.RecordFilter{Limit: 1}); err != nil {
		t.Errorf("a list over all tenants: %v", err)
	}
}
