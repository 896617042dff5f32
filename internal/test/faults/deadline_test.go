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
	onEach(t, backends, func(t *testing.T, _, dsn string) {
		v := openVault(t, dsn, vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1})
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

func lateCalls(v *vault.Vault, c *vault.Client, id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"CreateToken": func(ctx context.Context) error {
			return must.Err(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: 1}))
		},
		"GetToken":    func(ctx context.Context) error { return must.Err(c.GetToken(ctx, id)) },
		"PatchToken":  func(ctx context.Context) error { return must.Err(c.PatchToken(ctx, id, vault.JSON(`{}`))) },
		"DeleteToken": func(ctx context.Context) error { return c.DeleteToken(ctx, id) },
		"Tokenize":    func(ctx context.Context) error { return must.Err(c.Tokenize(ctx, "x")) },
		"Detokenize":  func(ctx context.Context) error { return must.Err(c.Detokenize(ctx, "{{ "+id+" }}")) },
		"ListTokens":  func(ctx context.Context) error { return must.Err(c.ListTokens(ctx, vault.ListTokensParams{})) },
		"SearchTokens": func(ctx context.Context) error {
			return must.Err(c.SearchTokens(ctx, vault.SearchTokensParams{Query: "type:token"}))
		},
		"ListLogs":  func(ctx context.Context) error { return must.Err(c.ListLogs(ctx, vault.ListLogsParams{})) },
		"GetTenant": func(ctx context.Context) error { return must.Err(c.GetTenant(ctx)) },
		"CreateProxy": func(ctx context.Context) error {
			return must.Err(c.CreateProxy(ctx, vault.ProxyParams{Name: "x", DestinationURL: "https://example.com"}))
		},
		"CreateTenant": func(ctx context.Context) error { return must.Err(v.CreateTenant(ctx, "late")) },
		"Sweep":        func(ctx context.Context) error { return must.Err(v.Sweep(ctx)) },
	}
}
