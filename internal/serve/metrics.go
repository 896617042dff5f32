package serve

import (
	"context"
	"database/sql"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
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
	refusals *prometheus.CounterVec

	alarms, keyFailures, runFailures *prometheus.CounterVec

	mu           sync.Mutex
	applications map[uuid.UUID]bool // that have a label
}

// newMetrics returns the metrics of a server whose runtime reports the given figures.
func newMetrics(runtime func() script.Stats) *metrics {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		requests: count("vault_http_requests_total", "Requests by method, route and status.", "method", "route", "status"),
		replays:  count("vault_http_replays_total", "Responses replayed for an idempotency key.", "method", "route"),
		refusals: count("vault_http_refusals_total", "Responses 401, 403 and 429, by application. The first 100 applications have a label.", "application", "status"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vault_http_request_duration_seconds", Help: "How long requests took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"method", "route"}),
		alarms:       count("vault_alarms_total", "Rows of the database that were altered or do not open, by name of the alarm.", "name"),
		keyFailures:  count("vault_master_key_failures_total", "Calls to the master key that failed: encrypt, decrypt.", "name"),
		runFailures:  count("vault_run_failures_total", "Runs of tenants' code that failed: reactor, proxy.", "name"),
		applications: map[uuid.UUID]bool{},
	}
	for vec, names := range map[*prometheus.CounterVec][]string{
		m.alarms: {"altered", "unreadable", "rolled_back"}, m.keyFailures: {"encrypt", "decrypt"}, m.runFailures: {"reactor", "proxy"},
	} {
		for _, name := range names {
			vec.WithLabelValues(name) // so that the first one is an increase
		}
	}
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.requests, m.replays, m.refusals, m.seconds, m.alarms, m.keyFailures, m.runFailures,
		collector(func(r reporter) {
			r.count("vault_runtime_crashes_total", "Failures of the JavaScript engine, which the log describes.", float64(runtime().Crashes))
			r.gauge("vault_runtime_waiting", "Runs of code that wait for a worker.", float64(runtime().Waiting))
		}),
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

// watch adds the figures of an open vault and its database.
func (m *metrics) watch(v *vault.Vault, store vault.Storage, cert *certificate) {
	m.registry.MustRegister(
		collector(func(r reporter) { reportSinks(r, v.SinkHealth()) }),
		collector(func(r reporter) { reportEvidence(r, v) }),
		collector(func(r reporter) { reportPools(r, store) }),
		collector(func(r reporter) {
			for state, n := range v.TenantKeyStates() {
				r.gauge("vault_tenant_keys", "Keys of tenants that this node uses, by state.", float64(n), "state", string(state))
			}
		}),
		collector((&totals{vault: v}).report),
		collector(func(r reporter) {
			r.gauge("vault_clock_ahead_seconds", "How far the clock of this node is ahead of the database's.", v.ClockAhead().Seconds())
			if cert != nil {
				r.time("vault_tls_certificate_expiry_timestamp_seconds", "When the TLS certificate expires.", cert.pair.Load().Leaf.NotAfter)
			}
		}))
}

// collector is a prometheus.Collector that finds its figures when it is asked.
type collector func(reporter)

// Describe implements prometheus.Collector. It describes nothing, because the
// labels depend on the vault.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(all chan<- prometheus.Metric) { c(all) }

// reporter takes figures. Labels are names and values in turns.
type reporter chan<- prometheus.Metric

func (r reporter) send(typ prometheus.ValueType, name, help string, value float64, labels []string) {
	set := prometheus.Labels{}
	for i := 0; i < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	r <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, set), typ, value)
}

func (r reporter) gauge(name, help string, value float64, labels ...string) {
	r.send(prometheus.GaugeValue, name, help, value, labels)
}

func (r reporter) count(name, help string, value float64, labels ...string) {
	r.send(prometheus.CounterValue, name, help, value, labels)
}

// time reports a time, unless it is zero.
func (r reporter) time(name, help string, at time.Time, labels ...string) {
	if !at.IsZero() {
		r.gauge(name, help, float64(at.UnixMilli())/1000, labels...)
	}
}

// reportPools reports the pools of database connections.
func reportPools(r reporter, store vault.Storage) {
	s, ok := store.(interface{ Pools() map[string]sql.DBStats })
	if !ok {
		return
	}
	for name, p := range s.Pools() {
		const help = "Connections to the database."
		r.gauge("vault_db_connections", help, float64(p.InUse), "pool", name, "state", "in_use")
		r.gauge("vault_db_connections", help, float64(p.Idle), "pool", name, "state", "idle")
		r.gauge("vault_db_connections_max", "Most connections that a pool opens; 0 for no limit.", float64(p.MaxOpenConnections), "pool", name)
		r.count("vault_db_wait_seconds_total", "Time that calls waited for a free connection.", p.WaitDuration.Seconds(), "pool", name)
	}
}

// totals are figures of the database. They are read at most every totalsAge.
type totals struct {
	vault *vault.Vault
	mu    sync.Mutex
	last  *vault.Totals
	at    time.Time
}

const (
	totalsAge     = 15 * time.Second
	totalsTimeout = 5 * time.Second
	// totalsTenants bounds the tenants whose figures are added up.
	totalsTenants = 200
)

// report reports the figures, and none while the database does not respond.
func (t *totals) report(r reporter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > totalsAge {
		ctx, cancel := context.WithTimeout(context.Background(), totalsTimeout)
		defer cancel()
		t.last, _ = t.vault.Totals(ctx, totalsTenants) // without figures, an alert on their absence fires
		t.at = time.Now()
	}
	s := t.last
	if s == nil {
		return
	}
	r.gauge("vault_tenants", "Tenants that can be read.", float64(s.Tenants))
	r.gauge("vault_tenants_unreadable", "Tenants whose rows were altered or do not open.", float64(s.Unreadable))
	r.gauge("vault_tokens", "Tokens of the newest 200 tenants.", float64(s.Tokens))
	for state, n := range map[string]int{"waiting": s.Jobs.Waiting, "running": s.Jobs.Running, "dead": s.Jobs.Dead} {
		r.gauge("vault_jobs", "Jobs of the newest 200 tenants, by state. Dead jobs have failed for good.", float64(n), "state", state)
	}
	for _, state := range []string{"pending", "primary", "retired", "destroyed"} {
		r.gauge("vault_data_keys", "Data keys of the newest 200 tenants, by state.", float64(s.Keys[state]), "state", state)
	}
	if len(s.SealedSince) > 0 {
		oldest := slices.MinFunc(s.SealedSince, time.Time.Compare)
		r.time("vault_data_key_oldest_timestamp_seconds", "When the oldest data key that still seals was made, of the newest 200 tenants.", oldest)
	}
}

// Start implements vault.Observer. It counts alarms, failed calls to the master key
// and failed runs.
func (m *metrics) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		m.alarms.WithLabelValues(e.Name).Inc()
	}
	var failures *prometheus.CounterVec
	if e.Kind == vault.EventKey {
		failures = m.keyFailures
	} else if e.Kind == vault.EventRun {
		failures = m.runFailures
	}
	return ctx, func(err error) {
		if err != nil && failures != nil {
			failures.WithLabelValues(e.Name).Inc()
		}
	}
}

// mostApplications bounds the applications that label a metric. Later ones share
// the label "other".
const mostApplications = 100

// refused counts a refusal. A caller that was not authenticated has no application.
func (m *metrics) refused(app uuid.UUID, status int) {
	name := ""
	if app != (uuid.UUID{}) {
		m.mu.Lock()
		if len(m.applications) < mostApplications {
			m.applications[app] = true
		}
		name = "other"
		if m.applications[app] {
			name = app.String()
		}
		m.mu.Unlock()
	}
	m.refusals.WithLabelValues(name, strconv.Itoa(status)).Inc()
}

// Observe implements httpserver.Observer.
func (m *metrics) Observe(_ context.Context, r httpserver.RequestInfo) {
	m.requests.WithLabelValues(r.Method, r.Route, strconv.Itoa(r.Status)).Inc()
	m.seconds.WithLabelValues(r.Method, r.Route).Observe(r.Duration.Seconds())
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		m.refused(r.ApplicationID, r.Status)
	}
	if r.Replayed {
		m.replays.WithLabelValues(r.Method, r.Route).Inc()
	}
}
