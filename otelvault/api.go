package otelvault

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-72ea4aab/vault"
)

// API returns an API whose operations have spans and metrics: a *vault.Client in
// process, or the client of package vaultclient. What they send out carries on
// the trace. Iterators pass through as they are.
func (t *Telemetry) API(next vault.API) vault.API { return &api{next, t} }

// api is an API with spans. What it does not have, it embeds.
type api struct {
	vault.API
	t *Telemetry
}

// start begins the span of an operation. It returns what ends it.
func (a *api) start(ctx context.Context, name string) (context.Context, func(error)) {
	var tenant uuid.UUID
	if c, ok := a.API.(interface{ TenantID() uuid.UUID }); ok {
		tenant = c.TenantID()
	}
	operation := attribute.String("vault.operation", name)
	start := time.Now()
	ctx, span := a.t.tracer.Start(ctx, "vault."+name, trace.WithAttributes(operation), trace.WithAttributes(who(tenant, vault.TraceID(ctx))...))
	carried := propagation.MapCarrier{}
	a.t.propagator.Inject(ctx, carried)
	ctx = vault.WithTraceparent(ctx, carried["traceparent"], carried["tracestate"])
	return ctx, func(err error) {
		a.t.operations.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(operation, failed(err)))
		end(span, err)
	}
}

// observe carries out an operation that returns something within its span.
func observe[T any](ctx context.Context, a *api, name string, do func(context.Context) (T, error)) (T, error) {
	ctx, end := a.start(ctx, name)
	out, err := do(ctx)
	end(err)
	return out, err
}

// CreateToken is the operation of that name, within a span.
func (a *api) CreateToken(ctx context.Context, p vault.TokenParams) (*vault.Token, error) {
	return observe(ctx, a, "CreateToken", func(ctx context.Context) (*vault.Token, error) { return a.API.CreateToken(ctx, p) })
}

// GetToken is the operation of that name, within a span.
func (a *api) GetToken(ctx context.Context, id string) (*vault.Token, error) {
	return observe(ctx, a, "GetToken", func(ctx context.Context) (*vault.Token, error) { return a.API.GetToken(ctx, id) })
}

// PatchToken is the operation of that name, within a span.
func (a *api) PatchToken(ctx context.Context, id string, patch any) (*vault.Token, error) {
	return observe(ctx, a, "PatchToken", func(ctx context.Context) (*vault.Token, error) { return a.API.PatchToken(ctx, id, patch) })
}

// DeleteToken is the operation of that name, within a span.
func (a *api) DeleteToken(ctx context.Context, id string) error {
	ctx, end := a.start(ctx, "DeleteToken")
	err := a.API.DeleteToken(ctx, id)
	end(err)
	return err
}

// Tokenize is the operation of that name, within a span.
func (a *api) Tokenize(ctx context.Context, document any) (vault.JSON, error) {
	return observe(ctx, a, "Tokenize", func(ctx context.Context) (vault.JSON, error) { return a.API.Tokenize(ctx, document) })
}

// Detokenize is the operation of that name, within a span.
func (a *api) Detokenize(ctx context.Context, document any) (vault.JSON, error) {
	return observe(ctx, a, "Detokenize", func(ctx context.Context) (vault.JSON, error) { return a.API.Detokenize(ctx, document) })
}

// ListTokens is the operation of that name, within a span.
func (a *api) ListTokens(ctx context.Context, p vault.ListTokensParams) (*vault.Page[vault.Token], error) {
	return observe(ctx, a, "ListTokens", func(ctx context.Context) (*vault.Page[vault.Token], error) { return a.API.ListTokens(ctx, p) })
}

// SearchTokens is the operation of that name, within a span.
func (a *api) SearchTokens(ctx context.Context, p vault.SearchTokensParams) (*vault.Page[vault.Token], error) {
	return observe(ctx, a, "SearchTokens", func(ctx context.Context) (*vault.Page[vault.Token], error) { return a.API.SearchTokens(ctx, p) })
}

// ListTokensAfter is the operation of that name, within a span.
func (a *api) ListTokensAfter(ctx context.Context, p vault.ListTokensParams, after string) (*vault.CursorPage[vault.Token], error) {
	return observe(ctx, a, "ListTokensAfter", func(ctx context.Context) (*vault.CursorPage[vault.Token], error) {
		return a.API.ListTokensAfter(ctx, p, after)
	})
}

// SearchTokensAfter is the operation of that name, within a span.
func (a *api) SearchTokensAfter(ctx context.Context, p vault.SearchTokensParams, after string) (*vault.CursorPage[vault.Token], error) {
	return observe(ctx, a, "SearchTokensAfter", func(ctx context.Context) (*vault.CursorPage[vault.Token], error) {
		return a.API.SearchTokensAfter(ctx, p, after)
	})
}

// CreateSession is the operation of that name, within a span.
func (a *api) CreateSession(ctx context.Context) (*vault.Session, error) {
	return observe(ctx, a, "CreateSession", func(ctx context.Context) (*vault.Session, error) { return a.API.CreateSession(ctx) })
}

// AuthorizeSession is the operation of that name, within a span.
func (a *api) AuthorizeSession(ctx context.Context, g vault.SessionGrant) error {
	ctx, end := a.start(ctx, "AuthorizeSession")
	err := a.API.AuthorizeSession(ctx, g)
	end(err)
	return err
}

// ListSessions is the operation of that name, within a span.
func (a *api) ListSessions(ctx context.Context, p vault.ListSessionsParams) (*vault.Page[vault.SessionInfo], error) {
	return observe(ctx, a, "ListSessions", func(ctx context.Context) (*vault.Page[vault.SessionInfo], error) { return a.API.ListSessions(ctx, p) })
}

// DeleteSession is the operation of that name, within a span.
func (a *api) DeleteSession(ctx context.Context, id uuid.UUID) error {
	ctx, end := a.start(ctx, "DeleteSession")
	err := a.API.DeleteSession(ctx, id)
	end(err)
	return err
}

// React is the operation of that name, within a span.
func (a *api) React(ctx context.Context, id uuid.UUID, p vault.ReactParams) (*vault.ReactResult, error) {
	return observe(ctx, a, "React", func(ctx context.Context) (*vault.ReactResult, error) { return a.API.React(ctx, id, p) })
}

// ReactAsync is the operation of that name, within a span.
func (a *api) ReactAsync(ctx context.Context, id uuid.UUID, p vault.ReactParams) (*vault.Job, error) {
	return observe(ctx, a, "ReactAsync", func(ctx context.Context) (*vault.Job, error) { return a.API.ReactAsync(ctx, id, p) })
}

// InvokeProxy is the operation of that name, within a span.
func (a *api) InvokeProxy(ctx context.Context, p vault.ProxyCall) (*vault.ProxyAnswer, error) {
	return observe(ctx, a, "InvokeProxy", func(ctx context.Context) (*vault.ProxyAnswer, error) { return a.API.InvokeProxy(ctx, p) })
}

// CreateApplication is the operation of that name, within a span.
func (a *api) CreateApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Application, error) {
	return observe(ctx, a, "CreateApplication", func(ctx context.Context) (*vault.Application, error) { return a.API.CreateApplication(ctx, p) })
}

// GetApplication is the operation of that name, within a span.
func (a *api) GetApplication(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return observe(ctx, a, "GetApplication", func(ctx context.Context) (*vault.Application, error) { return a.API.GetApplication(ctx, id) })
}

// ListApplications is the operation of that name, within a span.
func (a *api) ListApplications(ctx context.Context, p vault.ListApplicationsParams) (*vault.Page[vault.Application], error) {
	return observe(ctx, a, "ListApplications", func(ctx context.Context) (*vault.Page[vault.Application], error) {
		return a.API.ListApplications(ctx, p)
	})
}

// ReplaceApplication is the operation of that name, within a span.
func (a *api) ReplaceApplication(ctx context.Context, id uuid.UUID, p vault.ApplicationParams) (*vault.Application, error) {
	return observe(ctx, a, "ReplaceApplication", func(ctx context.Context) (*vault.Application, error) { return a.API.ReplaceApplication(ctx, id, p) })
}

// PatchApplication is the operation of that name, within a span.
func (a *api) PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*vault.Application, error) {
	return observe(ctx, a, "PatchApplication", func(ctx context.Context) (*vault.Application, error) { return a.API.PatchApplication(ctx, id, patch) })
}

// DeleteApplication is the operation of that name, within a span.
func (a *api) DeleteApplication(ctx context.Context, id uuid.UUID) error {
	ctx, end := a.start(ctx, "DeleteApplication")
	err := a.API.DeleteApplication(ctx, id)
	end(err)
	return err
}

// OwnApplication is the operation of that name, within a span.
func (a *api) OwnApplication(ctx context.Context) (*vault.Application, error) {
	return observe(ctx, a, "OwnApplication", func(ctx context.Context) (*vault.Application, error) { return a.API.OwnApplication(ctx) })
}

// RegenerateKey is the operation of that name, within a span.
func (a *api) RegenerateKey(ctx context.Context, id uuid.UUID) (*vault.Application, error) {
	return observe(ctx, a, "RegenerateKey", func(ctx context.Context) (*vault.Application, error) { return a.API.RegenerateKey(ctx, id) })
}

// ListPermissions is the operation of that name, within a span.
func (a *api) ListPermissions(ctx context.Context) ([]vault.PermissionInfo, error) {
	return observe(ctx, a, "ListPermissions", func(ctx context.Context) ([]vault.PermissionInfo, error) { return a.API.ListPermissions(ctx) })
}

// Explain is the operation of that name, within a span.
func (a *api) Explain(ctx context.Context, p vault.ExplainParams) (*vault.Explanation, error) {
	return observe(ctx, a, "Explain", func(ctx context.Context) (*vault.Explanation, error) { return a.API.Explain(ctx, p) })
}

// CreateReactor is the operation of that name, within a span.
func (a *api) CreateReactor(ctx context.Context, p vault.ReactorParams) (*vault.Reactor, error) {
	return observe(ctx, a, "CreateReactor", func(ctx context.Context) (*vault.Reactor, error) { return a.API.CreateReactor(ctx, p) })
}

// GetReactor is the operation of that name, within a span.
func (a *api) GetReactor(ctx context.Context, id uuid.UUID) (*vault.Reactor, error) {
	return observe(ctx, a, "GetReactor", func(ctx context.Context) (*vault.Reactor, error) { return a.API.GetReactor(ctx, id) })
}

// ListReactors is the operation of that name, within a span.
func (a *api) ListReactors(ctx context.Context, p vault.ListReactorsParams) (*vault.Page[vault.Reactor], error) {
	return observe(ctx, a, "ListReactors", func(ctx context.Context) (*vault.Page[vault.Reactor], error) { return a.API.ListReactors(ctx, p) })
}

// ReplaceReactor is the operation of that name, within a span.
func (a *api) ReplaceReactor(ctx context.Context, id uuid.UUID, p vault.ReactorParams) (*vault.Reactor, error) {
	return observe(ctx, a, "ReplaceReactor", func(ctx context.Context) (*vault.Reactor, error) { return a.API.ReplaceReactor(ctx, id, p) })
}

// PatchReactor is the operation of that name, within a span.
func (a *api) PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*vault.Reactor, error) {
	return observe(ctx, a, "PatchReactor", func(ctx context.Context) (*vault.Reactor, error) { return a.API.PatchReactor(ctx, id, patch) })
}

// DeleteReactor is the operation of that name, within a span.
func (a *api) DeleteReactor(ctx context.Context, id uuid.UUID) error {
	ctx, end := a.start(ctx, "DeleteReactor")
	err := a.API.DeleteReactor(ctx, id)
	end(err)
	return err
}

// CreateProxy is the operation of that name, within a span.
func (a *api) CreateProxy(ctx context.Context, p vault.ProxyParams) (*vault.Proxy, error) {
	return observe(ctx, a, "CreateProxy", func(ctx context.Context) (*vault.Proxy, error) { return a.API.CreateProxy(ctx, p) })
}

// GetProxy is the operation of that name, within a span.
func (a *api) GetProxy(ctx context.Context, id uuid.UUID) (*vault.Proxy, error) {
	return observe(ctx, a, "GetProxy", func(ctx context.Context) (*vault.Proxy, error) { return a.API.GetProxy(ctx, id) })
}

// ListProxies is the operation of that name, within a span.
func (a *api) ListProxies(ctx context.Context, p vault.ListProxiesParams) (*vault.Page[vault.Proxy], error) {
	return observe(ctx, a, "ListProxies", func(ctx context.Context) (*vault.Page[vault.Proxy], error) { return a.API.ListProxies(ctx, p) })
}

// ReplaceProxy is the operation of that name, within a span.
func (a *api) ReplaceProxy(ctx context.Context, id uuid.UUID, p vault.ProxyParams) (*vault.Proxy, error) {
	return observe(ctx, a, "ReplaceProxy", func(ctx context.Context) (*vault.Proxy, error) { return a.API.ReplaceProxy(ctx, id, p) })
}

// PatchProxy is the operation of that name, within a span.
func (a *api) PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*vault.Proxy, error) {
	return observe(ctx, a, "PatchProxy", func(ctx context.Context) (*vault.Proxy, error) { return a.API.PatchProxy(ctx, id, patch) })
}

// DeleteProxy is the operation of that name, within a span.
func (a *api) DeleteProxy(ctx context.Context, id uuid.UUID) error {
	ctx, end := a.start(ctx, "DeleteProxy")
	err := a.API.DeleteProxy(ctx, id)
	end(err)
	return err
}

// GetTenant is the operation of that name, within a span.
func (a *api) GetTenant(ctx context.Context) (*vault.Tenant, error) {
	return observe(ctx, a, "GetTenant", func(ctx context.Context) (*vault.Tenant, error) { return a.API.GetTenant(ctx) })
}

// ReplaceTenant is the operation of that name, within a span.
func (a *api) ReplaceTenant(ctx context.Context, p vault.TenantParams) (*vault.Tenant, error) {
	return observe(ctx, a, "ReplaceTenant", func(ctx context.Context) (*vault.Tenant, error) { return a.API.ReplaceTenant(ctx, p) })
}

// NextLogs is the operation of that name, within a span.
func (a *api) NextLogs(ctx context.Context, cursor string, wait time.Duration) (*vault.LogBatch, error) {
	return observe(ctx, a, "NextLogs", func(ctx context.Context) (*vault.LogBatch, error) { return a.API.NextLogs(ctx, cursor, wait) })
}

// ListLogs is the operation of that name, within a span.
func (a *api) ListLogs(ctx context.Context, p vault.ListLogsParams) (*vault.Page[vault.LogEntry], error) {
	return observe(ctx, a, "ListLogs", func(ctx context.Context) (*vault.Page[vault.LogEntry], error) { return a.API.ListLogs(ctx, p) })
}

// ListEntityTypes is the operation of that name, within a span.
func (a *api) ListEntityTypes(ctx context.Context) ([]vault.EntityType, error) {
	return observe(ctx, a, "ListEntityTypes", func(ctx context.Context) ([]vault.EntityType, error) { return a.API.ListEntityTypes(ctx) })
}

// ApplyApplication is the operation of that name, within a span.
func (a *api) ApplyApplication(ctx context.Context, p vault.ApplicationParams) (*vault.Applied[vault.Application], error) {
	return observe(ctx, a, "ApplyApplication", func(ctx context.Context) (*vault.Applied[vault.Application], error) {
		return a.API.ApplyApplication(ctx, p)
	})
}

// ApplyReactor is the operation of that name, within a span.
func (a *api) ApplyReactor(ctx context.Context, p vault.ReactorParams) (*vault.Applied[vault.Reactor], error) {
	return observe(ctx, a, "ApplyReactor", func(ctx context.Context) (*vault.Applied[vault.Reactor], error) { return a.API.ApplyReactor(ctx, p) })
}

// ApplyProxy is the operation of that name, within a span.
func (a *api) ApplyProxy(ctx context.Context, p vault.ProxyParams) (*vault.Applied[vault.Proxy], error) {
	return observe(ctx, a, "ApplyProxy", func(ctx context.Context) (*vault.Applied[vault.Proxy], error) { return a.API.ApplyProxy(ctx, p) })
}

// EraseTokens is the operation of that name, within a span.
func (a *api) EraseTokens(ctx context.Context, p vault.EraseParams) (*vault.Erasure, error) {
	return observe(ctx, a, "EraseTokens", func(ctx context.Context) (*vault.Erasure, error) { return a.API.EraseTokens(ctx, p) })
}
