// Package otelvault reports the work of a vault to OpenTelemetry. It records
// spans and metrics of HTTP requests, operations, jobs, sweeps, requests to
// destinations and calls of the master key. It also records metrics of
// database connection pools.
//
//	t, err := otelvault.New(nil)
//	store, err := postgres.Open(ctx, url)
//	err = t.WatchPools(store)
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: t})
//	handler := t.Handler(httpserver.Handler(v, &httpserver.Options{Observer: t}))
//	remote, err := vaultclient.New(url, key, &vaultclient.Options{Observer: t})
//
// It is a separate module, so that programs without OpenTelemetry do not
// depend on it. Spans and metrics contain names, ids and statuses, never a
// value.
package otelvault

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// scope is the name of this package in OpenTelemetry.
const scope = "github.com/seed-72ea4aab/vault/otelvault"

// Options selects the destination of spans and metrics. The zero value means
// the global providers.
type Options struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
}

// Telemetry is a [vault.Observer] and an [httpserver.Observer]. It is safe
// for concurrent use.
type Telemetry struct {
	tracer trace.Tracer
	meter  metric.Meter
	// The W3C format, which the vault itself also propagates.
	propagator propagation.TraceContext

	requests, work, operations metric.Float64Histogram
}

var (
	_ vault.Observer      = (*Telemetry)(nil)
	_ httpserver.Observer = (*Telemetry)(nil)
)

// New returns a Telemetry. opts may be nil.
func New(opts *Options) (*Telemetry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope), meter: o.MeterProvider.Meter(scope)}
	for _, h := range []struct {
		dst         *metric.Float64Histogram
		name, about string
	}{
		{&t.requests, "http.server.request.duration", "Duration of requests to the API of the vault."},
		{&t.work, "vault.work.duration", "Duration of jobs, sweeps, requests to destinations and calls of the master key."},
		{&t.operations, "vault.operation.duration", "Duration of operations."},
	} {
		var err error
		if *h.dst, err = t.meter.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.about)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Start implements [vault.Observer]. A job continues the trace of the request
// that created it, and a request to a destination propagates the trace.
func (t *Telemetry) Start(ctx context.Context, w vault.Event) (context.Context, func(error)) {
	if w.Kind == vault.EventCall {
		return t.startCall(ctx, w)
	}
	if w.Kind == vault.EventJob && w.Traceparent != "" {
		ctx = t.propagator.Extract(ctx, propagation.MapCarrier{"traceparent": w.Traceparent})
	}
	kind := trace.SpanKindInternal
	if w.Kind == vault.EventEgress || w.Kind == vault.EventKey {
		kind = trace.SpanKindClient
	}
	attrs := []attribute.KeyValue{attribute.String("vault.work", string(w.Kind)), attribute.String("vault.work.name", w.Name)}
	start := time.Now()
	ctx, span := t.tracer.Start(ctx, "vault."+string(w.Kind)+" "+w.Name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...),
		trace.WithAttributes(who(w.TenantID, w.TraceID)...))
	if w.Header != nil {
		t.propagator.Inject(ctx, propagation.HeaderCarrier(w.Header))
	}
	return ctx, func(err error) {
		t.work.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(append(attrs, failed(err))...))
		end(span, err)
	}
}

// startCall starts the span of an operation, in process or over HTTP. The
// requests that the operation sends continue the trace.
func (t *Telemetry) startCall(ctx context.Context, w vault.Event) (context.Context, func(error)) {
	operation := attribute.String("vault.operation", w.Method)
	start := time.Now()
	ctx, span := t.tracer.Start(ctx, "vault."+w.Method, trace.WithAttributes(operation), trace.WithAttributes(who(w.TenantID, w.TraceID)...))
	carried := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carried)
	ctx = vault.WithTraceparent(ctx, carried["traceparent"], carried["tracestate"])
	return ctx, func(err error) {
		t.operations.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(operation, failed(err)))
		end(span, err)
	}
}

// who returns attributes for the tenant and the vault's trace id, if they are
// known.
func who(tenant uuid.UUID, traceID string) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if tenant != (uuid.UUID{}) {
		attrs = append(attrs, attribute.String("vault.tenant_id", tenant.String()))
	}
	if traceID != "" {
		attrs = append(attrs, attribute.String("vault.trace_id", traceID))
	}
	return attrs
}

func failed(err error) attribute.KeyValue { return attribute.Bool("error", err != nil) }

// end ends a span. Errors of the vault contain no values, but errors of a
// master key or a database may, so the span records only that there was an
// error.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}

// Handler wraps next, the API of a vault, in a handler that starts a span for
// each request. The span continues the trace of the request's traceparent,
// and is the parent of the vault's spans. To name the span by its route, use
// the Telemetry also as the Observer of next.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, "vault request", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Observe implements [httpserver.Observer]. It completes the span of a
// request and records its duration.
func (t *Telemetry) Observe(ctx context.Context, r httpserver.RequestInfo) {
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", r.Method), attribute.String("http.route", r.Route), attribute.Int("http.response.status_code", r.Status),
	}
	t.requests.Record(ctx, r.Duration.Seconds(), metric.WithAttributes(attrs...))
	span := trace.SpanFromContext(ctx)
	span.SetName(r.Method + " " + r.Route)
	span.SetAttributes(attrs...)
	span.SetAttributes(who(r.TenantID, r.TraceID)...)
	if r.ApplicationID != (uuid.UUID{}) {
		span.SetAttributes(attribute.String("vault.application_id", r.ApplicationID.String()))
	}
	if r.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "failed")
	}
}

// Pools is a storage that reports its connection pools. The storages of this
// module do.
type Pools interface {
	Pools() map[string]sql.DBStats
}

// WatchPools reports the connection pools of a storage until the program
// ends: open and used connections, and how often and how long callers waited
// for one.
func (t *Telemetry) WatchPools(store Pools) error {
	open, err1 := t.meter.Int64ObservableGauge("vault.pool.open", metric.WithDescription("Open connections of a pool."))
	used, err2 := t.meter.Int64ObservableGauge("vault.pool.used", metric.WithDescription("Connections of a pool that are in use."))
	waits, err3 := t.meter.Int64ObservableCounter("vault.pool.waits", metric.WithDescription("How often a caller waited for a connection."))
	waited, err4 := t.meter.Float64ObservableCounter("vault.pool.waited", metric.WithUnit("s"), metric.WithDescription("How long callers waited for connections."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	_, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, s := range store.Pools() {
			pool := metric.WithAttributes(attribute.String("vault.pool", name))
			o.ObserveInt64(open, int64(s.OpenConnections), pool)
			o.ObserveInt64(used, int64(s.InUse), pool)
			o.ObserveInt64(waits, s.WaitCount, pool)
			o.ObserveFloat64(waited, s.WaitDuration.Seconds(), pool)
		}
		return nil
	}, open, used, waits, waited)
	return err
}
