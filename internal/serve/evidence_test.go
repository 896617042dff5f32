package serve

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
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
