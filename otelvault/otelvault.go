// Package otelvault reports the work of a vault to OpenTelemetry. It records
// spans and metrics of HTTP requests, operations, jobs, sweeps, requests to
// destinations and calls of the master key. It also records the metrics of
// tokenvault serve, under the same names, so that the alerts and the dashboard of
// examples/deploy work with an exporter to Prometheus.
//
//	t, err := otelvault.New(nil)
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: t})
//	t.Watch(v)
//	handler := t.Handler(httpserver.Handler(v, &httpserver.Options{Observer: t}))
//	remote, err := vaultclient.New(url, key, &vaultclient.Options{Observer: t})
//
// It is a separate module, so that programs without OpenTelemetry do not
// depend on it. Spans and metrics contain names, ids and statuses, never a
// value.
package otelvault

import (
	"context"
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
	"github.com/seed-72ea4aab/vault/vaultmetrics"
)

// scope is the name of this package in OpenTelemetry.
const scope = "github.com/seed-72ea4aab/vault/otelvault"

// Options selects the destination of spans and metrics. The zero value means
// the global providers.
type Options struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Metrics adjusts the metrics that tokenvault serve has too.
	Metrics vaultmetrics.Options
}

// Telemetry is a [vault.Observer] and an [httpserver.Observer]. It is safe
// for concurrent use.
type Telemetry struct {
	tracer trace.Tracer
	meter  metric.Meter
	// The W3C format, which the vault itself also propagates.
	propagator propagation.TraceContext

	requests, work, operations, seconds metric.Float64Histogram

	metrics *vaultmetrics.Metrics
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
	t := &Telemetry{
		tracer: o.TracerProvider.Tracer(scope), meter: o.MeterProvider.Meter(scope), metrics: vaultmetrics.New(&o.Metrics),
	}
	for _, h := range []struct {
		dst         *metric.Float64Histogram
		name, about string
	}{
		{&t.requests, "http.server.request.duration", "Duration of requests to the API of the vault."},
		{&t.work, "vault.work.duration", "Duration of jobs, sweeps, requests to destinations and calls of the master key."},
		{&t.operations, "vault.operation.duration", "Duration of operations."},
	} {
		var err error
		if *h.dst, err = t.durations(h.name, h.about); err != nil {
			return nil, err
		}
	}
	return t, t.report()
}

// durations returns a histogram of durations, with buckets in fractions of a second.
func (t *Telemetry) durations(name, about string) (metric.Float64Histogram, error) {
	return t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(vaultmetrics.Bounds()...))
}

// report reports the metrics that tokenvault serve has too.
func (t *Telemetry) report() error {
	all := map[string]metric.Float64Observable{}
	var instruments []metric.Observable
	for _, f := range vaultmetrics.Families() {
		var err error
		switch f.Type {
		case vaultmetrics.Durations:
			t.seconds, err = t.durations(f.Name, f.Help)
		case vaultmetrics.Counter:
			all[f.Name], err = t.meter.Float64ObservableCounter(f.Name, metric.WithDescription(f.Help))
		case vaultmetrics.Gauge:
			all[f.Name], err = t.meter.Float64ObservableGauge(f.Name, metric.WithDescription(f.Help))
		}
		if err != nil {
			return err
		}
		if one := all[f.Name]; one != nil {
			instruments = append(instruments, one)
		}
	}
	_, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.metrics.Collect(func(s vaultmetrics.Sample) {
			if one := all[s.Name]; one != nil {
				o.ObserveFloat64(one, s.Value, metric.WithAttributes(labels(s.Labels)...))
			}
		})
		return nil
	}, instruments...)
	return err
}

func labels(all []vaultmetrics.Label) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(all))
	for i, l := range all {
		out[i] = attribute.String(l.Name, l.Value)
	}
	return out
}

// Watch adds the figures of an open vault: its tokens, jobs, keys, sinks, evidence,
// connections and runtime. It is called once, when the vault is open.
func (t *Telemetry) Watch(v *vault.Vault) { t.metrics.Watch(v) }

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
	_, counted := t.metrics.Start(ctx, w)
	return ctx, func(err error) {
		counted(err)
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
	t.seconds.Record(ctx, r.Duration.Seconds(), metric.WithAttributes(attribute.String("method", r.Method), attribute.String("route", r.Route)))
	t.metrics.Observe(ctx, r)
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
