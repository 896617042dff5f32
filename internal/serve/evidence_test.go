package serve

import (
	"io"
	"testing"
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
	} {
		c, err := parseFlags(tc.args, io.Discard)
		if (err != nil) != tc.bad {
			t.Errorf("%q: %v", tc.args, err)
		}
		if err != nil {
			continue
		}
		e := c.evidenceConfig()
		if (e != nil) != tc.on || e != nil && len(e.Anchors) != tc.anchors {
			t.Errorf("%q: %+v", tc.args, e)
		}
	}
}
