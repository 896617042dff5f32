package intxtest

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// inTxAdmin are calls about reactors, proxies and the log.
var inTxAdmin = []inTxCase{
	{"GetReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetReactor(ctx, f.reactor.ID)
		return err
	}},
	{"ListReactors", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Reactor](1)(f.owner.ListReactors(ctx, vault.ListParams{}))
	}},
	{"AllReactors", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllReactors(ctx, vault.ListParams{}))
	}},
	{"ApplyReactor", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Reactor], error) {
			return f.owner.ApplyReactor(ctx, aReactor(name))
		}, func() error {
			p := aReactor("Applied")
			p.Configuration = map[string]string{"a": "b"}
			got, err := f.owner.ApplyReactor(ctx, p)
			if err != nil {
				return err
			}
			return is(true, got.Changed)
		})
	}},
	{"EnsureReactor", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.reactor, "Reactor", func(x *vault.Reactor) uuid.UUID { return x.ID }, func(name string) (*vault.Reactor, error) {
			return f.owner.EnsureReactor(ctx, aReactor(name))
		})
	}},
	{"CreateReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateReactor(ctx, aReactor("Another"))
		return err
	}},
	{"ReplaceReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceReactor(ctx, f.reactor.ID, aReactor("Replaced"))
		return err
	}},
	{"PatchReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchReactor(ctx, f.reactor.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"DeleteReactor", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteReactor(ctx, f.reactor.ID) }},
	{"GetProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetProxy(ctx, f.proxy.ID)
		return err
	}},
	{"ListProxies", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Proxy](1)(f.owner.ListProxies(ctx, vault.ListParams{}))
	}},
	{"AllProxies", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllProxies(ctx, vault.ListParams{}))
	}},
	{"ApplyProxy", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Proxy], error) { return f.owner.ApplyProxy(ctx, aProxy(name)) }, func() error {
			p := aProxy("Applied")
			p.Configuration = map[string]string{"a": "b"}
			got, err := f.owner.ApplyProxy(ctx, p)
			if err != nil {
				return err
			}
			return is(true, got.Changed)
		})
	}},
	{"EnsureProxy", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.proxy, "Proxy", func(x *vault.Proxy) uuid.UUID { return x.ID }, func(name string) (*vault.Proxy, error) {
			return f.owner.EnsureProxy(ctx, aProxy(name))
		})
	}},
	{"CreateProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateProxy(ctx, aProxy("Another"))
		return err
	}},
	{"ReplaceProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceProxy(ctx, f.proxy.ID, aProxy("Replaced"))
		return err
	}},
	{"PatchProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchProxy(ctx, f.proxy.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"DeleteProxy", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteProxy(ctx, f.proxy.ID) }},
	{"ListEntityTypes", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.ListEntityTypes(ctx); return err }},
	{"ListLogs", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.LogEntry](1)(f.owner.ListLogs(ctx, vault.ListLogsParams{EntityID: f.proxy.ID.String(), Operation: vault.OperationDelete}))
	}},
	{"AllLogs", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllLogs(ctx, vault.ListLogsParams{EntityID: f.reactor.ID.String(), Operation: vault.OperationDelete}))
	}},
}

// notInTx are calls that cannot be part of a transaction.
var notInTx = []inTxCase{
	{"LogCheckpoint", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogCheckpoint(ctx)
		return err
	}},
	{"LogProof", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogProof(ctx, f.app.ID)
		return err
	}},
	{"LogConsistency", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogConsistency(ctx, 0)
		return err
	}},
	{"ExportEvidence", func(ctx context.Context, f *inTxFixture) error { return f.owner.ExportEvidence(ctx, io.Discard) }},
	{"ListJobs", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ListJobs(ctx, vault.ListJobsParams{})
		return err
	}},
	{"RetryJob", func(ctx context.Context, f *inTxFixture) error { return f.owner.RetryJob(ctx, f.app.ID) }},
	{"DiscardJob", func(ctx context.Context, f *inTxFixture) error { return f.owner.DiscardJob(ctx, f.app.ID) }},
	{"TestRun", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.TestRun(ctx, vault.TestRunParams{ReactorID: f.reactor.ID})
		return err
	}},
	{"Once", func(ctx context.Context, f *inTxFixture) error {
		_, _, err := f.owner.Once(ctx, vault.IdempotencyKey{Key: "k"}, func(context.Context, *vault.Owner) (vault.StoredResponse, error) { return vault.StoredResponse{}, nil })
		return err
	}},
	{"React", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.React(ctx, f.reactor.ID, vault.ReactParams{})
		return err
	}},
	{"ReactAsync", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReactAsync(ctx, f.reactor.ID, vault.ReactParams{})
		return err
	}},
	{"InvokeProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.InvokeProxy(ctx, vault.ProxyCall{URL: "https://example.com"})
		return err
	}},
	{"RoundTripper", func(ctx context.Context, f *inTxFixture) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_, err = f.owner.RoundTripper(nil).RoundTrip(req)
		return err
	}},
	{"GetTenant", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.GetTenant(ctx); return err }},
	{"ReplaceTenant", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceTenant(ctx, vault.TenantParams{Name: "x"})
		return err
	}},
	{"PatchTenant", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchTenant(ctx, vault.JSON(`{"name":"x"}`))
		return err
	}},
	{"Import", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.Import(ctx, func(func(vault.TokenParams, error) bool) {}, nil) {
			return err
		}
		return nil
	}},
	{"Export", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.Export(ctx, nil) {
			return err
		}
		return nil
	}},
	{"FollowLogs", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.FollowLogs(ctx, "") {
			return err
		}
		return nil
	}},
	{"NextLogs", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.NextLogs(ctx, "", 0); return err }},
	{"Stats", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.Stats(ctx); return err }},
	{"RotateWebhookSecret", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.RotateWebhookSecret(ctx)
		return err
	}},
}
