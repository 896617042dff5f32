package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

func TestNewTenantOnATerminal(t *testing.T) {
	t.Parallel()
	d := terminaltest.New(t, 80)
	cmd := command(t.TempDir(), "", "-new-tenant", "Acme")
	cmd.Stderr = d.TTY
	out, err := cmd.Output()
	drawn := d.Finish()
	if err != nil {
		t.Fatalf("%v\n%s", err, drawn)
	}
	var c credentials
	if err := json.Unmarshal(out, &c); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("not one line of JSON: %s", out)
	}
	if !strings.Contains(drawn, "Creating ") || terminaltest.Screen(drawn) != "" {
		t.Errorf("drawn: %q, left: %q", drawn, terminaltest.Screen(drawn))
	}
}
