//go:build long && !race

package tampering

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestManyMixtures is TestMixtures with more mixtures, of seeds that differ from run
// to run. It ends before the test would time out.
func TestManyMixtures(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		left := 250_000
		if w.pg {
			left = 50_000
		}
		const each = 1000
		for ; left > 0 && !w.Failed(); left -= each {
			if end, ok := w.Deadline(); ok && time.Until(end) < 5*time.Minute {
				w.Logf("%d mixtures are left", left)
				return
			}
			w.mix(rand.Uint64(), 0, each)
		}
	})
}
