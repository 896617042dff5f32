package serve

import (
	"errors"
	"flag"
	"net/http"
	"net/url"
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
