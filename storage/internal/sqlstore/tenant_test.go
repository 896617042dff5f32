package sqlstore

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// Every read of a tenant's rows runs in the hook for that tenant.
func TestReadsOfATenantRunInTheHook(t *testing.T) {
	t.Parallel()
	s := sqliteShelf(t, 20).store
	errHooked := errors.New("hooked")
	s.dialect.ForTenant = func(_ context.Context, tenant storage.ID) (func(error), error) {
		if tenant != someTenant {
			t.Errorf("the hook ran for tenant %x", tenant)
		}
		return nil, errHooked
	}
	ctx := t.Context()
	for name, read := range map[string]func() error{
		"a token":     func() error { _, err := s.Tokens(ctx, someTenant, []string{"a"}); return err },
		"tokens":      func() error { _, err := s.Tokens(ctx, someTenant, []string{"a", "b"}); return err },
		"a duplicate": func() error { _, err := s.Duplicate(ctx, someTenant, storage.Duplicate{}); return err },
		"list of tokens": func() error {
			_, _, err := s.ListTokens(ctx, storage.TokenFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"sets": func() error { _, err := s.ContainerSets(ctx, someTenant); return err },
		"log": func() error {
			_, _, err := s.ListLogs(ctx, storage.LogFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"records": func() error { _, err := s.Records(ctx, someTenant, "k", []storage.ID{{1}}); return err },
		"record list": func() error {
			_, _, err := s.ListRecords(ctx, storage.RecordFilter{Tenant: someTenant, Limit: 1})
			return err
		},
		"counts":  func() error { _, err := s.Count(ctx, storage.CountFilter{Tenant: someTenant}); return err },
		"a claim": func() error { _, err := s.Claim(ctx, someTenant, storage.Key{}); return err },
		"jobs":    func() error { _, err := s.Jobs(ctx, storage.JobFilter{Tenant: someTenant, Limit: 1}); return err },
		"sealed rows": func() error {
			_, err := s.SealedRows(ctx, storage.SealedFilter{Tenant: someTenant, Limit: 1})
			return err
		},
	} {
		if err := read(); !errors.Is(err, errHooked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.ListRecords(ctx, storage.RecordFilter{Limit: 1}); err != nil {
		t.Errorf("a list over all tenants: %v", err)
	}
}
