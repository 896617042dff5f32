package serve

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/script"
)

// metrics counts and times requests for Prometheus.
type metrics struct {
	handler  http.Handler
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	replays  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	alarms   *prometheus.CounterVec
}

// newMetrics returns the metrics of a server whose runtime reports the given figures.
func newMetrics(runtime func() script.Stats) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vault_http_requests_total", Help: "Requests by method, route and status.",
		}, []string{"method", "route", "status"}),
		replays: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vault_http_replays_total", Help: "Responses replayed for an idempotency key.",
		}, []string{"method", "route"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vault_http_request_duration_seconds", Help: "How long requests took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"method", "route"}),
		alarms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vault_alarms_total", Help: "Rows of the database that were altered or do not open, by name of the alarm.",
		}, []string{"name"}),
	}
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.requests, m.replays, m.seconds, m.alarms,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "vault_runtime_crashes_total", Help: "Failures of the JavaScript engine, which the log describes.",
		}, func() float64 { return float64(runtime().Crashes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "vault_runtime_waiting", Help: "Runs of code that wait for a worker.",
		}, func() float64 { return float64(runtime().Waiting) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// metricsPath is the path of the metrics.
const metricsPath = "/metrics"

// probes returns a handler for the metrics and the probes of the API.
func (m *metrics) probes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(metricsPath, m.handler)
	mux.Handle("/readyz", api)
	mux.Handle("/healthz", api)
	return mux
}

// watch adds the figures about the sinks, the evidence and the clock of an open
// vault.
func (m *metrics) watch(v *vault.Vault) {
	m.registry.MustRegister(sinkMetrics{v}, evidenceMetrics{v}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vault_clock_ahead_seconds", Help: "How far the clock of this node is ahead of the database's.",
	}, func() float64 { return v.ClockAhead().Seconds() }))
}

// Start implements vault.Observer. It counts alarms.
func (m *metrics) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		m.alarms.WithLabelValues(e.Name).Inc()
	}
	return ctx, func(error) {}
}

// Observe implements httpserver.Observer.
func (m *metrics) Observe(_ context.Context, r httpserver.RequestInfo) {
	m.requests.WithLabelValues(r.Method, r.Route, strconv.Itoa(r.Status)).Inc()
	m.seconds.WithLabelValues(r.Method, r.Route).Observe(r.Duration.Seconds())
	if r.Replayed {
		m.replays.WithLabelValues(r.Method, r.Route).Inc()
	}
}
