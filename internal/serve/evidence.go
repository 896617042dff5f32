package serve

import (
	"errors"
	"flag"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

// set adds anchors. In an environment variable, commas separate them.
func (l *anchorList) set(text string) error {
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
	f.Func("evidence-anchor", "where else to keep signed notes, `file:PATH` or an https:// URL; repeatable", c.evidence.anchors.set)
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

// reportEvidence reports the state of the evidence, if it is on.
func reportEvidence(r reporter, v *vault.Vault) {
	s, err := v.EvidenceStatus()
	if err != nil {
		return
	}
	r.gauge("vault_evidence_size", "Leaves of the vault's tree.", float64(s.Size))
	r.gauge("vault_evidence_lag_seconds", "Age of the oldest log entry of this node that is in no tree.", s.Lag.Seconds())
	r.gauge("vault_evidence_pending", "Log entries of this node that are in no tree.", float64(s.Pending))
	r.gauge("vault_evidence_suspended", "1 if nothing is signed because the database was restored or contradicts a note.", one(s.Suspended != ""))
	r.time("vault_evidence_last_checkpoint_timestamp_seconds", "When the newest note was signed.", s.SignedAt)
	r.time("vault_evidence_last_verification_timestamp_seconds", "When all logs were last verified.", s.VerifiedAt)
	if !s.VerifiedAt.IsZero() {
		r.gauge("vault_evidence_verified", "1 if that verification found no tampering.", one(s.VerifiedOK))
	}
	active := map[vault.AlarmKind]int{}
	for _, a := range s.Alarms {
		active[a.Kind]++
	}
	for _, kind := range []vault.AlarmKind{vault.AlarmTampered, vault.AlarmMissing, vault.AlarmLag, vault.AlarmRestore, vault.AlarmForked, vault.AlarmAnchor} {
		r.count("vault_evidence_alarms_total", "Alarms that were raised, by kind.", float64(s.Raised[kind]), "kind", string(kind))
		r.gauge("vault_evidence_alarms", "Alarms that are active, by kind.", float64(active[kind]), "kind", string(kind))
	}
	for i, a := range s.Anchors {
		name := strconv.Itoa(i + 1)
		r.count("vault_evidence_anchor_failures_total", "Calls of an anchor that failed.", float64(a.Failures), "anchor", name)
		r.time("vault_evidence_anchor_last_success_timestamp_seconds", "When an anchor last responded.", a.GoodAt, "anchor", name)
	}
}

// one returns 1 for true and 0 for false.
func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
