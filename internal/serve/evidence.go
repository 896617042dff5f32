package serve

import (
	"errors"
	"flag"
	"net/http"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
)

// evidenceFlags say whether and how the server keeps evidence of the log.
type evidenceFlags struct {
	origin  string
	anchors anchorList
}

// anchorTimeout bounds a call of an anchor behind a URL.
const anchorTimeout = 20 * time.Second

// anchorList is a flag that may be given several times.
type anchorList []string

func (l *anchorList) String() string { return strings.Join(*l, ",") }

// Set adds an anchor. In a variable of the environment, commas separate several.
func (l *anchorList) Set(text string) error {
	for _, a := range strings.Split(text, ",") {
		path, isFile := strings.CutPrefix(a, "file:")
		if (!isFile || path == "") && !strings.HasPrefix(a, "https://") {
			return errors.New("must be file:PATH or an https:// URL")
		}
		*l = append(*l, a)
	}
	return nil
}

func (c *Config) evidenceFlags(f *flag.FlagSet) {
	f.BoolVar(&c.Evidence, "evidence", c.Evidence, "make every change of the audit log detectable")
	f.StringVar(&c.evidence.origin, "evidence-origin", "", "`name` of the log in its signed notes; by default a random one, made once and stored")
	f.Var(&c.evidence.anchors, "evidence-anchor", "where signed notes are also kept, `file:PATH` or an https:// URL; may be given several times")
}

func (c *Config) checkEvidence() error {
	if c.evidence.origin == "" {
		return nil
	}
	return evidence.CheckOrigin(c.evidence.origin)
}

// evidenceConfig returns how the vault keeps evidence; nil for not at all.
func (c *Config) evidenceConfig() *vault.EvidenceConfig {
	if !c.Evidence {
		return nil
	}
	out := &vault.EvidenceConfig{Origin: c.evidence.origin}
	for _, a := range c.evidence.anchors {
		if path, ok := strings.CutPrefix(a, "file:"); ok {
			out.Anchors = append(out.Anchors, vault.AnchorFile(path))
			continue
		}
		out.Anchors = append(out.Anchors, vault.AnchorURL(a, &http.Client{Timeout: anchorTimeout}))
	}
	return out
}
