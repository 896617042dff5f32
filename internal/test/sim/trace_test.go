//go:build !race

package sim

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
)

// TestSameTrace runs each history twice, and compares the traces. On a busy machine the
// runtime may interrupt a goroutine, and then others proceed before it. So a history
// whose traces differ is repeated, until two traces are equal.
func TestSameTrace(t *testing.T) {
	const most = 4 // runs of a history
	seeds, twice := long.Rounds(5, 100), 0
	for seed := range uint64(seeds) {
		traces := map[uint64]bool{}
		again := false
		for !again && len(traces) < most {
			sum := history(t, plan{seed: seed}).sum
			again = traces[sum]
			traces[sum] = true
		}
		switch {
		case !again:
			t.Errorf("seed %d has %d traces in %d runs", seed, len(traces), most)
		case len(traces) == 1:
			twice++
		}
	}
	t.Logf("%d seeds, %d with the same trace in the first two runs", seeds, twice)
}
