package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestEvidenceFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args    []string
		on, bad bool
		anchors int
	}{
		{args: nil},
		{args: []string{"-evidence", "-evidence-origin", "vault.example/log", "-evidence-anchor", "file:a", "-evidence-anchor", "https://b.example"}, on: true, anchors: 2},
		{args: []string{"-evidence", "-evidence-origin", "a b"}, bad: true},
		{args: []string{"-evidence-anchor", "ftp://x"}, bad: true},
		{args: []string{"-evidence-anchor", "file:"}, bad: true},
		{args: []string{"-evidence", "-evidence-anchor", "https://"}, bad: true},
		{args: []string{"-evidence", "-evidence-anchor", "https:///path"}, bad: true},
		{args: []string{"-evidence-anchor", "file:a"}, bad: true}, // would have no effect
	} {
		c, err := parseFlags(tc.args, io.Discard)
		must.Same(t, fmt.Sprintf("%q: %v", tc.args, err), tc.bad, err != nil)
		if err != nil {
			continue
		}
		e := c.evidenceConfig()
		if e != nil && e.VerifyEvery != 12*time.Hour {
			t.Errorf("%q: logs are verified every %s", tc.args, e.VerifyEvery)
		}
		if (e != nil) != tc.on || e != nil && len(e.Anchors) != tc.anchors {
			t.Errorf("%q: %+v", tc.args, e)
		}
	}
}

func TestEvidenceMetrics(t *testing.T) {
	t.Parallel()
	anchor := vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{anchor}}})
	must.Get(v.Checkpoint(t.Context()))(t)
	must.Get(v.VerifyLogs(t.Context(), nil))(t)
	m := newMetrics(func() script.Stats { return script.Stats{} })
	m.watch(v.Vault, nil, nil)
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		"vault_evidence_size 4\n", "vault_evidence_lag_seconds 0\n", "vault_evidence_pending 0\n", "vault_evidence_suspended 0\n", "vault_clock_ahead_seconds 0\n",
		"vault_evidence_verified 1\n", "vault_evidence_last_checkpoint_timestamp_seconds ", "vault_evidence_last_verification_timestamp_seconds ",
		`vault_evidence_alarms_total{kind="tampered"} 0`, `vault_evidence_anchor_failures_total{anchor="1"} 0`,
	} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("%q is missing", line)
		}
	}
}
