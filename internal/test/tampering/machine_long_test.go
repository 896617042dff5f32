//go:build long && !race

package tampering

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/long"
)

// TestManyMixtures is TestMixtures with more mixtures, of seeds that differ from run
// to run. It ends before the test would time out, and continues where it stopped.
//
//	go test -tags long -run TestManyMixtures -timeout 65m ./internal/test/tampering -args -long.state DIR
func TestManyMixtures(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		tally, goal := long.Resume(w, "mixtures-sqlite"), long.Goal(250_000)
		if w.pg {
			tally, goal = long.Resume(w, "mixtures-postgres"), long.Goal(50_000)
		}
		defer func() { w.Log(tally) }()
		const each = 1000
		for tally.Counts["mixtures"] < goal && !w.Failed() {
			if end, ok := w.Deadline(); ok && time.Until(end) < 5*time.Minute {
				return
			}
			w.mix(rand.Uint64(), 0, each)
			tally.Add("mixtures", each)
			tally.Save()
		}
	})
}

// TestEveryByte changes every byte of every column that evidence covers, one at a time,
// and sets every column to NULL. It ends before the test would time out.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	worlds(t, func(w *world) {
		tried := 0
		for _, key := range slices.Sorted(maps.Keys(w.b.rows)) {
			for i, value := range w.b.rows[key].values {
				for _, other := range otherValues(value) {
					if end, ok := w.Deadline(); ok && time.Until(end) < 5*time.Minute {
						w.Logf("%d changes were tried, up to %s", tried, key)
						return
					}
					m, r := newMixture(w, 0, 0), w.b.rows[key]
					if r.isKey(i) {
						m.drop(r)
					}
					m.add(r.with(i, other))
					if wrong, _ := m.try(modeOf(tried)); wrong != "" {
						w.Errorf("%s\n%s", wrong, m)
					}
					tried++
				}
			}
		}
	})
}
