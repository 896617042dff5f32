package faults

import (
	"context"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// On every backend, an operation whose deadline has passed fails with the
// context's error.
func TestDeadlineOnEveryBackend(t *testing.T) {
	t.Parallel()
	for name, newDSN := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := openVault(t, newDSN(t), vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1})
			tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
			c := v.Tenant(tenant.ID)
			tok := must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
			late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			defer cancel()
			for call, do := range lateCalls(v, c.Client, tok.ID) {
				must.Match(t, call, do(late), context.DeadlineExceeded)
			}
		})
	}
}

func lateCalls(v *vault.Vault, c *vault.Client, id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"CreateToken": func(ctx context.Context) error {
			_, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1})
			return err
		},
		"GetToken":    func(ctx context.Context) error { _, err := c.GetToken(ctx, id); return err },
		"PatchToken":  func(ctx context.Context) error { _, err := c.PatchToken(ctx, id, vault.JSON(`{}`)); return err },
		"DeleteToken": func(ctx context.Context) error { return c.DeleteToken(ctx, id) },
		"Tokenize":    func(ctx context.Context) error { _, err := c.Tokenize(ctx, "x"); return err },
		"Detokenize":  func(ctx context.Context) error { _, err := c.Detokenize(ctx, "{{ "+id+" }}"); return err },
		"ListTokens":  func(ctx context.Context) error { _, err := c.ListTokens(ctx, vault.ListTokensParams{}); return err },
		"SearchTokens": func(ctx context.Context) error {
			_, err := c.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:token"})
			return err
		},
		"ListLogs":  func(ctx context.Context) error { _, err := c.ListLogs(ctx, vault.ListLogsParams{}); return err },
		"GetTenant": func(ctx context.Context) error { _, err := c.GetTenant(ctx); return err },
		"CreateProxy": func(ctx context.Context) error {
			_, err := c.CreateProxy(ctx, vault.ProxyParams{Name: "x", DestinationURL: "https://example.com"})
			return err
		},
		"CreateTenant": func(ctx context.Context) error { _, err := v.CreateTenant(ctx, "late"); return err },
		"Sweep":        func(ctx context.Context) error { _, err := v.Sweep(ctx); return err },
	}
}
