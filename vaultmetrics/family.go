package vaultmetrics

import "slices"

// Type is the type of a metric.
type Type uint8

// The types.
const (
	Counter   Type = iota + 1 // only grows while the program runs
	Gauge                     // goes up and down
	Durations                 // a histogram of seconds, with the bounds of [Bounds]
)

// Family describes a metric.
type Family struct {
	Name, Help string
	Type       Type
}

// Label is a label of a sample.
type Label struct{ Name, Value string }

// Sample is a figure: a metric with values for its labels. Labels are in the same order
// in all samples of a metric.
type Sample struct {
	Name   string
	Labels []Label
	Value  float64
	// Histogram takes the place of Value if the metric has the type Durations.
	Histogram *Histogram
}

// Histogram counts durations.
type Histogram struct {
	Count uint64
	Sum   float64 // seconds
	// Buckets has, for each bound of [Bounds], the number of durations up to it.
	Buckets []uint64
}

// buckets double from half a millisecond to 16 seconds.
var buckets = func() []float64 {
	all := []float64{0.0005}
	for len(all) < 16 {
		all = append(all, 2*all[len(all)-1])
	}
	return all
}()

// Bounds returns the upper bounds of the buckets of durations, in seconds.
func Bounds() []float64 { return slices.Clone(buckets) }

// Names of metrics that events change.
const (
	requests    = "vault_http_requests_total"
	replays     = "vault_http_replays_total"
	refusals    = "vault_http_refusals_total"
	echoes      = "vault_echoes_total"
	seconds     = "vault_http_request_duration_seconds"
	alarms      = "vault_alarms_total"
	keyFailures = "vault_master_key_failures_total"
	runFailures = "vault_run_failures_total"
)

// families lists every metric.
var families = []Family{
	{requests, "Requests by method, route and status.", Counter},
	{replays, "Responses replayed for an idempotency key.", Counter},
	{refusals, "Responses 401, 403 and 429, by application. The first 100 applications have a label.", Counter},
	{echoes, "Requests in whose responses data was replaced, by application. The first 100 applications have a label.", Counter},
	{seconds, "How long requests took.", Durations},
	{alarms, "Rows of the database that were altered or do not open, by name of the alarm.", Counter},
	{keyFailures, "Calls to the master key that failed: encrypt, decrypt.", Counter},
	{runFailures, "Runs of tenants' code that failed: reactor, proxy.", Counter},

	{"vault_tenants", "Tenants that can be read.", Gauge},
	{"vault_tenants_unreadable", "Tenants whose rows were altered or do not open.", Gauge},
	{"vault_tokens", "Tokens of the newest 200 tenants.", Gauge},
	{"vault_jobs", "Jobs of the newest 200 tenants, by state. Dead jobs have failed for good.", Gauge},
	{"vault_data_keys", "Data keys of the newest 200 tenants, by state.", Gauge},
	{"vault_data_key_oldest_timestamp_seconds", "When the oldest data key that still seals was made, of the newest 200 tenants.", Gauge},
	{"vault_tenant_keys", "Keys of tenants that this node uses, by state.", Gauge},
	{"vault_clock_ahead_seconds", "How far the clock of this node is ahead of the database's.", Gauge},
	{"vault_tls_certificate_expiry_timestamp_seconds", "When the TLS certificate expires.", Gauge},

	{"vault_db_connections", "Connections to the database.", Gauge},
	{"vault_db_connections_max", "Most connections that a pool opens; 0 for no limit.", Gauge},
	{"vault_db_wait_seconds_total", "Time that calls waited for a free connection.", Counter},
	{"vault_runtime_crashes_total", "Failures of the JavaScript engine, which the log describes.", Counter},
	{"vault_runtime_waiting", "Runs of code that wait for a worker.", Gauge},

	{"vault_sink_lag_seconds", "Age of the oldest log entry that this node has not sent.", Gauge},
	{"vault_sink_lag_entries", "Log entries that wait, up to 500 of each tenant.", Gauge},
	{"vault_sink_last_success_timestamp_seconds", "When the sink last accepted a batch of this node.", Gauge},
	{"vault_sink_failures_total", "Batches that could not be sent.", Counter},
	{"vault_sink_entries_total", "Log entries that the sink accepted.", Counter},
	{"vault_sink_refused_total", "Log entries that the sink refused, and that were skipped.", Counter},

	{"vault_evidence_size", "Leaves of the vault's tree.", Gauge},
	{"vault_evidence_lag_seconds", "Age of the oldest log entry of this node that is in no tree.", Gauge},
	{"vault_evidence_pending", "Log entries of this node that are in no tree.", Gauge},
	{"vault_evidence_suspended", "1 if nothing is signed because the database was restored or contradicts a note.", Gauge},
	{"vault_evidence_last_checkpoint_timestamp_seconds", "When the newest note was signed.", Gauge},
	{"vault_evidence_last_verification_timestamp_seconds", "When all logs were last verified.", Gauge},
	{"vault_evidence_verified", "1 if that verification found no tampering.", Gauge},
	{"vault_evidence_alarms_total", "Alarms that were raised, by kind.", Counter},
	{"vault_evidence_alarms", "Alarms that are active, by kind.", Gauge},
	{"vault_evidence_anchor_failures_total", "Calls of an anchor that failed.", Counter},
	{"vault_evidence_anchor_last_success_timestamp_seconds", "When an anchor last responded.", Gauge},
}

// Families returns a description of every metric.
func Families() []Family { return slices.Clone(families) }
