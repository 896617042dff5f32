package serve

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-72ea4aab/vault/vaultmetrics"
	"github.com/seed-72ea4aab/vault/vaultprom"
)

// metrics are the metrics of the server, for Prometheus.
type metrics struct {
	vaultprom.Collector
	handler http.Handler
}

// newMetrics returns the metrics of a server with a certificate, or with nil.
func newMetrics(cert *certificate) *metrics {
	opts := &vaultmetrics.Options{}
	if cert != nil {
		opts.CertificateExpiry = func() time.Time { return cert.pair.Load().Leaf.NotAfter }
	}
	m := &metrics{Collector: vaultprom.New(opts)}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
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
