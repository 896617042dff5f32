package vaultmetrics

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// reporter takes samples.
type reporter func(Sample)

// value reports a figure. Labels are names and values in turns.
func (r reporter) value(name string, value float64, labels ...string) {
	s := Sample{Name: name, Value: value}
	for pair := range slices.Chunk(labels, 2) {
		s.Labels = append(s.Labels, Label{pair[0], pair[1]})
	}
	r(s)
}

func (r reporter) number(name string, n int64, labels ...string) {
	r.value(name, float64(n), labels...)
}

// yes reports 1 for true and 0 for false.
func (r reporter) yes(name string, yes bool) {
	n := int64(0)
	if yes {
		n = 1
	}
	r.number(name, n)
}

// time reports a time, unless it is zero.
func (r reporter) time(name string, at time.Time, labels ...string) {
	if !at.IsZero() {
		r.value(name, float64(at.UnixMilli())/1000, labels...)
	}
}

// Collect calls yield with the current samples, in any order. Figures of the database
// are read at most every 15 seconds, and left out while the database does not respond.
// Several calls may run at once.
func (m *Metrics) Collect(yield func(Sample)) {
	r := reporter(yield)
	m.calls.report(r)
	m.times.report(r)
	if m.opts.CertificateExpiry != nil {
		r.time("vault_tls_certificate_expiry_timestamp_seconds", m.opts.CertificateExpiry())
	}
	v, sum := m.read()
	if v == nil {
		return
	}
	r.value("vault_clock_ahead_seconds", v.ClockAhead().Seconds())
	for state, n := range v.TenantKeyStates() {
		r.number("vault_tenant_keys", int64(n), "state", string(state))
	}
	if sum != nil {
		reportTotals(r, sum)
	}
	reportHost(r, v)
	reportSinks(r, v)
	reportEvidence(r, v)
}

// totals are figures of the database. They are read at most every totalsAge.
type totals struct {
	last *vault.Totals
	at   time.Time
}

const (
	totalsAge     = 15 * time.Second
	totalsTimeout = 5 * time.Second
	// totalsTenants bounds the tenants whose figures are added up.
	totalsTenants = 200
)

// read returns the vault and its totals. Either may be nil.
func (m *Metrics) read() (*vault.Vault, *vault.Totals) {
	m.reading.Lock()
	defer m.reading.Unlock()
	m.mu.Lock()
	v := m.vault
	m.mu.Unlock()
	if v != nil && time.Since(m.totals.at) > totalsAge {
		ctx, cancel := context.WithTimeout(context.Background(), totalsTimeout)
		defer cancel()
		m.totals.last, _ = v.Totals(ctx, totalsTenants) // without figures, an alert on their absence fires
		m.totals.at = time.Now()
	}
	return v, m.totals.last
}

func reportTotals(r reporter, s *vault.Totals) {
	r.number("vault_tenants", int64(s.Tenants))
	r.number("vault_tenants_unreadable", int64(s.Unreadable))
	r.number("vault_tokens", int64(s.Tokens))
	for state, n := range map[string]int{"waiting": s.Jobs.Waiting, "running": s.Jobs.Running, "dead": s.Jobs.Dead} {
		r.number("vault_jobs", int64(n), "state", state)
	}
	for _, state := range []string{"pending", "primary", "retired", "destroyed"} {
		r.number("vault_data_keys", int64(s.Keys[state]), "state", state)
	}
	if len(s.SealedSince) > 0 {
		r.time("vault_data_key_oldest_timestamp_seconds", slices.MinFunc(s.SealedSince, time.Time.Compare))
	}
}

// reportHost reports the connections to the database and the runtime of code.
func reportHost(r reporter, v *vault.Vault) {
	for name, p := range v.Pools() {
		r.number("vault_db_connections", int64(p.InUse), "pool", name, "state", "in_use")
		r.number("vault_db_connections", int64(p.Idle), "pool", name, "state", "idle")
		r.number("vault_db_connections_max", int64(p.MaxOpenConnections), "pool", name)
		r.value("vault_db_wait_seconds_total", p.WaitDuration.Seconds(), "pool", name)
	}
	if s := v.Workers(); s != nil {
		r.number("vault_runtime_crashes_total", int64(s.Crashes))
		r.number("vault_runtime_waiting", int64(s.Waiting))
	}
}

func reportSinks(r reporter, v *vault.Vault) {
	for name, h := range v.SinkHealth() {
		r.value("vault_sink_lag_seconds", h.Lag(v.Now()).Seconds(), "sink", name)
		r.number("vault_sink_lag_entries", int64(h.Behind), "sink", name)
		r.time("vault_sink_last_success_timestamp_seconds", h.LastSuccess, "sink", name)
		r.number("vault_sink_failures_total", h.Failures, "sink", name)
		r.number("vault_sink_entries_total", h.Sent, "sink", name)
		r.number("vault_sink_refused_total", h.Refused, "sink", name)
	}
}

// reportEvidence reports the state of the evidence, if it is on.
func reportEvidence(r reporter, v *vault.Vault) {
	s, err := v.EvidenceStatus()
	if err != nil {
		return
	}
	r.number("vault_evidence_size", s.Size)
	r.value("vault_evidence_lag_seconds", s.Lag.Seconds())
	r.number("vault_evidence_pending", int64(s.Pending))
	r.yes("vault_evidence_suspended", s.Suspended != "")
	r.time("vault_evidence_last_checkpoint_timestamp_seconds", s.SignedAt)
	r.time("vault_evidence_last_verification_timestamp_seconds", s.VerifiedAt)
	if !s.VerifiedAt.IsZero() {
		r.yes("vault_evidence_verified", s.VerifiedOK)
	}
	active := map[vault.AlarmKind]int{}
	for _, a := range s.Alarms {
		active[a.Kind]++
	}
	for _, kind := range []vault.AlarmKind{vault.AlarmTampered, vault.AlarmMissing, vault.AlarmLag, vault.AlarmStalled, vault.AlarmRestore, vault.AlarmForked, vault.AlarmAnchor} {
		r.number("vault_evidence_alarms_total", s.Raised[kind], "kind", string(kind))
		r.number("vault_evidence_alarms", int64(active[kind]), "kind", string(kind))
	}
	for i, a := range s.Anchors {
		name := strconv.Itoa(i + 1)
		r.number("vault_evidence_anchor_failures_total", a.Failures, "anchor", name)
		r.time("vault_evidence_anchor_last_success_timestamp_seconds", a.GoodAt, "anchor", name)
	}
}
