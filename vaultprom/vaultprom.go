// Package vaultprom reports a vault to Prometheus, with the metrics of tokenvault serve.
// The alerts and the dashboard of examples/deploy work with both.
//
//	metrics := vaultprom.New(nil)
//	v, err := vault.Open(ctx, store, key, &vault.Config{Observer: metrics})
//	metrics.Watch(v)
//	prometheus.MustRegister(metrics)
//	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, &httpserver.Options{Observer: metrics})))
//	mux.Handle("/metrics", promhttp.Handler())
package vaultprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-72ea4aab/vault/vaultmetrics"
)

// Collector is the collector of a vault. It is also the observer that counts the
// vault's work: see [vaultmetrics.Metrics].
type Collector struct{ *vaultmetrics.Metrics }

var _ prometheus.Collector = Collector{}

// New returns a collector without figures of a vault: call Watch when the vault is
// open. opts may be nil.
func New(opts *vaultmetrics.Options) Collector { return Collector{vaultmetrics.New(opts)} }

// families has the metrics by name.
var families = func() map[string]vaultmetrics.Family {
	all := map[string]vaultmetrics.Family{}
	for _, f := range vaultmetrics.Families() {
		all[f.Name] = f
	}
	return all
}()

var bounds = vaultmetrics.Bounds()

// Describe implements [prometheus.Collector]. It describes nothing, because the
// labels depend on the vault.
func (Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c Collector) Collect(all chan<- prometheus.Metric) {
	c.Metrics.Collect(func(s vaultmetrics.Sample) { all <- metric(s) })
}

// metric returns a sample for Prometheus.
func metric(s vaultmetrics.Sample) prometheus.Metric {
	f := families[s.Name]
	labels := prometheus.Labels{}
	for _, l := range s.Labels {
		labels[l.Name] = l.Value
	}
	desc := prometheus.NewDesc(f.Name, f.Help, nil, labels)
	switch f.Type {
	case vaultmetrics.Durations:
		upTo := map[float64]uint64{}
		for i, bound := range bounds {
			upTo[bound] = s.Histogram.Buckets[i]
		}
		return prometheus.MustNewConstHistogram(desc, s.Histogram.Count, s.Histogram.Sum, upTo)
	case vaultmetrics.Counter:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.Value)
	default:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.Value)
	}
}
