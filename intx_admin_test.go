package vault_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestInTxThenOutside uses keys that were created in a transaction.
func TestInTxThenOutside(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		f := newInTx(t, s)
		err := f.private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
		must.Do(t, err)
		commit(t, f.tx)
		get(t, authenticated(t, s.Vault.Vault, f.app.Key), "card")
		create(t, authenticated(t, s.Vault.Vault, f.session.SessionKey), aCard("by-session"))
		if r, err := s.Management.GetReactor(t.Context(), f.reactor.ID); err != nil || r.Name != "Reactor" {
			t.Errorf("the reactor: %v", err)
		}
	})
}

// TestInTxInsideOnce checks that a transaction is refused inside Once, because Once
// commits itself.
func TestInTxInsideOnce(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		_, _, err := s.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
			tx, err := s.Other(t).BeginTx(ctx, nil)
			if err != nil {
				return vault.StoredResponse{}, err
			}
			defer func() { _ = tx.Rollback() }()
			_, err = c.InTx(tx).CreateToken(ctx, aCard("other"))
			return vault.StoredResponse{}, err
		})
		wantError(t, "InTx inside Once", err, vault.ErrInTx)
	})
}

// inTxAdmin are calls about reactors, proxies and the log.
var inTxAdmin = []inTxCase{
	{"GetReactor", func(f *inTx) error { return must.Err(f.owner.GetReactor(f.ctx, f.reactor.ID)) }},
	{"ListReactors", func(f *inTx) error { return pageOf[vault.Reactor](1)(f.owner.ListReactors(f.ctx, vault.ListParams{})) }},
	{"AllReactors", func(f *inTx) error { return count(1, f.owner.AllReactors(f.ctx, vault.ListParams{})) }},
	{"ApplyReactor", func(f *inTx) error {
		other := aReactor("Applied")
		other.Configuration = map[string]string{"a": "b"}
		return applied(f.ctx, f.owner.ApplyReactor, aReactor("Applied"), other)
	}},
	{"EnsureReactor", func(f *inTx) error {
		return ensured(f.ctx, f.owner.EnsureReactor, aReactor, f.reactor, func(x *vault.Reactor) uuid.UUID { return x.ID })
	}},
	{"CreateReactor", func(f *inTx) error { return must.Err(f.owner.CreateReactor(f.ctx, aReactor("Another"))) }},
	{"ReplaceReactor", func(f *inTx) error {
		return must.Err(f.owner.ReplaceReactor(f.ctx, f.reactor.ID, aReactor("Replaced")))
	}},
	{"PatchReactor", func(f *inTx) error {
		return must.Err(f.owner.PatchReactor(f.ctx, f.reactor.ID, vault.JSON(`{"name":"Patched"}`)))
	}},
	{"DeleteReactor", func(f *inTx) error { return f.owner.DeleteReactor(f.ctx, f.reactor.ID) }},
	{"GetProxy", func(f *inTx) error { return must.Err(f.owner.GetProxy(f.ctx, f.proxy.ID)) }},
	{"ListProxies", func(f *inTx) error { return pageOf[vault.Proxy](1)(f.owner.ListProxies(f.ctx, vault.ListParams{})) }},
	{"AllProxies", func(f *inTx) error { return count(1, f.owner.AllProxies(f.ctx, vault.ListParams{})) }},
	{"ApplyProxy", func(f *inTx) error {
		other := aProxy("Applied")
		other.Configuration = map[string]string{"a": "b"}
		return applied(f.ctx, f.owner.ApplyProxy, aProxy("Applied"), other)
	}},
	{"EnsureProxy", func(f *inTx) error {
		return ensured(f.ctx, f.owner.EnsureProxy, aProxy, f.proxy, func(x *vault.Proxy) uuid.UUID { return x.ID })
	}},
	{"CreateProxy", func(f *inTx) error { return must.Err(f.owner.CreateProxy(f.ctx, aProxy("Another"))) }},
	{"ReplaceProxy", func(f *inTx) error { return must.Err(f.owner.ReplaceProxy(f.ctx, f.proxy.ID, aProxy("Replaced"))) }},
	{"PatchProxy", func(f *inTx) error {
		return must.Err(f.owner.PatchProxy(f.ctx, f.proxy.ID, vault.JSON(`{"name":"Patched"}`)))
	}},
	{"DeleteProxy", func(f *inTx) error { return f.owner.DeleteProxy(f.ctx, f.proxy.ID) }},
	{"ListEntityTypes", func(f *inTx) error { return must.Err(f.owner.ListEntityTypes(f.ctx)) }},
	{"ListLogs", func(f *inTx) error {
		return pageOf[vault.LogEntry](1)(f.owner.ListLogs(f.ctx, vault.ListLogsParams{EntityID: f.proxy.ID.String(), Operation: vault.OperationDelete}))
	}},
	{"AllLogs", func(f *inTx) error {
		return count(1, f.owner.AllLogs(f.ctx, vault.ListLogsParams{EntityID: f.reactor.ID.String(), Operation: vault.OperationDelete}))
	}},
}

// notInTx are calls that cannot be part of a transaction.
var notInTx = []inTxCase{
	{"LogCheckpoint", func(f *inTx) error { return must.Err(f.owner.LogCheckpoint(f.ctx)) }},
	{"LogProof", func(f *inTx) error { return must.Err(f.owner.LogProof(f.ctx, f.app.ID)) }},
	{"LogConsistency", func(f *inTx) error { return must.Err(f.owner.LogConsistency(f.ctx, 0)) }},
	{"ExportEvidence", func(f *inTx) error { return f.owner.ExportEvidence(f.ctx, io.Discard) }},
	{"ListJobs", func(f *inTx) error { return must.Err(f.owner.ListJobs(f.ctx, vault.ListJobsParams{})) }},
	{"RetryJob", func(f *inTx) error { return f.owner.RetryJob(f.ctx, f.app.ID) }},
	{"DiscardJob", func(f *inTx) error { return f.owner.DiscardJob(f.ctx, f.app.ID) }},
	{"TestRun", func(f *inTx) error {
		return must.Err(f.owner.TestRun(f.ctx, vault.TestRunParams{ReactorID: f.reactor.ID}))
	}},
	{"Once", func(f *inTx) error {
		_, _, err := f.owner.Once(f.ctx, vault.IdempotencyKey{Key: "k"}, func(context.Context, *vault.Owner) (vault.StoredResponse, error) { return vault.StoredResponse{}, nil })
		return err
	}},
	{"React", func(f *inTx) error { return must.Err(f.owner.React(f.ctx, f.reactor.ID, vault.ReactParams{})) }},
	{"ReactAsync", func(f *inTx) error { return must.Err(f.owner.ReactAsync(f.ctx, f.reactor.ID, vault.ReactParams{})) }},
	{"InvokeProxy", func(f *inTx) error {
		return must.Err(f.owner.InvokeProxy(f.ctx, vault.ProxyCall{URL: "https://example.com"}))
	}},
	{"RoundTripper", func(f *inTx) error {
		req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, "https://example.com", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_, err = f.owner.RoundTripper(nil).RoundTrip(req)
		return err
	}},
	{"GetTenant", func(f *inTx) error { return must.Err(f.owner.GetTenant(f.ctx)) }},
	{"ReplaceTenant", func(f *inTx) error { return must.Err(f.owner.ReplaceTenant(f.ctx, vault.TenantParams{Name: "x"})) }},
	{"PatchTenant", func(f *inTx) error { return must.Err(f.owner.PatchTenant(f.ctx, vault.JSON(`{"name":"x"}`))) }},
	{"Import", func(f *inTx) error {
		for _, err := range f.owner.Import(f.ctx, func(func(vault.TokenParams, error) bool) {}, nil) {
			return err
		}
		return nil
	}},
	{"Export", func(f *inTx) error {
		for _, err := range f.owner.Export(f.ctx, nil) {
			return err
		}
		return nil
	}},
	{"FollowLogs", func(f *inTx) error {
		for _, err := range f.owner.FollowLogs(f.ctx, "") {
			return err
		}
		return nil
	}},
	{"NextLogs", func(f *inTx) error { return must.Err(f.owner.NextLogs(f.ctx, "", 0)) }},
	{"Stats", func(f *inTx) error { return must.Err(f.owner.Stats(f.ctx)) }},
	{"RotateWebhookSecret", func(f *inTx) error { return must.Err(f.owner.RotateWebhookSecret(f.ctx)) }},
}
