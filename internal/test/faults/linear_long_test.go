//go:build long && unix

package faults

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
)

// TestManyLinearizable is TestLinearizable with 200,000 operations.
//
//	go test -tags long -run TestManyLinearizable -timeout 0 ./internal/test/faults -args -long.state DIR
func TestManyLinearizable(t *testing.T) {
	t.Parallel()
	c, tally := cluster(t), long.Resume(t, "linearizable")
	before := 0
	linearizable(t, c.URL, func(rounds, operations int) bool {
		if rounds > 0 {
			tally.Add("operations", operations-before)
			tally.Add("histories", 1)
			tally.Save()
		}
		before = operations
		return tally.Counts["operations"] < long.Goal(200_000)
	}, c)
	t.Log(tally)
}
