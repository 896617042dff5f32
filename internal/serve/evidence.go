package serve

import (
	"errors"
	"flag"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
)

// evidenceFlags configure the evidence of the audit log.
type evidenceFlags struct {
	origin  string
	verify  time.Duration
	anchors anchorList
}

// anchorTimeout bounds a call to an anchor behind a URL.
const anchorTimeout = 20 * time.Second

// anchorList is a flag that may be repeated.
type anchorList []string

func (l *anchorList) String() string { return strings.Join(*l, ",") }

// Set adds anchors. In an environment variable, commas separate them.
func (l *anchorList) Set(text string) error {
	for _, a := range strings.Split(text, ",") {
		if path, isFile := strings.CutPrefix(a, "file:"); isFile && path != "" {
			*l = append(*l, a)
			continue
		}
		if u, err := url.Parse(a); err != nil || u.Scheme != "https" || u.Host == "" {
			return errors.New("must be file:PATH or an https:// URL")
		}
		*l = append(*l, a)
	}
	return nil
}

func (c *Config) evidenceFlags(f *flag.FlagSet) {
	f.BoolVar(&c.Evidence, "evidence", c.Evidence, "make every change of the audit log detectable")
	f.StringVar(&c.evidence.origin, "evidence-origin", "", "`name` of the log in its signed notes; by default a random one, made once and stored")
	f.DurationVar(&c.evidence.verify, "evidence-verify-every", 12*time.Hour, "`time` between verifications of all logs in the background")
	f.Var(&c.evidence.anchors, "evidence-anchor", "where else to keep signed notes, `file:PATH` or an https:// URL; repeatable")
}

func (c *Config) checkEvidence() error {
	if len(c.evidence.anchors) > 0 && !c.Evidence {
		return errors.New("--evidence-anchor needs --evidence")
	}
	if c.evidence.verify < time.Minute {
		return errors.New("--evidence-verify-every must be at least 1m")
	}
	if c.evidence.origin == "" {
		return nil
	}
	return evidence.CheckOrigin(c.evidence.origin)
}

// evidenceConfig returns the evidence settings of the vault, or nil without
// evidence.
func (c *Config) evidenceConfig() *vault.EvidenceConfig {
	if !c.Evidence {
		return nil
	}
	out := &vault.EvidenceConfig{Origin: c.evidence.origin, VerifyEvery: c.evidence.verify}
	for _, a := range c.evidence.anchors {
		if path, ok := strings.CutPrefix(a, "file:"); ok {
			out.Anchors = append(out.Anchors, vault.AnchorFile(path))
			continue
		}
		out.Anchors = append(out.Anchors, vault.AnchorURL(a, &http.Client{Timeout: anchorTimeout}))
	}
	return out
}

// evidenceMetrics exports the state of the evidence.
type evidenceMetrics struct{ v *vault.Vault }

var (
	evidenceSize      = prometheus.NewDesc("vault_evidence_size", "Leaves of the vault's tree.", nil, nil)
	evidenceLag       = prometheus.NewDesc("vault_evidence_lag_seconds", "Age of the oldest log entry of this node that is in no tree.", nil, nil)
	evidencePending   = prometheus.NewDesc("vault_evidence_pending", "Log entries of this node that are in no tree.", nil, nil)
	evidenceSigned    = prometheus.NewDesc("vault_evidence_last_checkpoint_timestamp_seconds", "When the newest note was signed.", nil, nil)
	evidenceSuspended = prometheus.NewDesc("vault_evidence_suspended", "1 if nothing is signed because the database was restored or contradicts a note.", nil, nil)
	evidenceVerified  = prometheus.NewDesc("vault_evidence_last_verification_timestamp_seconds", "When this node last verified all logs.", nil, nil)
	evidenceGood      = prometheus.NewDesc("vault_evidence_verified", "1 if that verification found no tampering.", nil, nil)
	evidenceAlarms    = prometheus.NewDesc("vault_evidence_alarms_total", "Alarms that were raised, by kind.", []string{"kind"}, nil)
	evidenceActive    = prometheus.NewDesc("vault_evidence_alarms", "Alarms that are active, by kind.", []string{"kind"}, nil)
	anchorFailures    = prometheus.NewDesc("vault_evidence_anchor_failures_total", "Calls of an anchor that failed.", []string{"anchor"}, nil)
	anchorGood        = prometheus.NewDesc("vault_evidence_anchor_last_success_timestamp_seconds", "When an anchor last responded.", []string{"anchor"}, nil)
)

// Describe implements prometheus.Collector.
func (evidenceMetrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		evidenceSize, evidenceLag, evidencePending, evidenceSigned, evidenceSuspended, evidenceVerified, evidenceGood,
		evidenceAlarms, evidenceActive, anchorFailures, anchorGood,
	} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (m evidenceMetrics) Collect(all chan<- prometheus.Metric) {
	s, err := m.v.EvidenceStatus()
	if err != nil {
		return // evidence is off
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	at := func(d *prometheus.Desc, t time.Time, labels ...string) {
		if !t.IsZero() {
			gauge(d, float64(t.UnixMilli())/1000, labels...)
		}
	}
	gauge(evidenceSize, float64(s.Size))
	gauge(evidenceLag, s.Lag.Seconds())
	gauge(evidencePending, float64(s.Pending))
	gauge(evidenceSuspended, one(s.Suspended != ""))
	at(evidenceSigned, s.SignedAt)
	at(evidenceVerified, s.VerifiedAt)
	if !s.VerifiedAt.IsZero() {
		gauge(evidenceGood, one(s.VerifiedOK))
	}
	for _, kind := range []vault.AlarmKind{vault.AlarmTampered, vault.AlarmMissing, vault.AlarmLag, vault.AlarmRestore, vault.AlarmForked, vault.AlarmAnchor} {
		all <- prometheus.MustNewConstMetric(evidenceAlarms, prometheus.CounterValue, float64(s.Raised[kind]), string(kind))
		active := 0
		for _, a := range s.Alarms {
			if a.Kind == kind {
				active++
			}
		}
		gauge(evidenceActive, float64(active), string(kind))
	}
	for i, a := range s.Anchors {
		name := strconv.Itoa(i + 1)
		all <- prometheus.MustNewConstMetric(anchorFailures, prometheus.CounterValue, float64(a.Failures), name)
		at(anchorGood, a.GoodAt, name)
	}
}

// one returns 1 for true and 0 for false.
func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
