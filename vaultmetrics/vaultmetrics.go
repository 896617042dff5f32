// Package vaultmetrics counts and times the work of a vault, under the names that the
// alerts and the dashboard of examples/deploy use. It sends nothing anywhere: package
// vaultprom passes the metrics to Prometheus, module otelvault to OpenTelemetry, and
// both have the names of tokenvault serve.
//
// Metrics have names, ids and statuses, never a value.
package vaultmetrics

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// Options adjusts [New].
type Options struct {
	// CertificateExpiry, if set, returns when the TLS certificate of the program
	// expires, for an alert before that.
	CertificateExpiry func() time.Time
}

// Metrics counts the work of a vault. It is a [vault.Observer] and an
// [httpserver.Observer], and safe for concurrent use.
type Metrics struct {
	opts  Options
	calls counts
	times histograms

	reading sync.Mutex // held while totals are read
	totals  totals

	mu           sync.Mutex
	vault        *vault.Vault
	applications map[uuid.UUID]bool // that have a label
}

var (
	_ vault.Observer      = (*Metrics)(nil)
	_ httpserver.Observer = (*Metrics)(nil)
)

// New returns metrics without figures of a vault: see [Metrics.Watch]. opts may be
// nil.
func New(opts *Options) *Metrics {
	m := &Metrics{applications: map[uuid.UUID]bool{}}
	if opts != nil {
		m.opts = *opts
	}
	for metric, names := range map[string][]string{
		alarms: {"altered", "unreadable", "rolled_back"}, keyFailures: {"encrypt", "decrypt"}, runFailures: {"reactor", "proxy"},
	} {
		for _, name := range names {
			m.calls.add(count{metric: metric, a: name}, 0) // so that the first one is an increase
		}
	}
	return m
}

// Watch adds the figures of an open vault: its tokens, jobs, keys, sinks, evidence,
// connections and runtime. It is called once, when the vault is open.
func (m *Metrics) Watch(v *vault.Vault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vault = v
}

// Start implements [vault.Observer]. It counts alarms, echoes, failed calls to the
// master key and failed runs.
func (m *Metrics) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	failures := ""
	switch e.Kind {
	case vault.EventAlarm:
		m.calls.add(count{metric: alarms, a: e.Name}, 1)
	case vault.EventEcho:
		m.calls.add(count{metric: echoes, a: m.application(e.EntityID)}, 1)
	case vault.EventKey:
		failures = keyFailures
	case vault.EventRun:
		failures = runFailures
	default: // counted elsewhere, or not at all
	}
	return ctx, func(err error) {
		if err != nil && failures != "" {
			m.calls.add(count{metric: failures, a: e.Name}, 1)
		}
	}
}

// Observe implements [httpserver.Observer]. It counts and times a request.
func (m *Metrics) Observe(_ context.Context, r httpserver.RequestInfo) {
	m.calls.add(count{metric: requests, a: r.Method, b: r.Route, status: r.Status}, 1)
	m.times.observe(r.Method, r.Route, r.Duration)
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		m.calls.add(count{metric: refusals, a: m.application(r.ApplicationID), status: r.Status}, 1)
	}
	if r.Replayed {
		m.calls.add(count{metric: replays, a: r.Method, b: r.Route}, 1)
	}
}

// mostApplications bounds the applications that label a metric. Later ones share
// the label "other".
const mostApplications = 100

// application returns the label of an application. A caller that was not
// authenticated has the label "".
func (m *Metrics) application(id uuid.UUID) string {
	if id == (uuid.UUID{}) {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.applications) < mostApplications {
		m.applications[id] = true
	}
	if m.applications[id] {
		return id.String()
	}
	return "other"
}

// count identifies a counter: its metric and the values of its labels.
type count struct {
	metric, a, b string
	status       int
}

// labels returns the labels of a counter.
func (c count) labels() []Label {
	status := Label{"status", strconv.Itoa(c.status)}
	switch c.metric {
	case requests:
		return []Label{{"method", c.a}, {"route", c.b}, status}
	case replays:
		return []Label{{"method", c.a}, {"route", c.b}}
	case refusals:
		return []Label{{"application", c.a}, status}
	case echoes:
		return []Label{{"application", c.a}}
	default:
		return []Label{{"name", c.a}}
	}
}

// counts are the counters that are in use.
type counts struct {
	mu  sync.Mutex
	all map[count]float64
}

func (c *counts) add(which count, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[count]float64{}
	}
	c.all[which] += n
}

func (c *counts) report(r reporter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for which, n := range c.all {
		r(Sample{Name: which.metric, Labels: which.labels(), Value: n})
	}
}

// histograms are the durations of requests by method and route.
type histograms struct {
	mu  sync.Mutex
	all map[[2]string]*Histogram
}

func (h *histograms) observe(method, route string, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[[2]string]*Histogram{}
	}
	one := h.all[[2]string{method, route}]
	if one == nil {
		one = &Histogram{Buckets: make([]uint64, len(buckets))}
		h.all[[2]string{method, route}] = one
	}
	one.Count++
	one.Sum += took.Seconds()
	for i := len(buckets) - 1; i >= 0 && took.Seconds() <= buckets[i]; i-- {
		one.Buckets[i]++
	}
}

func (h *histograms) report(r reporter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, one := range h.all {
		shown := *one
		shown.Buckets = append([]uint64(nil), one.Buckets...)
		r(Sample{Name: seconds, Labels: []Label{{"method", key[0]}, {"route", key[1]}}, Histogram: &shown})
	}
}
