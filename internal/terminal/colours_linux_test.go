package terminal_test

import (
	"io"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

func TestColours(t *testing.T) {
	t.Parallel()
	d := terminaltest.New(t, 80)
	for _, c := range []struct {
		w    io.Writer
		env  map[string]string
		want bool
	}{
		{d.TTY, map[string]string{"TERM": "xterm"}, true},
		{d.TTY, nil, true},
		{d.TTY, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{d.TTY, map[string]string{"TERM": "dumb"}, false},
		{io.Discard, map[string]string{"TERM": "xterm"}, false},
	} {
		got := terminal.NewPalette(c.w, func(name string) string { return c.env[name] }).Bold("x")
		if (got == "\x1b[1mx\x1b[0m") != c.want || !c.want && got != "x" {
			t.Errorf("%v: %q", c.env, got)
		}
	}
	d.Finish()
}
