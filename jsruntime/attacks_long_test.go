//go:build long

package jsruntime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/script"
)

// attackLimit is the time limit of an attack.
const attackLimit = 500 * time.Millisecond

// TestAttacksEndInTime measures how soon an attack is over, and how long the next
// tenant waits. Each attack gets several tries, because the machine may be
// busy.
func TestAttacksEndInTime(t *testing.T) {
	r := newWorkers(t, nil)
	if _, err := runBody(r, "other", "return 1", patience); err != nil {
		t.Fatal(explain(err))
	}
	for _, s := range readCorpus(t, "attacks.jsonl") {
		t.Run(s.Name, func(t *testing.T) {
			late := ""
			for range 5 {
				if late = attackInTime(t, r, s.Body); late == "" {
					return
				}
			}
			t.Error(late)
		})
	}
}

// attackInTime runs one attack and then code of an innocent tenant. It returns
// what took too long.
func attackInTime(t *testing.T, r script.Runtime, body string) (late string) {
	t.Helper()
	start := time.Now()
	_, err := runBody(r, "attacker", body, attackLimit)
	took := time.Since(start)
	start = time.Now()
	out, otherErr := runBody(r, "other", "return 1", patience)
	next := time.Since(start)
	if otherErr != nil || out != "1" {
		t.Errorf("the next tenant got %q, %s", out, explain(otherErr))
	}
	t.Logf("after %v: %s; the next tenant after %v", took, explain(err), next)
	switch {
	case took > attackLimit+150*time.Millisecond:
		return fmt.Sprintf("the answer took %v, want at most %v", took, attackLimit+150*time.Millisecond)
	case next > 20*time.Millisecond:
		return fmt.Sprintf("the next tenant waited %v, want at most 20ms", next)
	}
	return ""
}
