package vault_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
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
		given.Get(t, given.Authenticated(t, s.Vault.Vault, f.app.Key), "card")
		given.Create(t, given.Authenticated(t, s.Vault.Vault, f.session.SessionKey), aCard("by-session"))
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
		must.Match(t, "InTx inside Once", err, vault.ErrInTx)
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

// notInTx are the methods that cannot be part of a transaction.
var notInTx = []string{
	"DiscardJob", "Export", "ExportEvidence", "FollowLogs", "GetTenant", "Import", "InvokeProxy", "ListJobs",
	"LogCheckpoint", "LogConsistency", "LogProof", "NextLogs", "Once", "PatchTenant", "React", "ReactAsync",
	"ReplaceTenant", "RetryJob", "RotateWebhookSecret", "Stats", "TestRun",
}
