package main

import (
	"strings"
	"testing"
	"time"
)

func TestRotateKeysOfATenantThatIsNotThere(t *testing.T) {
	t.Parallel()
	out, err := command(t.TempDir(), "", "-rotate-keys", "7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "tenant 7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11: ") || strings.Contains(string(out), "Rotated") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		done, total int
		width       int
		want        string
	}{
		{"Rotating keys", 250, 1000, 80, "Rotating keys  [=======                       ]  250 of 1000  3s"},
		{"Rotating keys", 1000, 1000, 52, "Rotating keys  [================]  1000 of 1000  3s"},
		{"Rotating keys", 1200, 1000, 0, "Rotating keys  [==============================]  1000 of 1000  3s"},
		{"Rotating keys", 250, 1000, 40, "Rotating keys  250 of 1000  3s"},
		{"Rotating keys", 250, 1000, 20, "Rotating keys  250 "},
		{"Rotating keys", 0, 0, 80, "Rotating keys  3s"},
		{"Rotating keys", 0, 0, 1, ""},
	} {
		p := &progress{text: c.text, done: c.done, total: c.total}
		if got := p.line(c.width, 3*time.Second); got != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, got, c.want)
		}
	}
}
